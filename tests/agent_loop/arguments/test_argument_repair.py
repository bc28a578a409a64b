import contextlib
import copy
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import AfterToolCallResult, EditArgs, LoopConfig, StopRun
from dirge_py.agent_loop.argument_repair import repair_arguments
from dirge_py.agent_loop.tool_calls import prepare_call
from dirge_py.files.workspace import Workspace
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import Hints, ToolServices
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import RepairStats, ToolExecutionStart
from dirge_py.types.messages import TextBlock, ToolCallBlock
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import text_result
from tests.security.sizes import size
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import (
    CHECKED,
    INTEGER,
    STRICT,
    STRING,
    OperationTool,
    Unsure,
    asking,
    by_schema,
    mended,
    prepared,
    shaped,
)

LIST = {"type": "array", "items": STRING}
EDIT = shaped(["path"], path=STRING, line=INTEGER)
EDITS = {"type": "array", "items": EDIT}
TOGETHER = {
    **shaped(["path"], path=STRING, offset=INTEGER, limit=INTEGER),
    "x-together": [{"requires": ["offset", "limit"], "defaults": {"offset": 1, "limit": 2000}}],
}


def test_case_80_valid_arguments_are_passed_on_as_the_same_object():
    arguments = {"path": "a"}
    call = prepared(Tool(parameters=STRICT), arguments)

    assert call.arguments is arguments
    assert (call.repairs, call.notes, call.problem) == ((), (), None)


@pytest.mark.parametrize(
    ("schema", "arguments", "expected", "kinds"),
    [
        pytest.param(
            shaped(["path"], path=STRING, limit=INTEGER),
            {"path": "/a", "limit": None},
            {"path": "/a"},
            ("null_stripped",),
            id="81 null for an optional field",
        ),
        pytest.param(
            shaped(edits=EDITS),
            {"edits": [{"path": "a", "line": None}]},
            {"edits": [{"path": "a"}]},
            ("null_stripped",),
            id="81 null in an item",
        ),
        pytest.param(
            shaped(
                path=STRING, limit={"anyOf": [INTEGER, {"type": "null"}]}, tags={"type": "array"}
            ),
            {"path": "a", "limit": None, "tags": "x"},
            {"path": "a", "limit": None, "tags": ["x"]},
            ("bare_string_to_array",),
            id="A5 valid null is kept during a repair",
        ),
        pytest.param(
            shaped(paths=LIST),
            {"paths": '["a", "b"]'},
            {"paths": ["a", "b"]},
            ("json_string_to_array",),
            id="list as a JSON string",
        ),
        pytest.param(
            shaped(paths=LIST),
            {"paths": "a"},
            {"paths": ["a"]},
            ("bare_string_to_array",),
            id="string for a list",
        ),
        pytest.param(
            shaped(paths=LIST),
            {"paths": "[a"},
            {"paths": ["[a"]},
            ("bare_string_to_array",),
            id="string that only begins like a list",
        ),
        pytest.param(
            shaped(paths=LIST),
            {"paths": {}},
            {"paths": []},
            ("object_to_array",),
            id="empty object for a list",
        ),
        pytest.param(
            shaped(edits=EDITS),
            {"edits": {"path": "a"}},
            {"edits": [{"path": "a"}]},
            ("bare_object_to_array",),
            id="object for a list",
        ),
        pytest.param(
            shaped(edit=EDIT),
            {"edit": '{"path": "a", "line": "7"}'},
            {"edit": {"path": "a", "line": 7}},
            ("json_string_to_object", "stringified_scalar"),
            id="object as a JSON string with a number as a string",
        ),
        pytest.param(
            shaped(
                n=INTEGER, x={"type": "number"}, yes={"type": "boolean"}, no={"type": "boolean"}
            ),
            {"n": " 5", "x": "-1.5e3", "yes": "true", "no": "False"},
            {"n": 5, "x": -1500.0, "yes": True, "no": False},
            ("stringified_scalar",),
            id="several scalars as strings are counted once",
        ),
        pytest.param(
            shaped(["path"], path=STRING),
            {"file_path": "a"},
            {"path": "a"},
            ("key_alias",),
            id="alias",
        ),
        pytest.param(
            shaped(["oldText"], oldText=STRING),
            {"old_text": "a"},
            {"oldText": "a"},
            ("key_alias",),
            id="snake case for camel case",
        ),
        pytest.param(
            shaped(["command"], command=STRING),
            {"arguments": {"cmd": "ls"}},
            {"command": "ls"},
            ("unwrapped_arguments", "key_alias"),
            id="nested in `arguments`",
        ),
        pytest.param(
            shaped(["path"], path=STRING),
            {"name": "read", "arguments": '{"path": "a"}'},
            {"path": "a"},
            ("unwrapped_arguments",),
            id="complete call as its own arguments",
        ),
        pytest.param(
            shaped(["path"], path=STRING),
            '"{\\"path\\": \\"a\\"}"',
            {"path": "a"},
            ("unwrapped_arguments",),
            id="JSON encoded twice",
        ),
        pytest.param(
            shaped(["path"], path=STRING, tags=LIST),
            {"path": "a", "tags": "t", "mood": "fine"},
            {"path": "a", "tags": ["t"]},
            ("extra_stripped", "bare_string_to_array"),
            id="83 two kinds of repair in one call",
        ),
        pytest.param(
            {"$defs": {"L": LIST}, **shaped(paths={"$ref": "#/$defs/L"})},
            {"paths": "a"},
            {"paths": ["a"]},
            ("bare_string_to_array",),
            id="schema with a reference",
        ),
        pytest.param(
            shaped(edit={"anyOf": [EDIT, {"type": "null"}]}),
            {"edit": {"path": "a", "line": "7"}},
            {"edit": {"path": "a", "line": 7}},
            ("stringified_scalar",),
            id="schema with a union",
        ),
    ],
)
def test_arguments_with_one_clear_meaning_are_repaired(schema, arguments, expected, kinds):
    before = copy.deepcopy(arguments)

    assert mended(schema, arguments) == (expected, kinds)
    assert arguments == before


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        pytest.param(STRICT, {"path": None}, id="81 null for a required field"),
        pytest.param(STRICT, {}, id="missing required field"),
        pytest.param(STRICT, {"path": 5}, id="number for a string"),
        pytest.param(shaped(n=INTEGER), {"n": 1.5}, id="fraction for an integer"),
        pytest.param(shaped(n=INTEGER), {"n": True}, id="A22 true for a number"),
        pytest.param(shaped(n=INTEGER), {"n": "five"}, id="word for a number"),
        pytest.param(shaped(paths=LIST), {"paths": {"a": 1}}, id="object for a list of strings"),
        pytest.param(
            shaped(edits=EDITS), {"edits": [{"line": 1}]}, id="missing required field in an item"
        ),
        pytest.param(
            shaped(["path"], path=STRING),
            {"file": "a", "filename": "b"},
            id="two aliases for one field",
        ),
        pytest.param(
            shaped(["path", "file_path"], path=STRING, file_path=STRING),
            {"filename": "b"},
            id="one alias for two fields",
        ),
        pytest.param(
            shaped(path=STRING, replace_all={"type": "boolean"}),
            {"path": "a", "replaceall": True, "replaceAll": True},
            id="two spellings of one field",
        ),
        pytest.param(
            STRICT, {"arguments": {"path": "a"}, "other": 1}, id="`arguments` next to another field"
        ),
        pytest.param(STRICT, "[1]", id="not an object"),
    ],
)
def test_ambiguous_arguments_are_not_repaired(schema, arguments):
    call = prepared(Tool("read", parameters=schema), arguments)
    assert (call.problem, call.repairs) == ("invalid_arguments", ())


