"""Arguments that are not quite JSON are read if they mean one thing, and refused otherwise."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop.tool_calls import parse_arguments
from dirge_py.lib.lenient_json import read_object, read_value, same_json
from dirge_py.types.events import RepairStats
from tests.agent_loop.arguments.malformed_json import CUT_OFF, READABLE, UNCLEAR
from tests.security.sizes import size
from tests.support.loop_runs import run_loop
from tests.support.tool_arguments import (
    CHECKED,
    INTEGER,
    STRICT,
    STRING,
    OperationTool,
    asking,
    mended,
    prepared,
    shaped,
)

ROWS = [
    pytest.param(*row, id=f"{kind}-{n}")
    for kind in READABLE
    for n, row in enumerate(READABLE[kind])
]
REFUSED = [
    pytest.param(raw, id=f"{kind}-{n}") for kind in UNCLEAR for n, raw in enumerate(UNCLEAR[kind])
]

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(max_size=8) | st.text(alphabet="ab\"'\\{}[]:,/#_n \n“”", max_size=12)
NAMES = st.text(alphabet="abcdefgh_", min_size=1, max_size=6)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


@pytest.mark.parametrize(("raw", "value"), ROWS)
def test_json_slip_with_one_reading_is_repaired(raw: str, value: Any) -> None:
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (value, "repaired")
    assert same_json(parsed.value, value) and parsed.slips


@pytest.mark.parametrize("raw", REFUSED)
def test_json_slip_without_a_certain_reading_is_refused(raw: str) -> None:
    parsed = parse_arguments(raw)
    assert parsed.state not in ("whole", "repaired")
    assert parsed.value == raw or parsed.state == "closed"


@pytest.mark.parametrize(("raw", "value"), CUT_OFF)
def test_json_slip_in_truncated_text_is_repaired_and_closed(raw: str, value: Any) -> None:
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (value, "closed")


# -- properties


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=size(60, 600), deadline=None)
def test_valid_json_is_never_changed(value: Any, ascii_only: bool, indent: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse_arguments(raw).state == "whole"
    reading = read_object(raw)
    assert reading.state == "malformed" or same_json(reading.value, value), reading


@given(OBJECTS, st.data())
@settings(max_examples=size(60, 600), deadline=None)
def test_damaged_json_is_refused_or_read_as_the_original(value: Any, data: st.DataObject) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    outside = structure_of(raw)
    place = data.draw(st.sampled_from(outside))
    damage = data.draw(st.sampled_from(["delete", "double", *",:{}[]\"'"]))
    if damage == "delete":
        damaged = raw[:place] + raw[place + 1 :]
    else:
        mark = raw[place] if damage == "double" else damage
        damaged = raw[:place] + mark + raw[place:]
    parsed = parse_arguments(damaged)
    # A character that lands inside a string makes another valid document.
    if parsed.state == "repaired":
        assert same_json(parsed.value, value), damaged


@given(OBJECTS, st.data())
@settings(max_examples=size(60, 600), deadline=None)
def test_json_with_slips_is_refused_or_read_as_the_original(
    value: Any, data: st.DataObject
) -> None:
    slips = data.draw(st.sets(st.sampled_from(["comma", "single", "bare", "python", "comment"])))
    raw = written(value, slips, data)
    before, after = data.draw(st.sampled_from(AROUND))
    parsed = parse_arguments(before + raw + after)
    assert parsed.state in ("whole", "repaired", "malformed")
    if parsed.state == "repaired":
        assert same_json(parsed.value, value), raw


@given(OBJECTS)
@settings(max_examples=size(60, 600), deadline=None)
def test_python_repr_is_refused_or_read_as_its_value(value: Any) -> None:
    parsed = parse_arguments(repr(value))
    if parsed.state in ("whole", "repaired"):
        assert same_json(parsed.value, value)


@given(OBJECTS, st.text(alphabet='ab" ,(}]', max_size=10).filter(lambda text: '"' in text))
@settings(max_examples=size(60, 600), deadline=None)
def test_unescaped_quotes_are_refused_or_read_as_intended(value: Any, text: str) -> None:
    raw = json.dumps({**value, "z": "@"}).replace('"@"', f'"{text}"')
    parsed = parse_arguments(raw)
    if parsed.state == "repaired":
        assert same_json(parsed.value, {**value, "z": text})


@given(st.text(alphabet="{}[]\"':,\\u12ea \n/*#`“”TrueNon", max_size=40) | st.text(max_size=40))
@settings(max_examples=size(60, 600), deadline=None)
def test_read_object_never_raises_and_returns_json_values(raw: str) -> None:
    reading = read_object(raw)
    assert bool(reading.problem) == (reading.state in ("cut_off", "malformed"))
    assert json.loads(json.dumps(reading.value)) == reading.value


AROUND = [
    ("", ""),
    ("```json\n", "\n```"),
    ("Here are the arguments: ", ""),
    ("", "\nI hope this helps."),
    ("[", "]"),
    ("", "}"),
    ("\ufeff", ""),
    ("{}", ""),
]


def structure_of(raw: str) -> list[int]:
    """Positions of structural characters outside strings, and of quotes around strings."""
    places, is_text, is_escaped = [], False, False
    for place, mark in enumerate(raw):
        if not is_text or (mark == '"' and not is_escaped):
            places += [place] if mark in '{}[],:"' else []
            is_text ^= mark == '"'
        is_escaped = is_text and mark == "\\" and not is_escaped
    return places


def written(value: Any, slips: set[str], data: st.DataObject) -> str:
    """The value as JSON with these slips, at drawn positions."""
    comma = "," if "comma" in slips else ""
    comment = " /* it */ " if "comment" in slips else ""
    match value:
        case dict():
            members = ",".join(
                f"{comment}{name if 'bare' in slips else json.dumps(name)}: "
                f"{written(each, slips, data)}"
                for name, each in value.items()
            )
            return f"{{{members}{comma if value else ''}}}"
        case list():
            items = ",\n".join(written(each, slips, data) for each in value)
            return f"[{items}{comma if value else ''}]"
        case str() if "single" in slips and data.draw(st.booleans()):
            return "'" + json.dumps(value)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        case True | False | None if "python" in slips:
            return repr(value)
    return json.dumps(value)


# -- time


@pytest.mark.parametrize(
    "raw",
    [
        "{'a': 1" + ",'b': 1" * 1_500_000,
        '{"a": ""' + 'x"' * 5_000_000,
        '{"a": "' + "x" * 10_000_000 + '" y}',
        '{"a": ' + "[" * 10_000,
        "{" * 10_000 + "}" * 10_000,
        '{"a": 1}' + "}" * 10_000_000 + "x",
        "{'a': '" + "\\" * 10_000_000 + "'}",
        "x " * 5_000_000 + '{"a": 1}',
        '{"a": 1 ' + " " * 10_000_000 + "x",
        "{'a': 1}" * 1_000_000,
        '{"a": 1 ' + "/* " * 3_000_000,
        '{"a": ""' + ' "}  ' * 2_000_000,
        '{"a": 1} ' + "<s>" * 3_000_000 + "x",
        '{"a": "' + 'x "y" ' * 20_000 + "z" * 20_000_000,
    ],
    ids=lambda raw: repr(raw[:16]),
)
def test_long_malformed_json_is_refused_in_bounded_time(raw: str) -> None:
    # Far more than it takes: a reader that is not linear would need hours.
    from time import process_time

    begin = process_time()
    parsed = parse_arguments(raw)
    assert parsed.state in ("malformed", "cut_off")
    assert len(parsed.problem) < 500
    assert process_time() - begin < 10


def test_long_json_with_one_slip_is_repaired() -> None:
    content = 'x = "\\n"\n' * 1_000_000
    raw = json.dumps({"path": "a", "content": content})[:-1] + ",}"
    assert parse_arguments(raw).value == {"path": "a", "content": content}


# -- calls with such arguments


@pytest.mark.parametrize("operation", ["read", "edit"])
async def test_call_with_a_json_slip_runs_and_is_counted(operation: Any) -> None:
    tool = OperationTool("w", parameters=STRICT, ops=[operation])
    run = await run_loop(asking(("w", "{'path': 'a',}")), "go", tools=[tool], config=CHECKED)

    assert tool.ran == [{"path": "a"}]
    assert [block.text for block in run.results[0].content] == ["ok"]
    assert run.recorder.of(RepairStats)[0].counts == {"json_slips": 1}


async def test_ambiguous_json_repair_is_noted_for_the_model() -> None:
    tool = OperationTool("w", parameters=STRICT, ops=["edit"])
    raw = 'Here is the call: {"path": "it\\\'s"}'
    run = await run_loop(asking(("w", raw)), "go", tools=[tool], config=CHECKED)

    assert tool.ran == [{"path": "it's"}]
    *notes, _ = [block.text for block in run.results[0].content]
    assert "\\'" in "".join(notes) and "Here is the call:" in "".join(notes)


@pytest.mark.parametrize(("operation", "runs"), [("read", True), ("edit", False)])
async def test_truncated_json_with_a_slip_runs_only_read_calls(operation: Any, runs: bool) -> None:
    tool = OperationTool("w", parameters=STRICT, ops=[operation])
    run = await run_loop(asking(("w", "{'path': 'src/a")), "go", tools=[tool], config=CHECKED)

    assert bool(tool.ran) is runs
    assert "cut off" in run.results[0].text
    counts = {"truncation_fixed": 1, "json_slips": 1}
    assert run.recorder.of(RepairStats)[0].counts == (counts if runs else {**counts, "invalid": 1})


async def test_malformed_arguments_error_names_the_position_and_the_format() -> None:
    tool = OperationTool("w", parameters=STRICT, ops=["edit"])
    raw = '{\n  "path": "a"\n  "content": "b"\n}'
    run = await run_loop(asking(("w", raw)), "go", tools=[tool], config=CHECKED)

    text = run.results[0].text
    assert (tool.ran, run.outcomes) == ([], ["invalid"])
    assert "Line 2, column 14" in text and "comma" in text and "one valid JSON object" in text
    assert "cut off" not in text and "shorter" not in text and "split" not in text
    assert run.recorder.of(RepairStats)[0].counts == {"invalid": 1}
    assert prepared(tool, raw).problem == "invalid_arguments"
    assert prepared(tool, '{"path": "a').problem == "truncated"


@pytest.mark.parametrize("raw", [[{"path": "a"}], '[{"path": "a"}]', "\"{'path': 'a'}\""])
def test_list_or_json_string_around_arguments_is_unwrapped(raw: Any) -> None:
    assert mended(STRICT, raw) == ({"path": "a"}, ("unwrapped_arguments",))


@pytest.mark.parametrize(
    "raw", ["[]", '[{"path": "a"}, {"path": "a"}]', "[1]", '[[{"path": "a"}]]']
)
def test_lists_without_exactly_one_object_are_refused(raw: str) -> None:
    arguments, _ = mended(STRICT, raw)
    assert "must be one JSON object" in arguments


LISTS = shaped(
    names={"type": "array", "items": STRING},
    counts={"type": "array", "items": INTEGER},
    options={"type": "object"},
)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"names": "['a', 'b']"}, {"names": ["a", "b"]}),
        ({"counts": "[1, 2,]"}, {"counts": [1, 2]}),
        ({"options": "{'a': True}"}, {"options": {"a": True}}),
        ({"names": "[a-z]*.py"}, {"names": ["[a-z]*.py"]}),
        ({"names": "['a'].py"}, {"names": ["['a'].py"]}),
        ({"names": "['it\\'s', '\\d']"}, {"names": ["['it\\'s', '\\d']"]}),
    ],
)
def test_python_list_in_a_string_is_parsed_only_if_unambiguous(arguments: Any, value: Any) -> None:
    assert mended(LISTS, arguments)[0] == value


def test_read_value_returns_none_for_empty_or_incomplete_text() -> None:
    assert (read_value(""), read_value("[1"), read_value("[1] x"), read_value("[1,]")) == (
        *(None,) * 3,
        [1],
    )
