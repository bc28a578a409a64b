import copy
import dataclasses
import pickle
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.config.problems import ANY, known_keys
from dirge_py.config.schema import (
    Bound,
    Keys,
    PermissionRule,
    PluginEntry,
    Positive,
    ProviderEntry,
    Text,
    config_from,
)
from dirge_py.config.table import (
    InvalidSettings,
    Range,
    Table,
    read_table,
    required,
    setting,
    values_of,
)


class Inner(Table):
    """A table in a table."""

    low: int = setting(1, "The lower end.")
    high: int = setting(2, "The upper end.", le=10)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.low > self.high:
            yield "low", "must not be above `high`"


class Outer(Table):
    """A table with one setting of each kind."""

    name: str = required(description="A name.")
    flag: bool = setting(True, "A flag.")
    count: Positive | None = setting(None, "A count.")
    ratio: float = setting(0.5, "A ratio.", ge=0, le=1)
    bound: Bound = setting(3, "Limited by its annotation.")
    choice: Literal["a", "b", "c"] = setting("a", "A choice.")
    texts: list[Text] = setting(["x"], "Texts.")
    one_or_more: str | list[str] = setting(list, "A text, or several.")
    keys: Keys = setting(list, "One key is a list, too.")
    prices: dict[str, Annotated[float, Range(ge=0)]] = setting(dict, "Prices.")
    options: dict[str, Any] = setting(dict, "Anything.")
    inner: Inner = setting(Inner)
    several: list[Inner] = setting(list, "Tables.")


def problems(values: object) -> list[tuple[Any, ...]]:
    with pytest.raises(InvalidSettings) as caught:
        read_table(Outer, values)
    return [(each.kind, *each.path, each.text) for each in caught.value.problems]


def test_absent_settings_have_their_defaults() -> None:
    table = read_table(Outer, {"name": "n"})

    assert table == Outer(name="n")
    assert (table.flag, table.count, table.texts, table.inner.high) == (True, None, ["x"], 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flag", False),
        ("count", 1),
        ("count", None),
        ("ratio", 0.0),
        ("ratio", 1),
        ("bound", 1000),
        ("choice", "c"),
        ("texts", []),
        ("one_or_more", "x"),
        ("one_or_more", ["x", "y"]),
        ("prices", {"a": 0, "b": 1.5}),
        ("options", {"a": [None, {"b": 1}]}),
    ],
)
def test_valid_value_is_read_as_it_is(key: str, value: object) -> None:
    assert getattr(read_table(Outer, {"name": "n", key: value}), key) == value


@pytest.mark.parametrize(
    ("key", "value", "place", "words"),
    [
        ("flag", 1, (), "must be true or false"),
        ("count", 0, (), "must be greater than 0"),
        ("count", True, (), "must be a whole number"),
        ("count", 1.0, (), "must be a whole number"),
        ("count", "5", (), "must be a whole number"),
        ("ratio", "1", (), "must be a number"),
        ("ratio", False, (), "must be a number"),
        ("ratio", float("nan"), (), "must be greater than or equal to 0"),
        ("ratio", 1.1, (), "must be less than or equal to 1"),
        ("ratio", 10**400, (), "must be a smaller number"),
        ("bound", -1, (), "must be greater than or equal to 0"),
        ("bound", 1001, (), "must be less than or equal to 1000"),
        ("choice", "d", (), "must be 'a', 'b' or 'c'"),
        ("choice", ["a"], (), "must be 'a', 'b' or 'c'"),
        ("name", None, (), "must be text"),
        ("texts", "x", (), "must be a list"),
        ("texts", ["x", ""], (1,), "must not be empty"),
        ("one_or_more", 1, (), "must be text"),
        ("one_or_more", ["x", 1], (1,), "must be text"),
        ("keys", [1], (0,), "must be text"),
        ("prices", [], (), "must be a table"),
        ("prices", {"a": -1}, ("a",), "must be greater than or equal to 0"),
        ("inner", 3, (), "must be a table"),
        ("inner", {"high": 11}, ("high",), "must be less than or equal to 10"),
        ("several", [{}, {"low": "1"}], (1, "low"), "must be a whole number"),
    ],
)
def test_invalid_value_is_reported_at_its_place(
    key: str, value: object, place: tuple[Any, ...], words: str
) -> None:
    assert problems({"name": "n", key: value}) == [("invalid", key, *place, f" {words}")]


def test_all_problems_of_all_tables_are_reported() -> None:
    values = {"flag": 1, "nme": "n", "inner": {"hihg": 1}, "several": [{"low": 3}]}

    assert sorted(problems(values), key=str) == [
        ("invalid", "flag", " must be true or false"),
        ("invalid", "several", 0, "low", ": must not be above `high`"),
        ("missing", "name", ""),
        ("unknown", "inner", "hihg", ""),
        ("unknown", "nme", ""),
    ]


def test_problem_of_key_does_not_contain_it() -> None:
    entry = {"type": "openai", "api_key": "sk-secret"}

    with pytest.raises(InvalidSettings) as caught:
        config_from({"providers": {"a": entry}})
    assert "sk-secret" not in f"{caught.value!r} {caught.value.problems}"


def test_other_settings_of_plugin_are_its_own() -> None:
    entry = read_table(PluginEntry, {"settings": 1, "depth": 3})

    assert (entry.enabled, entry.settings) == (True, {"settings": 1, "depth": 3})
    assert values_of(entry) == {"enabled": True, "settings": 1, "depth": 3}
    assert values_of(entry, only_given=True) == {"settings": 1, "depth": 3}


def test_table_is_a_frozen_record_with_named_parameters() -> None:
    rule = PermissionRule(op="read", match="x", effect="ask")

    assert dataclasses.replace(rule, match="y").match == "y"
    assert (
        copy.deepcopy(rule)
        == pickle.loads(pickle.dumps(rule))
        == rule
        != dataclasses.replace(rule, effect="deny")
    )
    assert repr(rule) == "PermissionRule(op='read', match='x', effect='ask')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.match = "y"  # type: ignore[misc]
    with pytest.raises(TypeError, match="needs 'type'"):
        ProviderEntry()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no mtch"):
        PermissionRule(op="read", match="x", effect="ask", mtch="y")  # type: ignore[call-arg]


VALUES = st.recursive(
    st.sampled_from(["", "a", "/a", "openai", "plan", "default", "input", "https://x.example"])
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@st.composite
def some_settings(draw: st.DrawFn) -> dict[str, Any]:
    """A few settings of the schema, each with any value."""
    settings: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(known_keys()), max_size=4)):
        table = settings
        for name in path[:-1]:
            table = table.setdefault("a" if name == ANY else name, {})
        table["a" if path[-1] == ANY else path[-1]] = draw(VALUES)
    return {**settings, **{name: [settings[name]] for name in ("guardrail",) if name in settings}}


@given(some_settings())
def test_settings_are_refused_or_mean_the_same_when_written_again(settings: Any) -> None:
    try:
        config = config_from(settings)
    except InvalidSettings as error:
        assert error.problems
        return
    again = config_from(values_of(config))
    assert repr(again) == repr(config)  # NaN does not equal itself
