import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.agent_loop.tool_calls import canonical_json, signature

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reordered(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


def test_case_98_key_order_and_integral_floats_give_the_same_signature():
    one = signature("read", {"a": {"x": 1, "y": [1, 2.0]}, "b": 1})
    other = signature("read", {"b": 1.0, "a": {"y": [1.0, 2], "x": 1}})
    assert one == other == 'read\0{"a":{"x":1,"y":[1,2]},"b":1}'


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (0, None), ("1", 1), (1.5, "1.5"), ([1], {"0": 1}), ({}, []), ("", {})],
)
def test_values_that_differ_in_json_have_different_signatures(one, other):
    assert canonical_json(one) != canonical_json(other)


def test_tool_name_is_part_of_the_signature():
    assert signature("a", {}) != signature("b", {})


@given(json_values)
def test_equal_values_have_equal_canonical_json(value):
    text = canonical_json(value)
    assert canonical_json(reordered(value)) == text
    finite = not any(math.isinf(item) for item in _floats(value))
    if finite:
        assert canonical_json(json.loads(text)) == text


def _floats(value):
    match value:
        case float():
            yield value
        case dict():
            for item in value.values():
                yield from _floats(item)
        case list():
            for item in value:
                yield from _floats(item)


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no words")


class Hostile(dict):
    def items(self):
        raise RuntimeError("not today")


def test_value_without_a_json_form_equals_only_itself():
    deep: object = 0
    for _ in range(50_000):
        deep = [deep]
    holding_itself: list[object] = []
    holding_itself.append(holding_itself)
    for strange in (deep, holding_itself, {"a": 10**6000}, {3: 1, None: 2}, Unprintable()):
        assert canonical_json(strange) == canonical_json(strange)
        assert canonical_json(strange) != canonical_json([strange])
    one, other = Hostile(a=1), Hostile(a=1)
    assert canonical_json(one) != canonical_json(other)
    assert canonical_json({"b": float("nan"), "a": "\ud800"}) == '{"a":"\\ud800","b":NaN}'
    assert canonical_json([[1], [1]]) == "[[1],[1]]"
