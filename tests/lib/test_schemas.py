import pytest

from dirge_py.lib.schemas import (
    ANYTHING,
    child,
    choices_at,
    is_closed,
    properties_of,
    required_in,
    resolved,
    schema_at,
    type_of,
    types_at,
)

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "integer"),
        (1.5, "number"),
        (float("inf"), "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_every_json_value_has_one_type(value, kind):
    assert type_of(value) == kind


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (TEXT, {"string"}),
        (NUMBER, {"number", "integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": 5}, ANYTHING),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"const": True}, {"boolean"}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"string", "null"}),
        ({"allOf": [{"type": ["string", "null"]}, TEXT]}, {"string"}),
        ({"$ref": "#/$defs/a~1b"}, {"string"}),
        ({"$ref": "#/$defs/nowhere"}, ANYTHING),
        ({"$ref": "https://example.org"}, ANYTHING),
        ({"$ref": "#/$defs/circle"}, ANYTHING),
        ({"$ref": "#/$defs/spiral"}, {"null", "string"} | ANYTHING),
        (True, ANYTHING),
    ],
)
def test_types_of_a_schema_are_those_it_accepts(schema, types):
    root = {
        "$defs": {
            "a/b": TEXT,
            "circle": {"$ref": "#/$defs/circle"},
            "spiral": {"anyOf": [{"$ref": "#/$defs/spiral"}, TEXT]},
        }
    }
    assert types_at(schema, root) == types


def test_reference_to_the_root_is_the_whole_schema():
    root = {"properties": {"again": {"$ref": "#"}}}
    assert resolved({"$ref": "#"}, root) is root
    assert schema_at(root, ("again", "again")) is root


def test_combined_schemas_are_merged():
    schema = {
        "properties": {"a": TEXT},
        "required": ["a"],
        "allOf": [{"properties": {"b": NUMBER}, "required": ["b"], "additionalProperties": False}],
        "anyOf": [{"properties": {"a": NUMBER, "c": {"enum": [1]}}}, {"properties": {"c": {}}}],
    }
    assert properties_of(schema, schema) == {"c": {"enum": [1]}, "b": NUMBER, "a": TEXT}
    assert required_in(schema, schema) == {"a", "b"}
    assert is_closed(schema, schema)
    assert choices_at({"anyOf": [{"enum": [1, 2]}, {"const": 3}]}, schema) == [1, 2, 3]


def test_schema_at_a_path_is_found_by_names_and_indexes():
    schema = {
        "properties": {
            "pair": {"prefixItems": [TEXT], "items": NUMBER},
            "free": {"additionalProperties": TEXT},
            "none": {"additionalProperties": False},
        }
    }
    assert schema_at(schema, ("pair", 0)) == TEXT
    assert schema_at(schema, ("pair", 5)) == NUMBER
    assert schema_at(schema, ("free", "anything")) == TEXT
    assert schema_at(schema, ("none", "anything", 3)) == {}
    assert child(schema, "other", schema) == {}
    assert not is_closed({"additionalProperties": False, "patternProperties": {"^x": {}}}, schema)
