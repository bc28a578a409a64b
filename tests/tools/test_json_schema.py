import subprocess
import sys

import pytest

from dirge_py.tools.toolbox import validate_schema
from dirge_py.types.tools import ArgumentProblem, InvalidArguments

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "mode": {"enum": ["r", "w"]},
        "edits": {"type": "array", "items": {"required": ["old"]}},
    },
    "patternProperties": {"^x-": {}},
    "required": ["path"],
    "additionalProperties": False,
}


def refused(schema, arguments):
    with pytest.raises(InvalidArguments) as caught:
        validate_schema(schema, arguments, tool="move")
    return caught.value


def test_valid_arguments_are_returned_unchanged():
    arguments = {"path": "a", "count": 1.0, "x-note": 1}
    assert validate_schema(SCHEMA, arguments) is arguments


def test_every_problem_is_reported_with_path():
    error = refused(SCHEMA, {"count": True, "mode": "a", "edits": [{}], "more": 1})

    places = {(each.path, each.kind) for each in error.problems}
    assert places == {
        (("path",), "missing"),
        (("count",), "type"),
        (("mode",), "enum"),
        (("edits", 0, "old"), "missing"),
        (("more",), "extra"),
    }
    assert str(error).startswith("The arguments of `move` do not fit:\n- ")


def test_a22_bool_is_no_integer_and_whole_float_is():
    assert refused(SCHEMA, {"path": "a", "count": True}).problems[0].path == ("count",)
    validate_schema(SCHEMA, {"path": "a", "count": 1.0})


def test_two_missing_properties_are_two_problems():
    error = refused({"required": ["a", "b"]}, {})
    assert error.problems == (
        ArgumentProblem(path=("a",), kind="missing", message="`a` is required"),
        ArgumentProblem(path=("b",), kind="missing", message="`b` is required"),
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "thing"},
        {"properties": {"path": {"pattern": "("}}},
        {"properties": {"path": {"$ref": "#/nowhere"}}},
        {"$ref": "https://example.org/schema.json"},
    ],
)
def test_unusable_schema_is_error_and_nothing_is_fetched(schema):
    text = str(refused(schema, {"path": "a"}))
    assert "`move`" in text and "not a valid JSON Schema" in text


def test_older_json_schema_draft_is_supported():
    tuple_of_one = {"items": [{"type": "string"}], "additionalItems": False}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": tuple_of_one},
    }
    validate_schema(schema, {"a": ["x"]})
    refused(schema, {"a": ["x", "y"]})


def test_long_value_is_truncated_in_error():
    error = refused({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 10_000})
    assert len(str(error)) < 500


def test_arguments_must_be_json_object():
    assert "one JSON object" in str(refused(SCHEMA, ["a"]))


def test_jsonschema_is_imported_on_first_validation():
    code = (
        "import sys, dirge_py.tools.toolbox as it\n"
        "assert 'jsonschema' not in sys.modules\n"
        "it.validate_schema({}, {})\n"
        "assert 'jsonschema' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
