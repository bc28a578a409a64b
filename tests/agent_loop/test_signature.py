import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.agent_loop.signature import canonical_json, result_digest, short_signature, signature
from dirge_py.types.messages import ImageBlock
from dirge_py.types.tools import LoopToolResult, text_result

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


def test_case_98_key_order_and_integral_floats_make_no_difference():
    one = signature("read", {"a": {"x": 1, "y": [1, 2.0]}, "b": 1})
    other = signature("read", {"b": 1.0, "a": {"y": [1.0, 2], "x": 1}})
    assert one == other == 'read\0{"a":{"x":1,"y":[1,2]},"b":1}'


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (0, None), ("1", 1), (1.5, "1.5"), ([1], {"0": 1}), ({}, []), ("", {})],
)
def test_what_differs_in_json_differs(one, other):
    assert canonical_json(one) != canonical_json(other)


def test_the_name_is_part_of_it():
    assert signature("a", {}) != signature("b", {})


@given(json_values)
def test_equal_values_are_written_equally_and_as_json(value):
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


def test_any_value_has_a_signature():
    deep: object = 0
    for _ in range(50_000):
        deep = [deep]
    holding_itself: list[object] = []
    holding_itself.append(holding_itself)
    strange = {
        "nan": float("nan"),
        "inf": float("inf"),
        "long": 10**6000,
        "bytes": b"\xff",
        "set": {"b", "a"},
        "half": "\ud800",
        3: "three",
        None: Unprintable(),
        "hostile": Hostile(a=1),
    }
    assert canonical_json(deep).startswith("[[[[")
    assert canonical_json(holding_itself) == '["…"]'
    assert canonical_json(strange) == canonical_json(dict(reversed(strange.items())))
    assert canonical_json([[1], [1]]) == "[[1],[1]]"


def test_long_arguments_are_carried_as_a_hash():
    short, long = signature("write", {"a": 1}), signature("write", {"a": "x" * 5000})
    assert short_signature(short) == short
    assert short_signature(long).startswith("write\0sha256:")
    assert len(short_signature(long)) < 100
    assert short_signature(long) != short_signature(signature("write", {"a": "y" * 5000}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 failed in 0.03s  \r\nx", "1 failed in 1.74s\nx"),
        ("took 12 ms", "took 9 ms"),
        ("<A object at 0x7f3a2b4c5d60>", "<A object at 0x7f3a2b4c0000>"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_what_differs_from_run_to_run_is_no_news(one, other):
    assert result_digest(text_result(one)) == result_digest(text_result(other))


@pytest.mark.parametrize(
    "other",
    [
        text_result("2 failed"),
        text_result("1 failed", outcome="failed_command"),
        text_result("1 failed", outcome="error", is_error=True),
        LoopToolResult(content=(ImageBlock(asset_id="a", media_type="image/png"),)),
    ],
)
def test_another_text_outcome_or_picture_is_news(other):
    assert result_digest(text_result("1 failed")) != result_digest(other)


def test_a_very_long_result_is_compared_as_it_is():
    said = [f"{'line' * 20_000}\n1 failed in {seconds}s" for seconds in (0.1, 0.1, 0.2)]
    first, same, other = [result_digest(text_result(text)) for text in said]
    assert first == same != other
