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
def test_invalid_schema_causes_at_most_a_refused_call(schema, arguments):
    schema_for_model(schema)
    nest_arguments(schema, arguments)
    call = prepared(Tool("t", parameters=schema), arguments)
    assert call.problem is None or call.problem_text


@given(SCHEMAS, ARGUMENTS, st.lists(WORDS | st.integers(0, 2), max_size=3))
@settings(max_examples=size(26, 80), deadline=None)
def test_error_is_explained_for_any_schema(schema, arguments, path):
    for kind in ("missing", "type", "enum", "extra", "other"):
        problem = ArgumentProblem(path=tuple(path), kind=kind, message="no")
        text = explain_invalid_arguments("t", schema, arguments, message="no", problems=[problem])
        assert text.count("\n") == 3


@given(SCHEMAS, ARGUMENTS)
@settings(max_examples=size(26, 80), deadline=None)
def test_arguments_repaired_by_an_invalid_schema_are_validated_again(schema, arguments):
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
def test_misused_schema_keywords_are_ignored(schema):
    schema_for_model(schema)
    arguments = {"path": "a", "b": None}
    assert repair_arguments("t", schema, arguments, dict).arguments == arguments

    def refuse(_given):
        raise InvalidArguments("never")

    with pytest.raises(InvalidArguments, match="never"):
        repair_arguments("t", schema, arguments, refuse)
    assert explain_invalid_arguments("t", schema, arguments, message="never")


async def test_tool_with_an_invalid_schema_does_not_end_the_run():
    tool = Tool("t", parameters={"type": "thing", "properties": {"a": {"required": True}}})
    run = await run_loop(asking(("t", {})), "go", tools=[tool], config=LoopConfig())
    assert run.outcomes == ["ok"]
