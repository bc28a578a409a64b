"""Conversion of JSON Schema to the part that Gemini supports."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from dirge_py.providers.gemini_schema import parameters_schema, response_schema
from tests.security.sizes import size
from tests.support.strict_services import KEYWORDS


def converted(schema):
    """The schema of one property after conversion."""
    return parameters_schema({"type": "object", "properties": {"p": schema}})["properties"]["p"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "minLength": 1, "pattern": "^a", "title": "P"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "How many."},
            {"type": "INTEGER", "nullable": True, "description": "How many."},
        ),
        (
            {"type": ["string", "integer"], "description": "Which."},
            {"anyOf": [{"type": "STRING", "description": "Which."}, {"type": "INTEGER"}]},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}]},
            {
                "anyOf": [
                    {"type": "STRING", "nullable": True},
                    {"type": "BOOLEAN", "nullable": True},
                ]
            },
        ),
        ({"const": "on"}, {"type": "STRING", "enum": ["on"]}),
        ({"const": 3}, {"type": "INTEGER", "description": "Always 3."}),
        ({"enum": ["a", "", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        (
            {"type": "integer", "enum": [1, 2], "description": "Of two."},
            {"type": "INTEGER", "description": "One of: 1, 2. Of two."},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 2},
            {"type": "INTEGER", "minimum": 1, "maximum": 9},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "NUMBER"}),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
            {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": 1},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}},
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a", "gone"]}]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ),
    ],
)
def test_unsupported_schema_keywords_are_converted_or_dropped(schema, expected):
    assert converted(schema) == expected


@pytest.mark.parametrize("schema", [{}, True, {"description": "Anything."}])
def test_schema_without_type_allows_every_type(schema):
    types = [option["type"] for option in converted(schema)["anyOf"]]

    assert types == ["STRING", "NUMBER", "BOOLEAN", "OBJECT"]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_tool_without_parameters_has_no_schema(schema):
    assert parameters_schema(schema) is None


def test_references_are_inlined_and_recursion_ends():
    schema = {
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {"name": {"$ref": "#/$defs/Name"}, "left": {"$ref": "#/$defs/Tree"}},
            },
            "Name": {"$ref": "#/$defs/Text"},
            "Text": {"type": "string"},
        },
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree", "description": "A tree."}},
    }

    assert parameters_schema(schema)["properties"]["tree"] == {
        "type": "OBJECT",
        "description": "A tree.",
        "properties": {"name": {"type": "STRING"}, "left": {"type": "OBJECT"}},
    }


def test_object_alternatives_are_merged_into_one_property_list():
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "oneOf": [
            {"properties": {"text": {"type": "string"}}, "required": ["path", "text"]},
            {"properties": {"line": {"type": "integer"}}, "required": ["path", "line"]},
        ],
    }

    assert set(parameters_schema(schema)["properties"]) == {"path", "text", "line"}
    assert parameters_schema(schema)["required"] == ["path"]


def test_exponential_definitions_terminate():
    doubling = {
        f"d{n}": {"properties": {c: {"$ref": f"#/$defs/d{n + 1}"} for c in "abcd"}}
        for n in range(20)
    }
    schema = {"$defs": doubling, "$ref": "#/$defs/d0"}

    itself = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 12}}, "$ref": "#/$defs/a"}

    assert len(str(parameters_schema(schema))) < 2_000_000
    assert parameters_schema(itself) is None


class Place(BaseModel):
    line: int = Field(gt=0, description="1 is the first.")
    kind: Literal["a", "b"] = "a"


class Report(BaseModel):
    title: str = Field(min_length=1)
    places: list[Place] = []
    note: str | None = None


def test_pydantic_schema_converts_to_response_schema():
    assert response_schema(Report.model_json_schema()) == {
        "type": "OBJECT",
        "properties": {
            "title": {"type": "STRING"},
            "places": {
                "type": "ARRAY",
                "items": {
                    "type": "OBJECT",
                    "properties": {
                        "line": {
                            "type": "INTEGER",
                            "description": "1 is the first.",
                            "minimum": 1,
                        },
                        "kind": {"type": "STRING", "enum": ["a", "b"]},
                    },
                    "required": ["line"],
                },
            },
            "note": {"type": "STRING", "nullable": True},
        },
        "required": ["title"],
    }


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3))
NAMES = st.sampled_from(["a", "b", "type", "properties", "$ref", "enum"])


def _nested(inner):
    some = st.lists(inner, min_size=1, max_size=3)
    members = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(
                st.sampled_from(["object", "array", "string", "integer", "null", "odd"]),
                st.lists(st.sampled_from(["object", "string", "number", "null"]), max_size=3),
            ),
            "properties": members,
            "required": st.lists(NAMES, max_size=3),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "items": st.one_of(inner, some),
            "prefixItems": some,
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "enum": st.lists(SCALARS, max_size=3),
            "const": SCALARS,
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/gone", "x.json"]),
            "$defs": members,
            "minimum": SCALARS,
            "exclusiveMinimum": SCALARS,
            "minItems": SCALARS,
            "format": SCALARS,
            "description": SCALARS,
            "default": SCALARS,
            "nullable": SCALARS,
            "propertyNames": inner,
            "if": inner,
        },
    )


SCHEMAS = st.recursive(st.one_of(SCALARS, st.just({})), _nested, max_leaves=12)


def complaints(schema):
    """What Gemini would reject."""
    if not set(schema) <= KEYWORDS:
        yield set(schema) - KEYWORDS
    if "anyOf" in schema:
        if set(schema) != {"anyOf"} or not schema["anyOf"]:
            yield "something beside anyOf"
        for option in schema["anyOf"]:
            yield from complaints(option)
        return
    kind = schema.get("type")
    if kind not in ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"):
        yield f"type {kind}"
    if "enum" in schema and (kind != "STRING" or not all(schema["enum"])):
        yield "enum"
    if (kind == "ARRAY") != ("items" in schema):
        yield "items"
    if not set(schema.get("required", ())) <= set(schema.get("properties", ())):
        yield "required"
    if "items" in schema:
        yield from complaints(schema["items"])
    for member in schema.get("properties", {}).values():
        yield from complaints(member)


@settings(max_examples=size(60, 400))
@given(schema=SCHEMAS)
def test_any_schema_converts_to_supported_keywords_only(schema):
    whole = schema if isinstance(schema, dict) else {"properties": {"p": schema}}
    parameters = parameters_schema(whole) or {"type": "OBJECT"}

    assert list(complaints(parameters)) == []
    assert list(complaints(response_schema(whole))) == []