def test_case_81_null_allowed_by_the_schema_is_kept():
    schema = shaped(path=STRING, limit={"type": ["integer", "null"]})
    assert mended(schema, {"path": "a", "limit": None}) == ({"path": "a", "limit": None}, ())


def test_repair_leaves_valid_arguments_untouched():
    schema = {"type": "object", "properties": {"a": LIST, "b": {"items": LIST}, "free": {}}}
    arguments = {"a": "x", "b": [["y"]], "free": {"deep": [None, "1"]}}

    fitting, kinds = mended(schema, arguments)

    assert (fitting["a"], kinds) == (["x"], ("bare_string_to_array",))
    assert fitting["b"] is arguments["b"] and fitting["free"] is arguments["free"]


def test_arguments_are_not_repaired_when_repair_is_off():
    for arguments in ({"paths": "a"}, '{"paths": ["a"'):
        call = prepared(Tool(parameters=shaped(paths=LIST)), arguments, repair=False)
        assert call.problem is not None
        assert call.repairs == ()


def test_repair_accepts_a_validator_that_raises_value_errors():
    def validate(arguments):
        if not isinstance(arguments["n"], int):
            raise ValueError("n: an integer")
        return arguments

    assert repair_arguments("t", shaped(n=INTEGER), {"n": "5"}, validate).arguments == {"n": 5}


