import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop.tool_calls import (
    cut_json,
    explain_invalid_arguments,
    json_pointer,
    value_at,
)
from dirge_py.types.tools import ArgumentProblem
from tests.security.sizes import size
from tests.support.loop_runs import Tool
from tests.support.tool_arguments import INTEGER, STRICT, STRING, prepared, shaped

ITEM = shaped(["path", "mode"], path=STRING, mode={"enum": ["write", "append", "read"]})
SCHEMA = {"type": "object", "properties": {"edits": {"type": "array", "items": ITEM}}}


def error_parts(schema, arguments):
    """The four parts of the error text, by their labels."""
    call = prepared(Tool("t", parameters=schema), arguments)
    assert call.problem == "invalid_arguments"
    parts = dict(line.split(": ", 1) for line in call.problem_text.split("\n"))
    assert list(parts) == ["Rejected", "Expected", "Got", "Try"]
    return parts


def test_case_86_error_in_a_nested_value_shows_the_schema_at_its_path():
    parts = error_parts(SCHEMA, {"edits": [{"path": 5, "mode": "write"}]})

    assert "`t`" in parts["Rejected"] and "at /edits/0/path: " in parts["Rejected"]
    assert json.loads(parts["Expected"]) == STRING
    assert json.loads(parts["Got"]) == {"edits": [{"path": 5, "mode": "write"}]}
    assert "/edits/0/path" in parts["Try"] and "(string)" in parts["Try"]


def test_case_86_missing_property_error_shows_its_schema():
    parts = error_parts(SCHEMA, {"edits": [{"path": "a"}]})
    assert json.loads(parts["Expected"]) == {"enum": ["write", "append", "read"]}
    assert parts["Try"] == "add `mode` (string)."


@pytest.mark.parametrize(
    ("given", "meant"), [("writ", 'You probably meant "write".'), ("zzzzzz", None), (7, None)]
)
def test_case_86_invalid_enum_value_error_lists_allowed_and_nearest_values(given, meant):
    hint = error_parts(SCHEMA, {"edits": [{"path": "a", "mode": given}]})["Try"]
    assert '["write","append","read"]' in hint
    assert (meant in hint) if meant else ("probably" not in hint)


def test_a6_enum_suggestion_is_given_even_after_another_error():
    parts = error_parts(SCHEMA, {"edits": [{"path": 5, "mode": "writ"}]})
    assert 'You probably meant "write".' in parts["Try"]
    assert parts["Rejected"].count("at /edits/0/") == 2


@pytest.mark.parametrize(
    ("schema", "arguments", "advice"),
    [
        (STRICT, {"path": None}, "give /path a value (string): it is required."),
        (shaped(n={"type": "number"}, m=STRING), {"n": "x", "m": "a"}, "give /n a value (number)"),
        (shaped(a=STRING), {"ab": "x"}, "write `a` instead of `ab`."),
        (shaped(["l"], l={"type": "array"}), {"l": 5}, "write /l as a JSON array"),
        (STRICT, {}, "add `path` (string)."),
        ({"minProperties": 1}, {}, "one JSON object that fits"),
        ({"required": ["x"]}, {}, "add `x`."),
    ],
)
def test_case_86_error_gives_one_piece_of_advice(schema, arguments, advice):
    assert advice in error_parts(schema, arguments)["Try"]


def test_a7_advice_says_to_leave_out_an_optional_null_but_not_a_required_one():
    problem = ArgumentProblem(path=("n",), kind="type", message="no number")
    for required, words in (([], "leave out /n"), (["n"], "it is required")):
        schema = shaped(required, n=INTEGER)
        assert words in explain_invalid_arguments(
            "t", schema, {"n": None}, message="", problems=[problem]
        )


def test_case_86_shown_arguments_are_truncated_to_200_bytes():
    got = error_parts(STRICT, {"path": 1, "x": "a" * 500})["Got"]
    assert len(got.encode()) <= 200
    assert got.endswith("…")


@given(st.text(min_size=150, max_size=400), st.integers(8, 300))
@settings(max_examples=size(33, 100))
def test_case_86_truncation_never_splits_a_character(text, most):
    shown = cut_json({"a": text}, most)
    assert len(shown.encode()) <= most
    assert (
        shown.removesuffix("…")
        in json.dumps({"a": text}, ensure_ascii=False, separators=(",", ":"))
        .encode(errors="replace")
        .decode()
    )


def test_arguments_that_are_not_json_are_shown_by_type():
    loop = []
    loop.append(loop)
    assert cut_json(loop, 50) == "list"
    assert cut_json({"a": {1, 2}}, 50).startswith('{"a":')


def test_json_pointer_escapes_slashes_and_tildes():
    assert (json_pointer(()), json_pointer(("a/b", 0, "c~"))) == ("/", "/a~1b/0/c~0")


def test_value_at_a_missing_path_is_none():
    assert value_at({"a": [1, {"b": 2}]}, ("a", 1, "b")) == 2
    assert value_at({"a": [1]}, ("a", 4)) is None
    assert value_at([1], ("a",)) is None


def test_only_the_first_eight_problems_are_listed():
    problems = [ArgumentProblem(path=(n,), kind="other", message="no") for n in range(11)]
    text = explain_invalid_arguments("t", STRICT, {}, message="", problems=problems)
    assert text.count("at /") == 8
    assert "and 3 more" in text


def test_error_without_a_path_shows_the_original_message():
    assert "only on Sundays" in explain_invalid_arguments(
        "t", STRICT, {}, message="only on Sundays"
    )


def test_expected_schema_in_an_error_is_the_schema_sent_to_the_model():
    schema = {**shaped(path=STRING), "x-together": [{"requires": ["path"]}]}
    text = explain_invalid_arguments("t", schema, {}, message="only on Sundays")
    assert "x-together" not in text and '"additionalProperties":false' in text
