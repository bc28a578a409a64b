import asyncio

import pytest

from dirge_py.agent_loop import (
    AfterToolCallResult,
    Context,
    EditArgs,
    LoopConfig,
    ToolOverride,
    compose,
    run_agent_loop,
)
from dirge_py.guards.tool_hooks import redact_results
from dirge_py.lib.redaction import Redactor
from dirge_py.testing import EventRecorder, assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import (
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from dirge_py.types.messages import TextBlock, ToolResultMessage, user_text
from dirge_py.types.tools import text_result
from tests.support.loop_runs import Tool, a_breath, boom, forever, run_loop
from tests.support.tool_arguments import CHECKED, INTEGER, asking, shaped


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("nope", ["echo"], "There is no tool `nope`. There are: echo."),
        ("nope", [], "There is no tool `nope`; no tools are available."),
        ("raed", ["read", "write"], "Did you mean `read`?"),
        ("search_filesystem", ["read", "glob"], "There are: glob, read."),
        ("cat", ["bat", "car"], "There are: bat, car."),
    ],
)
async def test_case_25_26_unknown_tool_error_suggests_the_nearest_name(name, known, words):
    tools = [Tool(each) for each in known]
    run = await run_loop(asking((name, {})), "go", tools=tools)

    assert words in run.results[0].text
    assert run.results[0].is_error and run.new[-1].text == "done"
    assert not any(tool.ran for tool in tools)


async def test_case_20_arguments_edited_by_a_hook_are_validated_and_used():
    tool = Tool("t", parameters=shaped(value=INTEGER))
    for value, expected in ((123, [{"value": 123}]), ("x", [])):
        tool.ran.clear()
        config = LoopConfig(
            validate=CHECKED.validate,
            before_tool_call=lambda *_, value=value: EditArgs({"value": value}),
        )
        await run_loop(asking(("t", {"value": 1})), "go", tools=[tool], config=config)
        assert tool.ran == expected


async def test_case_22_override_without_content_gives_a_default_message():
    config = LoopConfig(before_tool_call=lambda *_: ToolOverride())
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool()], config=config)
    assert (run.results[0].text, run.results[0].is_error) == ("This call was blocked.", True)


async def test_case_23_is_error_set_by_after_hook_is_in_event_and_message():
    config = LoopConfig(after_tool_call=lambda *_: AfterToolCallResult(is_error=True))
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool()], config=config)
    assert run.recorder.of(ToolExecutionEnd)[0].is_error
    assert run.results[0].is_error


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_case_27_failing_tool_does_not_affect_other_calls_or_the_run(mode):
    tools = [Tool("bad", boom), Tool(body=a_breath)]
    calls = [("echo", {}), ("bad", {}), ("echo", {})]
    run = await run_loop(asking(*calls), "go", tools=tools, config=LoopConfig(tool_execution=mode))

    assert [each.is_error for each in run.results] == [False, True, False]
    assert run.results[1].text == "nothing matched"
    assert run.new[-1].text == "done"


async def test_a21_tool_error_reaches_the_model_without_a_traceback():
    async def body(*_):
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("the date is wrong") from error

    run = await run_loop(asking(("echo", {}), ("nope", {})), "go", tools=[Tool(body=body)])
    assert run.results[0].text == "the date is wrong"
    assert run.outcomes == ["error", "unknown_tool"]


async def test_case_30_one_sequential_tool_makes_the_whole_batch_sequential():
    tools = [Tool(body=a_breath), Tool("seq", a_breath, execution_mode="sequential")]
    run = await run_loop(asking(("echo", {}), ("seq", {})), "go", tools=tools)

    told = [
        (type(event).__name__, getattr(event, "tool_call_id", "") or event.message.tool_call_id)
        for event in run.events
        if isinstance(event, ToolExecutionStart | ToolExecutionEnd)
        or (isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage))
    ]
    assert told == [
        (kind, call)
        for call in ("echo#0", "seq#0")
        for kind in ("ToolExecutionStart", "ToolExecutionEnd", "MessageEnd")
    ]


@pytest.mark.parametrize(
    ("own", "config", "most"),
    [("sequential", "parallel", 1), (None, "parallel", 2), (None, "sequential", 1)],
)
async def test_case_31_execution_mode_limits_how_many_calls_run_at_once(own, config, most):
    tool = Tool(body=a_breath, execution_mode=own)
    model = asking(("echo", {}), ("echo", {}))
    await run_loop(model, "go", tools=[tool], config=LoopConfig(tool_execution=config))
    assert tool.most_running == most


async def test_case_32_invalid_call_ends_first_and_its_result_stays_first():
    run = await run_loop(
        asking(("nonexistent", {}), ("echo", {})), "go", tools=[Tool(body=a_breath)]
    )

    ends = [event.tool_call_id for event in run.recorder.of(ToolExecutionEnd)]
    assert ends == ["nonexistent#0", "echo#0"]
    assert [each.is_error for each in run.results] == [True, False]