@pytest.mark.parametrize(
    ("schema", "arguments", "expected"),
    [
        (STRICT, {"path": "[notes.md](http://notes.md)"}, {"path": "notes.md"}),
        (STRICT, {"path": "[a.py](https://host/src/a.py)"}, {"path": "a.py"}),
        (
            shaped(paths=LIST),
            {"paths": ["x", "[b](http://b)"]},
            {"paths": ["x", "b"]},
        ),
        (
            shaped(edits=EDITS),
            {"edits": [{"path": "[c](http://c)", "line": 1}]},
            {"edits": [{"path": "c", "line": 1}]},
        ),
        (
            shaped(target={"type": "string", "format": "absolute_path"}),
            {"target": "[/d](http:///d)"},
            {"target": "/d"},
        ),
    ],
)
def test_markdown_link_to_its_own_text_becomes_a_plain_path(schema, arguments, expected):
    assert mended(schema, arguments) == (expected, ("md_link_unwrapped",))


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "[docs](https://example.org/manual)"},
        {"path": "see [a](http://a)"},
        {"path": "[a](http://a) "},
        {"path": "a", "content": "[b](http://b)"},
    ],
)
def test_real_links_and_links_in_other_fields_are_kept(arguments):
    assert mended(STRICT, arguments) == (arguments, ())


def test_link_is_kept_if_its_text_would_be_invalid():
    schema = shaped(path={"type": "string", "minLength": 10})
    arguments = {"path": "[notes.md](http://notes.md)"}
    assert mended(schema, arguments) == (arguments, ())


@pytest.mark.parametrize(
    ("arguments", "runs_with", "names"),
    [
        ({"limit": 30}, {"limit": 30, "offset": 1}, "`offset`"),
        ({"offset": 5}, {"offset": 5, "limit": 2000}, "`limit`"),
        ({"offset": 5, "limit": 30}, {"offset": 5, "limit": 30}, None),
        ({}, {}, None),
    ],
)
async def test_case_85_missing_half_of_a_pair_gets_its_default_and_a_note(
    arguments, runs_with, names
):
    tool = Tool("read", parameters=TOGETHER)
    run = await run_loop(
        asking(("read", {"path": "a", **arguments})), "go", tools=[tool], config=CHECKED
    )

    assert tool.ran == [{"path": "a", **runs_with}]
    blocks = run.results[0].content
    assert len(blocks) == (1 if names is None else 2)
    assert names is None or blocks[0].text.endswith(f"Give {names} to choose another.")
    assert blocks[-1].text == "ok"
    assert not run.recorder.of(RepairStats)


async def test_repair_notes_are_a_separate_block_before_the_hooks_content():
    tool = Tool("read", parameters=shaped(["path"], path=STRING))
    config = LoopConfig(
        validate=by_schema,
        after_tool_call=lambda *_: AfterToolCallResult(content=(TextBlock("changed"),)),
    )
    run = await run_loop(
        asking(("read", {"path": "a", "mood": "fine"})), "go", tools=[tool], config=config
    )

    assert [block.text for block in run.results[0].content] == [
        "`read`: ignored `mood`, which it does not have. It has: `path`.",
        "changed",
    ]


async def test_case_83_and_89_repairs_are_counted_once_per_call_and_emitted_at_end():
    tool = Tool("t", parameters=shaped(["a"], a=LIST, b=LIST, n=INTEGER))
    model = ScriptedModel()
    model.will_call("t", a="x", b="y", n="5").will_call("t", a="z").will_call("t", n=1)
    run = await run_loop(model.will_say("done"), "go", tools=[tool], config=CHECKED)

    assert run.outcomes == ["ok", "ok", "invalid"]
    stats = run.recorder.of(RepairStats)
    assert [dict(each.counts) for each in stats] == [
        {"bare_string_to_array": 2, "stringified_scalar": 1, "invalid": 1}
    ]
    assert run.recorder.types[-2:] == ["repair_stats", "agent_end"]
    assert run.recorder.of(ToolExecutionStart)[0].args == {"a": "x", "b": "y", "n": "5"}


@pytest.mark.parametrize("ending", ["error", "stop", "abort"])
async def test_repair_stats_are_emitted_however_a_run_ends(ending):
    signal = AbortSignal()

    def after_turn(_info):
        if ending == "stop":
            raise StopRun(Done(stopped_by="x"))
        if ending == "abort":
            signal.abort()
        return False

    model = ScriptedModel().will_call("t", n="5").will_fail("odd")
    run = await run_loop(
        model,
        "go",
        tools=[Tool("t", parameters=shaped([], n=INTEGER))],
        config=replace(CHECKED, should_stop_after_turn=after_turn),
        signal=signal,
    )

    assert run.outcomes == ["ok"]
    assert run.recorder.types[-2:] == ["repair_stats", "agent_end"]


