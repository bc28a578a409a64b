import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import LoopConfig
from dirge_py.agent_loop.text_tool_calls import MOST_BYTES, find_calls, scan, without_quotations
from dirge_py.guards.broken_answers import call_as_text
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.events import MessageEnd, RepairStats
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from tests.security.sizes import size
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import INTEGER, STRICT, OperationTool, by_schema, shaped

SHAPES = {
    "name and arguments": '{"name": "read", "arguments": {"path": "a"}}',
    "function": (
        '{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}}'
    ),
    "tool_name": '{"tool_name": "read", "tool_args": {"path": "a"}}',
    "dsml": (
        '<｜DSML｜invoke name="read"><｜DSML｜parameter name="path" string="true">a'
        "</｜DSML｜parameter></｜DSML｜invoke>"
    ),
    "ascii dsml": (
        '<|DSML|invoke name="read">\n<|DSML|parameter name="path">a</|DSML|parameter>\n'
        "</|DSML|invoke>"
    ),
}
CALL = SHAPES["name and arguments"]
READ = {"read": ["path"]}
CONFIG = LoopConfig(validate=by_schema, scavenge=True)


def reading():
    return OperationTool("read", parameters=STRICT, ops=["read"])


async def run_with(text="", thinking="", tools=None, config=CONFIG, calls=()):
    model = ScriptedModel().will(Reply(text=text, thinking=thinking, calls=calls))
    model.will_say("done")
    run = await run_loop(model, "go", tools=tools or [reading()], config=config)
    assert_balanced(run.new)
    return run, model


@pytest.mark.parametrize("written", SHAPES.values(), ids=SHAPES)
async def test_case_92_call_written_in_thinking_runs(written):
    tool = reading()
    run, model = await run_with("I will look.", f"So I do {written} now.", [tool])

    assert tool.ran == [{"path": "a"}]
    assert len(model.seen) == 2
    (call,) = run.new[1].calls
    assert call.id and run.results[0].tool_call_id == call.id
    assert run.new[1].stop_reason == "toolUse"
    stored = [event.message for event in run.recorder.of(MessageEnd)]
    assert run.new[1] in stored


async def test_scavenging_is_off_by_default():
    tool = reading()
    _, model = await run_with(thinking=CALL, tools=[tool], config=LoopConfig(validate=by_schema))
    assert (tool.ran, len(model.seen)) == ([], 1)


async def test_case_94_written_call_with_invalid_arguments_is_dropped():
    tool = Tool("strict", parameters=STRICT)
    written = '<|DSML|invoke name="strict"></|DSML|invoke>'
    run, model = await run_with("well", written, [tool])

    assert (tool.ran, run.results, len(model.seen)) == ([], [], 1)
    assert not run.recorder.of(RepairStats)


async def test_written_call_with_repairable_arguments_runs():
    tool = Tool("t", parameters=shaped(["n"], n=INTEGER))
    run, _ = await run_with(thinking='{"name": "t", "arguments": {"n": "5"}}', tools=[tool])
    assert tool.ran == [{"n": 5}]
    assert run.recorder.of(RepairStats)[0].counts == {"stringified_scalar": 1}


async def test_case_95_written_calls_are_ignored_beside_a_real_call():
    tool = Tool("t")
    thinking = '{"name": "t", "arguments": {"b": 1, "a": 1.0}} {"name": "t", "arguments": {"c": 1}}'
    real = ToolCallBlock(id="1", name="t", arguments={"a": 1, "b": 1})
    await run_with(thinking=thinking, tools=[tool], calls=[real])
    assert tool.ran == [{"a": 1, "b": 1}]


async def test_case_95_equal_written_calls_run_once():
    tool = Tool("t")
    thinking = (
        '{"name": "t", "arguments": {"b": 1, "a": 1.0}}'
        '{"name": "t", "arguments": {"a": 1, "b": 1}}'
        '{"name": "t", "arguments": {"c": 1}}'
    )
    run, _ = await run_with(thinking=thinking, tools=[tool])
    assert tool.ran == [{"b": 1, "a": 1.0}, {"c": 1}]
    assert len({call.id for call in run.new[1].calls}) == 2


async def test_case_93_at_most_four_written_calls_run():
    tool = Tool("t")
    thinking = " ".join('{"name": "t", "arguments": {"n": %d}}' % n for n in range(6))  # noqa: UP031
    await run_with(thinking=thinking, tools=[tool])
    assert [each["n"] for each in tool.ran] == [0, 1, 2, 3]


@pytest.mark.parametrize("ops", [["edit"], ["read", "network"], ["other"], ["meta"]])
async def test_a1_written_call_that_could_change_something_never_runs(ops):
    tool = OperationTool("read", parameters=STRICT, ops=ops)
    for written in ({"text": f"Now.\n{CALL}"}, {"thinking": CALL}):
        _, model = await run_with(**written, tools=[tool])
        assert (tool.ran, len(model.seen)) == ([], 1)


async def test_read_call_written_in_the_answer_runs():
    tool = reading()
    await run_with(f"Let me see.\n{CALL}", tools=[tool])
    assert tool.ran == [{"path": "a"}]


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{CALL}\n```",
        f"~~~\n{CALL}\n~~~ and more",
        f"```\n{CALL}",
        f"- so:\n  ```\n  {CALL}\n  ```",
        f"write `{CALL}` to it",
        f"write ``{CALL}`` to it",
        f"> {CALL}",
        f"    {CALL}",
        f'he wrote "{CALL}"',
        f"he wrote “{CALL}”",
        f"he wrote '{CALL}'",
        f'{{"log": [{CALL}]}}',
    ],
)
async def test_a1_call_quoted_in_the_answer_does_not_run(text):
    tool = reading()
    _, model = await run_with(text, tools=[tool])
    assert (tool.ran, len(model.seen)) == ([], 1)


