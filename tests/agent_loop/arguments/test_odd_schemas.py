"""Tools with odd or invalid schemas: every call still gets an answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import LoopConfig
from dirge_py.agent_loop.argument_repair import (
    nest_arguments,
    repair_arguments,
    schema_for_model,
)
from dirge_py.agent_loop.tool_calls import explain_invalid_arguments
from dirge_py.types.tools import ArgumentProblem, InvalidArguments
from tests.security.sizes import size
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import asking, prepared

TYPES = ["type", "enum", "const", "format", "object", "string", "array"]
PLACES = ["properties", "items", "prefixItems", "required", "additionalProperties", "path", "a"]
LINKS = ["anyOf", "allOf", "$ref", "$defs", "#", "#/$defs/a", "x-together", "requires", "defaults"]
WORDS = st.sampled_from([*TYPES, *PLACES, *LINKS])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=14,
)
SCHEMAS = st.dictionaries(WORDS, ODD, max_size=5)
ARGUMENTS = st.dictionaries(WORDS, ODD, max_size=3)


@given(SCHEMAS, ARGUMENTS | st.text(max_size=8))
@settings(max_examples=size(33, 100), deadline=None)
def test_an_odd_schema_is_at_worst_a_refusal(schema, arguments):
    schema_for_model(schema)
    nest_arguments(schema, arguments)
    call = prepared(Tool("t", parameters=schema), arguments)
    assert call.problem is None or call.problem_text


@given(SCHEMAS, ARGUMENTS, st.lists(WORDS | st.integers(0, 2), max_size=3))
@settings(max_examples=size(26, 80), deadline=None)
def test_an_error_is_explained_whatever_the_schema_is(schema, arguments, path):
    for kind in ("missing", "type", "enum", "extra", "other"):
        problem = ArgumentProblem(path=tuple(path), kind=kind, message="no")
        text = explain_invalid_arguments("t", schema, arguments, message="no", problems=[problem])
        assert text.count("\n") == 3


@given(SCHEMAS, ARGUMENTS)
@settings(max_examples=size(26, 80), deadline=None)
def test_what_is_mended_by_an_odd_schema_is_validated_once_more(schema, arguments):
    asked = []

    def refuse(given):
        asked.append(given)
        raise InvalidArguments("never")

    try:
        repair_arguments("t", schema, arguments, refuse)
    except InvalidArguments:
        assert 1 <= len(asked) <= 2
    else:
        raise AssertionError("nothing was valid")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"path": {"format": ["x"], "type": [["string"]]}}},
        {"properties": {"path": {}}, "required": [["path"], 5]},
        {"properties": {"path": {"properties": {"a": {"properties": {"b": 1}}}, "required": True}}},
        {"x-together": [{"requires": "path", "defaults": [1]}, 5, {"requires": ["path"]}]},
        {"x-together": {"requires": ["path"]}},
        {"properties": ["path"], "enum": "a", "anyOf": {"a": 1}, "$defs": []},
    ],
)
def test_words_that_a_schema_uses_wrongly_are_passed_over(schema):
    schema_for_model(schema)
    arguments = {"path": "a", "b": None}
    assert repair_arguments("t", schema, arguments, dict).arguments == arguments

    def refuse(_given):
        raise InvalidArguments("never")

    with pytest.raises(InvalidArguments, match="never"):
        repair_arguments("t", schema, arguments, refuse)
    assert explain_invalid_arguments("t", schema, arguments, message="never")


async def test_a_tool_with_a_broken_schema_is_told_of_and_ends_no_run():
    tool = Tool("t", parameters={"type": "thing", "properties": {"a": {"required": True}}})
    run = await run_loop(asking(("t", {})), "go", tools=[tool], config=LoopConfig())
    assert run.outcomes == ["ok"]