async def test_case_34_tool_updates_come_between_start_and_end_with_their_call():
    async def body(_id, _arguments, _signal, on_update):
        for part in "abc":
            on_update(text_result(part))
        return text_result("ok")

    run = await run_loop(asking(("echo", {"v": 1})), "go", tools=[Tool(body=body)])

    of_tools = [
        event
        for event in run.events
        if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd)
    ]
    assert [event.type for event in of_tools] == [
        "tool_execution_start",
        *["tool_execution_update"] * 3,
        "tool_execution_end",
    ]
    updates = of_tools[1:-1]
    assert [each.partial_result.text for each in updates] == ["a", "b", "c"]
    assert {(each.tool_call_id, each.tool_name, each.args["v"]) for each in updates} == {
        ("echo#0", "echo", 1)
    }


async def test_case_34_sink_that_fails_on_tool_updates_does_not_fail_the_tool():
    async def body(_id, _arguments, _signal, on_update):
        on_update(text_result("part"))
        return text_result("ok")

    recorder = EventRecorder()

    def sink(event):
        if isinstance(event, ToolExecutionUpdate):
            raise BrokenPipeError("closed")
        recorder(event)

    new = await run_agent_loop(
        [user_text("go")],
        context=Context(tools=[Tool(body=body)]),
        config=LoopConfig(),
        signal=AbortSignal(),
        emit=sink,
        stream_fn=asking(("echo", {})).stream_fn,
    )
    assert [each.text for each in new] == ["go", "", "ok", "done"]


async def test_case_35_secret_in_a_result_is_redacted_in_event_and_message():
    key = "sk-" + "a1B2c3D4" * 5

    async def body(*_):
        return text_result(f"plain\nOPENAI_API_KEY={key}")

    config = compose(redact_results(Redactor().redact), config=LoopConfig())
    run = await run_loop(asking(("echo", {})), "go", tools=[Tool(body=body)], config=config)

    event = run.recorder.of(ToolExecutionEnd)[0].result.text
    assert event == run.results[0].text
    assert key not in event and event.startswith("plain\nOPENAI_API_KEY=")


async def cancel_me(*_):
    raise asyncio.CancelledError


@pytest.mark.parametrize("body", [None, boom, cancel_me, forever])
async def test_case_36_events_show_which_calls_are_running(body):
    signal, in_flight, during = AbortSignal(), set(), []

    def watch(event):
        if isinstance(event, ToolExecutionStart):
            in_flight.add(event.tool_call_id)
        if isinstance(event, ToolExecutionEnd):
            in_flight.discard(event.tool_call_id)

    async def watched(*arguments):
        during.append(set(in_flight))
        if body is None:
            return text_result("ok")
        if body is forever:
            asyncio.get_running_loop().call_soon(signal.abort)
        return await body(*arguments)

    new = await run_agent_loop(
        [user_text("go")],
        context=Context(tools=[Tool(body=watched)]),
        config=LoopConfig(),
        signal=signal,
        emit=watch,
        stream_fn=asking(("echo", {})).stream_fn,
    )
    assert (during, in_flight) == ([{"echo#0"}], set())
    assert_balanced(new)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_case_38_no_tool_starts_after_an_abort(mode):
    signal, echo = AbortSignal(), Tool()
    config = LoopConfig(tool_execution=mode, before_tool_call=lambda *_: signal.abort())
    model = asking(("echo", {}))
    run = await run_loop(model, "go", tools=[echo], config=config, signal=signal)

    assert (echo.ran, run.outcomes, run.results[0].is_error) == ([], ["aborted"], True)
    assert "Aborted" in run.results[0].text


async def test_case_40_abort_of_a_parallel_batch_gives_results_in_call_order():
    signal = AbortSignal()

    async def body(call_id, *rest):
        if call_id == "echo#2":
            asyncio.get_running_loop().call_soon(signal.abort)
        return await forever()

    run = await run_loop(asking(*[("echo", {})] * 3), "go", tools=[Tool(body=body)], signal=signal)
    assert [each.tool_call_id for each in run.results] == ["echo#0", "echo#1", "echo#2"]
    assert run.outcomes == ["aborted"] * 3


async def test_note_about_an_ignored_property_does_not_repeat_its_value():
    tool = Tool("t", parameters=shaped(value=INTEGER))
    config = compose(redact_results(Redactor().redact), config=CHECKED)
    run = await run_loop(
        asking(("t", {"value": 1, "mood": "fine"})), "go", tools=[tool], config=config
    )
    assert [type(block) for block in run.results[0].content] == [TextBlock, TextBlock]
    assert "`mood`" in run.results[0].content[0].text and "fine" not in run.results[0].text
