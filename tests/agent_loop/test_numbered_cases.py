"""Examples of the loop's behaviour that no other test file covers."""

import asyncio
from typing import Any

import pytest

from dirge_py.agent_loop import (
    InputQueue,
    LoopConfig,
    RequestSettings,
    StopRun,
    default_convert_to_llm,
    retrying_stream_fn,
    steering_from_queue,
)
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RetryNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from dirge_py.types.llm import (
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ThinkingBudgets,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Cancelled, Done, Failed
from dirge_py.types.tools import LoopToolResult, text_result
from tests.support.loop_runs import Tool, boom, forever, run_loop


async def test_case_2_message_updates_come_between_message_start_and_end() -> None:
    model = ScriptedModel().will_stream(
        StreamStart(), TextDelta("Hello"), TextDelta(" world"), StreamDone()
    )
    run = await run_loop(model, "start")

    starts, ends = run.recorder.of(MessageStart), run.recorder.of(MessageEnd)
    assert [event.message.role for event in starts] == ["user", "assistant"]
    assert [event.message.role for event in ends] == ["user", "assistant"]
    updates = [n for n, event in enumerate(run.events) if isinstance(event, MessageUpdate)]
    began, ended = run.events.index(starts[1]), run.events.index(ends[1])
    assert updates == list(range(began + 1, ended))
    assert run.new[-1].text == "Hello world"  # type: ignore[union-attr]


async def test_case_3_message_without_deltas_has_adjacent_start_and_end() -> None:
    whole = AssistantMessage(content=(TextBlock("Hello"),))
    run = await run_loop(ScriptedModel().will_stream(StreamDone(message=whole)), "start")

    place = run.events.index(run.recorder.of(MessageStart)[1])
    assert isinstance(run.events[place + 1], MessageEnd)
    assert run.recorder.of(MessageUpdate) == []


async def test_case_13_usage_is_emitted_after_message_end() -> None:
    model = ScriptedModel().will_say("x", usage=Usage(input=1000, cache_read=800))
    types = (await run_loop(model, "start")).recorder.types
    assert types.index("usage") == types.index("turn_end") - 1
    assert types[types.index("usage") - 1] == "message_end"


def test_case_16_default_converter_drops_only_custom_messages() -> None:
    call = ToolCallBlock(id="c", name="echo", arguments={})
    kept = [
        user_text("u"),
        AssistantMessage(content=(call,)),
        ToolResultMessage(tool_call_id="c", tool_name="echo", content=(TextBlock("r"),)),
        SystemMessage(content=(TextBlock("s"),)),
    ]
    assert default_convert_to_llm([*kept, CustomMessage(kind="board")]) == kept


async def test_case_18_every_option_reaches_the_stream_function() -> None:
    options: list[Any] = []
    model = ScriptedModel().will_say("x")

    def stream(context: Any, given: Any, signal: Any) -> Any:
        options.append(given)
        return model.stream_fn(context, given, signal)

    config = LoopConfig(
        thinking_level="high",
        request=RequestSettings(
            api_key="static",
            thinking_budgets=ThinkingBudgets(high=8192),
            headers={"x-a": "1"},
            metadata={"user_id": "u"},
            max_output_tokens=77,
        ),
    )
    await run_loop(stream, "start", config=config)
    (given,) = options
    assert (given.api_key, given.thinking_level, given.thinking_budgets.high) == (
        "static",
        "high",
        8192,
    )
    assert (given.headers, given.metadata, given.max_output_tokens) == (
        {"x-a": "1"},
        {"user_id": "u"},
        77,
    )


async def test_case_27_failing_tool_does_not_affect_the_other_calls() -> None:
    model = ScriptedModel().will_call_all(("boom", {}), ("echo", {})).will_say("done")
    run = await run_loop(model, "start", tools=[Tool("boom", boom), Tool()])
    assert [(r.is_error, "nothing matched" in r.text) for r in run.results] == [
        (True, True),
        (False, False),
    ]
    assert isinstance(run.outcome, Done)


async def test_case_32_invalid_call_ends_before_a_valid_one() -> None:
    model = ScriptedModel().will_call_all(("nonexistent", {}), ("echo", {})).will_say("done")
    run = await run_loop(model, "start", tools=[Tool()])

    assert [event.tool_call_id for event in run.recorder.of(ToolExecutionEnd)] == [
        "nonexistent#0",
        "echo#0",
    ]
    assert [(r.tool_call_id, r.is_error) for r in run.results] == [
        ("nonexistent#0", True),
        ("echo#0", False),
    ]


@pytest.mark.parametrize("how", ["ok", "raises", "aborted"])
async def test_case_36_every_started_call_has_ended_at_turn_end(how: str) -> None:
    signal = AbortSignal()

    async def body(*_: Any) -> LoopToolResult:
        if how == "raises":
            raise LookupError("no")
        if how == "aborted":
            asyncio.get_running_loop().call_soon(signal.abort)
            await forever()
        return text_result("ok")

    model = ScriptedModel().will_call_all(("echo", {}), ("echo", {})).will_say("done")
    run = await run_loop(model, "start", tools=[Tool(body=body)], signal=signal)

    running: set[str] = set()
    for event in run.events:
        if isinstance(event, ToolExecutionStart):
            running.add(event.tool_call_id)
        elif isinstance(event, ToolExecutionEnd):
            running.remove(event.tool_call_id)
        elif isinstance(event, TurnEnd | AgentEnd):
            assert running == set()


async def test_case_45_steering_queued_at_an_interject_stays_queued() -> None:
    queue, signal = InputQueue("steering"), AbortSignal()

    def while_answering(_context: Any) -> Reply:
        queue.put("wait")
        signal.interject()
        return Reply(text="a")

    model = ScriptedModel().will(while_answering).will_say("b")
    config = LoopConfig(get_steering_messages=steering_from_queue(queue))
    run = await run_loop(model, "start", config=config, signal=signal)

    assert len(model.seen) == 1
    assert [item.message.text for item in queue.peek()] == ["wait"]
    assert "wait" not in [m.text for m in run.new]  # type: ignore[union-attr]


async def test_case_48_one_at_a_time_queue_drains_the_oldest_at_each_poll() -> None:
    queue = InputQueue("steering", "one-at-a-time")
    for text in ("1", "2", "3"):
        queue.put(text)
    assert [[item.message.text for item in queue.drain()] for _ in range(4)] == [
        ["1"],
        ["2"],
        ["3"],
        [],
    ]


async def test_case_61_retrying_stream_changes_nothing_without_an_error() -> None:
    model = ScriptedModel().will_call("echo").will_say("done")
    run = await run_loop(retrying_stream_fn(model.stream_fn), "start", tools=[Tool()])
    assert run.recorder.of(RetryNotice) == []
    assert (len(model.seen), type(run.outcome)) == (2, Done)


async def test_case_66_retry_drops_the_partial_call_of_the_failed_attempt() -> None:
    model = ScriptedModel()
    model.will_stream(
        StreamStart(),
        ToolCallDelta(key="0", id="old", name="echo", arguments='{"a'),
        StreamError(ProviderError("timed out", kind="network", phase="stream")),
    )
    model.will_call("echo", n=1).will_say("done")
    echo = Tool()
    stream = retrying_stream_fn(model.stream_fn, sleep=FakeClock(is_eager=True).sleep)

    run = await run_loop(stream, "start", tools=[echo])

    assert [call.id for call in run.new[1].calls] == ["echo#0"]  # type: ignore[union-attr]
    assert echo.ran == [{"n": 1}]
    assert len(run.recorder.of(RetryNotice)) == 1
    assert len([e for e in run.recorder.of(MessageStart) if e.message.role == "assistant"]) == 2


async def test_case_67_six_network_errors_are_six_calls_and_one_failure() -> None:
    model = ScriptedModel()
    for _ in range(9):
        model.will_fail("connection reset", kind="network")
    stream = retrying_stream_fn(model.stream_fn, sleep=FakeClock(is_eager=True).sleep)

    run = await run_loop(stream, "start")

    assert len(model.seen) == 6
    assert len(run.recorder.of(RetryNotice)) == 5
    assert run.outcome == Failed(kind="network", message="connection reset")


async def test_case_69_abort_during_the_retry_wait_cancels_the_run() -> None:
    signal, clock = AbortSignal(), FakeClock()
    error = ProviderError("slow down", kind="rate_limit", retry_after_s=30)
    model = ScriptedModel().will_stream(StreamError(error))

    async def wait(delay_s: float) -> None:
        asyncio.get_running_loop().call_soon(signal.abort)
        await clock.sleep(delay_s)

    stream = retrying_stream_fn(model.stream_fn, sleep=wait)
    run = await run_loop(stream, "start", signal=signal)

    assert clock.slept == [30]
    assert (len(model.seen), run.outcome) == (1, Cancelled(reason="user"))


async def test_case_78_call_deltas_and_complete_call_give_one_call() -> None:
    model = ScriptedModel().will_stream(
        StreamStart(),
        ToolCallDelta(key="0", id="c1", name="echo", arguments='{"n":'),
        ToolCallDelta(key="0", arguments="1}"),
        ToolCallEnd(key="0", id="c1", name="echo", arguments='{"n": 1}'),
        StreamDone(stop_reason="toolUse"),
    )
    echo = Tool()
    run = await run_loop(model.will_say("done"), "start", tools=[echo])

    assert run.new[1].content == (  # type: ignore[union-attr]
        ToolCallBlock(id="c1", name="echo", arguments={"n": 1}),
    )
    phases = [update.phase for update in run.recorder.of(MessageUpdate)]
    assert (phases.count("toolcall_start"), phases.count("toolcall_end")) == (1, 1)
    assert echo.ran == [{"n": 1}]


@pytest.mark.parametrize(
    ("repeated", "text"),
    [("I think so", "I think so"), ("I think", "I think"), (" so", "I think so")],
)
async def test_case_79_repeated_thinking_is_stored_once(repeated: str, text: str) -> None:
    model = ScriptedModel().will_stream(
        ThinkingDelta("I think"), ThinkingEnd(text=repeated), TextDelta("Yes."), StreamDone()
    )
    run = await run_loop(model, "start")
    assert run.new[1].content == (  # type: ignore[union-attr]
        ThinkingBlock(text=text),
        TextBlock("Yes."),
    )


async def test_case_79_text_thinking_and_text_are_three_blocks() -> None:
    model = ScriptedModel().will_stream(
        TextDelta("a"), ThinkingDelta("b"), TextDelta("c"), StreamDone()
    )
    run = await run_loop(model, "start")
    assert run.new[1].content == (  # type: ignore[union-attr]
        TextBlock("a"),
        ThinkingBlock(text="b"),
        TextBlock("c"),
    )


# -- balanced history at every end


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_t1_no_call_is_left_without_a_result_however_a_run_ends(mode: Any) -> None:
    """A limit, a stop, an abort and a failing hook, each with three open calls."""

    def stopping(_info: Any, call: Any) -> StopRun | None:
        return StopRun(Done(stopped_by="x")) if call.id == "echo#1" else None

    def failing(*_: Any) -> None:
        raise KeyError("oops")

    signal = AbortSignal()

    def aborting(_info: Any, call: Any) -> None:
        if call.id == "echo#1":
            signal.abort()

    for hook in (stopping, failing, aborting):
        model = ScriptedModel().will_call_all(*[("echo", {})] * 3).will_say("done")
        config = LoopConfig(before_tool_call=hook, tool_execution=mode)
        run = await run_loop(model, "start", tools=[Tool()], config=config, signal=signal)
        assert len(run.results) == 3
        assert_balanced(run.new)


async def test_a101_tool_use_answer_without_calls_ends_the_run() -> None:
    run = await run_loop(ScriptedModel().will(Reply(text="done", stop_reason="toolUse")), "go")

    assert isinstance(run.outcome, Done)
    assert isinstance(answer := run.new[-1], AssistantMessage)
    assert answer.stop_reason == "stop"


async def test_case_113_long_result_is_complete_in_the_first_request():
    long = "x" * 60_000

    async def body(*_: Any) -> LoopToolResult:
        return text_result(long)

    model = ScriptedModel().will_call("echo").will_say("done")
    await run_loop(model, "go", tools=[Tool(body=body)])
    assert model.seen[1].messages[-1].text == long