async def test_case_89_repair_stats_are_not_emitted_without_repairs():
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool()], config=CHECKED)
    assert not run.recorder.of(RepairStats)


async def test_case_24_prepare_arguments_runs_first_and_is_not_a_repair():
    schema = shaped(["edits"], edits={"type": "array"})
    tool = Tool("edit", parameters=schema, prepare=lambda given: {"edits": [dict(given)]})
    run = await run_loop(
        asking(("edit", {"oldText": "a", "newText": "b"})), "go", tools=[tool], config=CHECKED
    )

    assert tool.ran == [{"edits": [{"oldText": "a", "newText": "b"}]}]
    assert not run.recorder.of(RepairStats)


def test_prepare_arguments_also_gets_unwrapped_arguments():
    schema = shaped(["edits"], edits={"type": "array"})
    tool = Tool(
        "edit",
        parameters=schema,
        prepare=lambda given: {"edits": [given]} if "old" in given else given,
    )
    call = prepared(tool, {"input": {"old": "a"}})
    assert call.arguments == {"edits": [{"old": "a"}]}


async def test_case_20_arguments_edited_by_a_hook_are_validated_but_not_repaired():
    tool = Tool("t", parameters=shaped(a=LIST))
    config = LoopConfig(validate=by_schema, before_tool_call=lambda *_: EditArgs({"a": "x"}))
    run = await run_loop(asking(("t", {"a": ["y"]})), "go", tools=[tool], config=config)
    assert (tool.ran, run.outcomes) == ([], ["invalid"])


async def test_case_20_edited_arguments_run_unchanged_without_a_validator():
    tool = Tool("t", parameters=STRICT)
    config = LoopConfig(before_tool_call=lambda *_: EditArgs({"value": 123}))
    await run_loop(asking(("t", {"path": "a"})), "go", tools=[tool], config=config)
    assert tool.ran == [{"value": 123}]


def test_misspelled_property_is_refused_with_a_hint():
    schema = shaped(["path"], path=STRING, limit=INTEGER)
    words, kinds = mended(schema, {"path": "a", "limt": 3})
    assert kinds == ()
    assert "write `limit` instead of `limt`" in words


@pytest.mark.parametrize("ops", [("edit",), ("execute",), ("meta",), ("read", "other"), ("mcp",)])
@pytest.mark.parametrize(
    "extra", [{"append": True}, {"append": False}, {"count": 0}, {"mode": "a"}]
)
@pytest.mark.parametrize("empty", ["", [], {}])
def test_call_that_changes_something_is_refused_with_an_unknown_property(ops, extra, empty):
    tool = OperationTool("write", parameters=shaped(["path"], path=STRING), ops=ops)
    for more in (extra, dict.fromkeys(extra, empty)):
        name = next(iter(more))
        call = prepared(tool, {"path": "a", **more})
        assert call.problem == "invalid_arguments"
        assert call.problem_text.startswith(
            f"`write` has no property `{name}`. Its properties: `path`. "
            "Nothing was run and nothing was changed"
        )


def test_tool_with_unknown_operations_is_refused_with_an_unknown_property():
    tool = Unsure("write", parameters=shaped(["path"], path=STRING))
    assert prepared(tool, {"path": "a", "mode": "x"}).problem == "invalid_arguments"


def test_unknown_nested_property_is_refused_with_its_path():
    tool = OperationTool("edit", parameters=shaped(["edits"], edits=EDITS), ops=("edit",))
    call = prepared(tool, {"edits": [{"path": "a"}, {"path": "b", "count": 0}]})
    assert call.problem_text.startswith(
        "`edit` has no property `edits[1].count`. Its properties: `path`, `line`. "
    )


@pytest.mark.parametrize(
    ("ops", "extra", "is_dropped"),
    [
        (("read",), {"append": True}, True),
        (("edit",), {"append": None}, True),
        (("edit",), {"Reasoning": "to see"}, True),
        (("execute",), {"description": "List files", "tool_call_id": "7"}, True),
        (("edit",), {"description": {"mode": "append"}}, False),
        (("edit",), {"explanation": ["dry run"]}, False),
        (("other",), {"explanation": "why"}, True),
        (("other",), {"description": "the text of a ticket"}, False),
    ],
)
def test_only_comments_about_a_call_are_dropped_from_its_arguments(ops, extra, is_dropped):
    tool = OperationTool("write", parameters=shaped(["path"], path=STRING), ops=ops)
    call = prepared(tool, {"path": "a", **extra})
    assert (call.problem is None) == is_dropped
    if is_dropped:
        assert call.arguments == {"path": "a"}
        assert "ignored" in call.notes[0]