def test_written_call_after_a_quotation_is_found():
    text = without_quotations(f"```\n{CALL}\n```\n{CALL}\n`x` {CALL}")
    assert len(find_calls(text, READ)) == 2


def test_case_93_calls_of_unknown_tools_are_not_found():
    assert find_calls(CALL, {"write": []}) == []


async def test_case_93_long_message_is_not_searched_for_calls():
    tool = reading()
    await run_with("x" * (MOST_BYTES // 2), CALL + "é" * (MOST_BYTES // 4), tools=[tool])
    assert tool.ran == []


def test_case_93_json_inside_a_dsml_call_is_not_counted_twice():
    inner = json.loads(SHAPES["tool_name"])
    text = (
        '<|DSML|invoke name="write"><|DSML|parameter name="content" string="false">'
        f"{json.dumps(inner)}</|DSML|parameter></|DSML|invoke>"
    )
    (call,) = find_calls(text, {"read": ["path"], "write": ["content"]})
    assert (call.name, call.arguments) == ("write", {"content": inner})


def test_case_93_parameter_that_is_not_json_is_text():
    text = (
        '<|DSML|invoke name="read"><|DSML|parameter name="n" string="false">5</|DSML|parameter>'
        '<|DSML|parameter name="m" string="false">{5</|DSML|parameter></|DSML|invoke>'
    )
    assert find_calls(text, READ)[0].arguments == {"n": 5, "m": "{5"}


@pytest.mark.parametrize(
    "text",
    [
        f'<|DSML|invoke name="read"> {CALL}',
        '{"name": "read", "arguments": "{broken"}',
        '{"name": "read", "arguments": "[1]"}',
        '{"name": ["read"], "arguments": {}}',
        '{"name": "read"}',
        '{"type": "function", "function": "read"}',
        "{name: read}",
    ],
)
def test_text_that_only_resembles_a_call_is_not_a_call(text):
    assert find_calls(text, READ) == []


def test_unfinished_parameter_is_left_out():
    text = '<|DSML|invoke name="read"><|DSML|parameter name="path">a</|DSML|invoke>'
    assert find_calls(text, READ)[0].arguments == {}


def test_braces_in_prose_do_not_hide_a_call():
    assert len(find_calls(f"a {{ b {CALL}", READ)) == 1
    assert len(find_calls("{" * 1000 + CALL, READ)) == 1


PIECES = st.sampled_from(
    [
        "{",
        "}",
        '"',
        "\\",
        "`",
        "```\n",
        "> ",
        "\n",
        "<|DSML|invoke",
        ' name="read">',
        "<tool_call>",
        "<function=read>",
        "<parameter=path>",
        "</parameter>",
        "</function>",
        "<read>",
        "<path>",
        "</path>",
        "</read>",
        "<name>read</name>",
        "<arguments>",
        "<|channel|>commentary to=functions.read ",
        "<｜tool▁call▁begin｜>read",
        CALL,
        ":",
        "é",
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
@settings(max_examples=size(66, 200), deadline=None)
def test_call_search_never_raises_and_finds_only_known_tools(text):
    shown = without_quotations(text)
    assert len(shown) == len(text)
    for call in (*scan(text, READ), *scan(text, READ, shown)):
        assert call.name == "read"
        assert 0 <= call.begin < call.end <= len(text)
    message = AssistantMessage(content=(ThinkingBlock(text=text), TextBlock(text)))
    assert call_as_text(message, [reading()]) in ("read", "")


async def test_truncated_answer_is_not_searched_for_calls():
    tool = reading()
    model = ScriptedModel().will(Reply(thinking=CALL, stop_reason="length"))
    run = await run_loop(model, "go", tools=[tool], config=CONFIG)
    assert (tool.ran, run.new[1].stop_reason) == ([], "length")


def test_json_with_another_name_is_not_a_call():
    assert find_calls('{"name": "Ann", "arguments": {"path": "a"}}', READ) == []


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('<parameters><parameter name="path">a</parameter></parameters>', {"path": "a"}),
        ('one <br> two <parameter name="path">a</parameter>', {"path": "a"}),
        ('<parameter name="path" string="false">null</parameter>', {"path": None}),
        ("<path>a</path>", {"path": "a"}),
        ("<path>a</path><br>", None),
    ],
)
def test_arguments_may_stand_in_or_beside_other_elements(body, arguments):
    calls = find_calls(f'<invoke name="read">{body}</invoke>', READ)
    assert [call.arguments for call in calls] == ([] if arguments is None else [arguments])


def test_what_is_inside_an_object_that_cannot_be_read_is_no_call():
    assert list(scan('{"x": foo, "y": ' + CALL + "}", READ)) == []


def test_a_long_page_of_tags_is_searched_quickly():
    tools = {**READ, **{f"mcp__server_{n}__tool_{n}": ["path"] for n in range(40)}}
    began = time.process_time()
    assert list(scan("<div> <p>x</p></div>\n" * 4000, tools)) == []
    assert time.process_time() - began < 0.5
