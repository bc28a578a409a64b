import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop.argument_repair import nest_arguments, schema_for_model
from tests.security.sizes import size
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import CHECKED, INTEGER, STRING, asking, shaped

LIST = {"type": "array", "items": STRING}


def an_object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


DEEP = an_object(
    ["job", "name"],
    name=STRING,
    job=an_object(
        ["when"],
        when=an_object(["hour"], hour=INTEGER, zone=STRING),
        then=an_object(["tell"], tell=LIST),
    ),
)
WIDE = an_object(**{f"n{n}": STRING for n in range(10)}, box=an_object(n=STRING))


def test_case_90_schema_with_three_levels_is_flattened_to_dotted_names():
    schema = schema_for_model(DEEP)

    assert schema["properties"] == {
        "name": STRING,
        "job.when.hour": INTEGER,
        "job.when.zone": STRING,
        "job.then.tell": LIST,
    }
    assert schema["required"] == ["name", "job.when.hour"]


def test_case_90_schema_with_ten_leaves_and_two_levels_is_not_flattened():
    ten = an_object(**{f"n{n}": STRING for n in range(9)}, box=an_object(n=STRING))
    for schema in (an_object(), an_object(a=STRING), an_object(a=an_object(b=STRING)), ten):
        assert schema_for_model(schema) is schema


def test_case_90_schema_with_eleven_leaves_is_flattened():
    assert list(schema_for_model(WIDE)["properties"])[-1] == "box.n"
    eleven = an_object(**{f"n{n}": STRING for n in range(11)})
    assert schema_for_model(eleven)["properties"] == eleven["properties"]


def test_flattened_schema_is_cached():
    assert schema_for_model(DEEP) is schema_for_model(DEEP)


async def test_case_90_model_gets_flat_schema_and_tool_gets_nested_arguments():
    tool = Tool("plan", parameters=DEEP)
    flat = {"name": "n", "job.when.hour": 7, "job.then.tell": ["x"]}
    model = asking(("plan", flat))
    run = await run_loop(model, "go", tools=[tool], config=CHECKED)

    assert tool.ran == [{"name": "n", "job": {"when": {"hour": 7}, "then": {"tell": ["x"]}}}]
    assert model.seen[0].tools[0].parameters == schema_for_model(DEEP)
    assert run.new[1].calls[0].arguments == flat


async def test_flat_arguments_are_repaired():
    tool = Tool("plan", parameters=DEEP)
    flat = {"name": "n", "job.when.hour": "7", "job.then.tell": "x"}
    await run_loop(asking(("plan", flat)), "go", tools=[tool], config=CHECKED)
    assert tool.ran == [{"name": "n", "job": {"when": {"hour": 7}, "then": {"tell": ["x"]}}}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"job.when.hour": 1, "job": 5},
        {"job": 5, "job.when.hour": 1},
        {"job": {"when": {"hour": 1}}},
        {"job": {}, "job.when": {"hour": 1}},
        {"job.when.hour": 1, "job.when": "noon", "": 3, ".": 4},
    ],
)
def test_case_90_object_overrides_a_scalar_and_empty_names_are_ignored(arguments):
    assert nest_arguments(DEEP, arguments) == {"job": {"when": {"hour": 1}}}


def test_nested_and_dotted_arguments_can_be_mixed_without_mutation():
    arguments = {"job": {"when": {"zone": "UTC"}}, "job.when.hour": 1}
    before = copy.deepcopy(arguments)
    assert nest_arguments(DEEP, arguments) == {"job": {"when": {"zone": "UTC", "hour": 1}}}
    assert arguments == before


def test_case_90_dot_in_a_property_name_is_distinguished_from_nesting():
    schema = an_object(a=an_object(b=an_object(**{"c.d": STRING, "e": STRING})))
    (dotted, plain) = schema_for_model(schema)["properties"]
    assert dotted.count(".") == 2 and plain == "a.b.e"
    assert nest_arguments(schema, {dotted: "x"}) == {"a": {"b": {"c.d": "x"}}}


def test_arguments_of_an_unflattened_schema_are_the_same_object():
    schema, arguments = an_object(a=STRING), {"a.b": 1}
    assert nest_arguments(schema, arguments) is arguments
    assert nest_arguments(DEEP, "text") == "text"


@pytest.mark.parametrize(
    "schema",
    [
        {**DEEP, "anyOf": [{"required": ["name"]}]},
        an_object(a=an_object(b=an_object(**{"c" * 64: STRING}))),
        an_object(a=an_object(b=an_object(**{"c.d": STRING, "c-dot-d": STRING}))),
        {"type": "object"},
        {"type": "string"},
    ],
    ids=["anyOf", "long names", "ambiguous names", "object without properties", "not an object"],
)
def test_schema_that_cannot_be_flattened_stays_nested(schema):
    assert schema_for_model(schema) is schema


def test_object_with_additional_properties_is_a_leaf():
    free = {"type": "object", "additionalProperties": STRING, "properties": {"x": STRING}}
    schema = an_object(a=an_object(b=an_object(c=STRING), free=free))
    assert schema_for_model(schema)["properties"]["a.free"] == free


def test_references_are_resolved_and_defs_kept_only_if_needed():
    schema = an_object(a=an_object(b={"$ref": "#/$defs/B"}))
    schema["$defs"] = {"B": an_object(c=STRING)}
    told = schema_for_model(schema)
    assert list(told["properties"]) == ["a.b.c"] and "$defs" not in told

    endless = an_object(a={"$ref": "#/$defs/A"})
    endless["$defs"] = {"A": an_object(a={"$ref": "#/$defs/A"}, x=STRING)}
    told = schema_for_model(endless)
    assert "a.x" in told["properties"]
    assert ("$defs" in told) == ("$ref" in str(told["properties"]))


def test_internal_schema_keywords_are_not_sent_to_the_model():
    schema = {**an_object(a=STRING), "x-together": []}
    assert schema_for_model(schema) == an_object(a=STRING)


NAMES = st.sampled_from(["a", "b", "c.d", "path"])
TREES = st.recursive(
    st.sampled_from([STRING, LIST]),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
        lambda named: an_object(named, **named)
    ),
    max_leaves=14,
)


@given(st.dictionaries(NAMES, TREES, min_size=1).map(lambda named: an_object(named, **named)))
@settings(max_examples=size(50, 150), deadline=None)
def test_case_90_flattened_arguments_are_restored_by_nesting(schema):
    def value_of(part, name):
        if "properties" not in part:
            return name
        return {key: value_of(each, f"{name}/{key}") for key, each in part["properties"].items()}

    whole = value_of(schema, "")
    told = schema_for_model(schema)
    if told is schema:
        assert nest_arguments(schema, whole) is whole
        return
    leaves = iter(_leaves(whole))
    flat = {name: next(leaves) for name in told["properties"]}
    assert nest_arguments(schema, flat) == whole
    assert nest_arguments(schema, whole) == whole
    assert told["required"] == list(told["properties"])


def _leaves(value):
    if not isinstance(value, dict):
        yield value
        return
    for each in value.values():
        yield from _leaves(each)


async def test_closed_nested_schema_is_validated_after_nesting():
    schema = shaped(a=shaped(b=shaped(c=INTEGER)))
    tool = Tool("t", parameters=schema)
    run = await run_loop(asking(("t", {"a.b.x_unknown": 1})), "go", tools=[tool], config=CHECKED)
    assert tool.ran == [{"a": {"b": {}}}]
    assert "ignored `x_unknown`" in run.results[0].text