def test_description_of_a_list_item_is_not_dropped():
    tool = OperationTool("edit", parameters=shaped(["edits"], edits=EDITS), ops=("edit",))
    refused = prepared(tool, {"edits": [{"path": "a", "description": "more"}]})
    dropped = prepared(tool, {"edits": [{"path": "a", "explanation": "more"}]})
    assert (refused.problem, dropped.problem) == ("invalid_arguments", None)


def test_read_only_tool_drops_an_unknown_property():
    tool = OperationTool("t", parameters=shaped(["path"], path=STRING), ops=("other",))
    vars(tool)["hints"] = Hints(read_only=True)
    assert prepared(tool, {"path": "a", "mode": "x"}).arguments == {"path": "a"}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
SCHEMAS = st.recursive(
    st.sampled_from([{}, STRING, INTEGER, LIST, {"type": ["string", "null"]}, {"enum": ["a", 1]}]),
    lambda inner: (
        st.builds(lambda each: {"type": "array", "items": each}, inner)
        | st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(
            lambda named, closed: {
                "type": "object",
                "properties": named,
                **({"additionalProperties": False} if closed else {}),
            },
            st.dictionaries(st.sampled_from(["path", "a", "b", "limit"]), inner),
            st.booleans(),
        )
    ),
    max_leaves=6,
)
OBJECTS = st.builds(
    lambda named: {"type": "object", "properties": named},
    st.dictionaries(st.sampled_from(["path", "a", "b", "limit"]), SCHEMAS),
)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "a", "b", "limit", "arguments"]), VALUES)


@given(OBJECTS, ARGUMENTS)
@settings(max_examples=size(25, 60), deadline=None)
def test_case_80_valid_arguments_are_unchanged_and_input_is_not_mutated(schema, arguments):
    tool = Tool("read", parameters=schema)
    before = copy.deepcopy(arguments)
    try:
        by_schema(tool, arguments)
        fits = True
    except ValueError:
        fits = False

    call = prepared(tool, arguments)

    assert arguments == before
    if fits:
        assert (call.arguments, call.repairs) == (before, ())
    elif call.problem is None:
        assert call.repairs
        by_schema(tool, call.arguments)


async def test_a13_missing_argument_is_named_and_text_result_stays_text():
    async def body(*_):
        return text_result("plain")

    tool = Tool("t", body, parameters=shaped(["city"], city=STRING, days=INTEGER))
    model = ScriptedModel().will_call("t", days=1).will_call("t", city="Rome").will_say("done")
    run = await run_loop(model, "go", tools=[tool], config=CHECKED)

    assert tool.ran == [{"city": "Rome"}]
    assert "`city` is required" in run.results[0].text
    assert run.results[1].text == "plain"


async def test_case_85_read_with_only_a_limit_reports_its_default_offset(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n", encoding="utf-8")
    workspace = Workspace([tmp_path], tmp_path)
    toolbox = Toolbox(discover_tools(), ToolServices(files=workspace), str(tmp_path))
    model = asking(("read", {"path": "a", "limit": 1}), ("read", {"path": "[a](http://a)"}))
    with contextlib.closing(workspace):
        run = await run_loop(
            model, "go", tools=toolbox.loop_tools, config=LoopConfig(validate=toolbox.validate)
        )

    note, text = run.results[0].content
    assert "`offset` as 1" in note.text
    assert text.text.startswith("a: lines 1-1 of 3")
    assert run.outcomes == ["ok", "ok"] and len(run.results[1].content) == 1
    assert "x-together" not in str(model.seen[0].tools)


def test_a_long_list_is_repaired_in_linear_time(tmp_path):
    workspace = Workspace([tmp_path], tmp_path)
    toolbox = Toolbox(discover_tools(), ToolServices(files=workspace), str(tmp_path))
    edits = [{"old_str": str(number), "new_str": "b"} for number in range(3000)]
    call = ToolCallBlock(id="1", name="edit", arguments={"path": "a", "edits": edits})
    with contextlib.closing(workspace):
        began = time.perf_counter()
        assert prepare_call(call, toolbox.loop_tools, toolbox.validate).problem is None
        assert time.perf_counter() - began < 3


def test_a_name_with_a_dot_is_no_other_spelling_of_one_without():
    call = prepare_call(
        ToolCallBlock(id="1", name="echo", arguments={"user.name": "Ann"}),
        [Tool(parameters=shaped(["username"], username=STRING))],
        by_schema,
    )
    assert call.problem == "invalid_arguments"
