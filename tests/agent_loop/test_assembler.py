import itertools
import time

from dirge_py.agent_loop.model_call import Assembler, finished_blocks
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import MessageUpdate, RetryNotice
from dirge_py.types.llm import (
    StreamDone,
    StreamRetry,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from tests.support.loop_runs import Tool, run_loop


def assembled(*events):
    assembler = Assembler()
    updates = [update for event in events for update in assembler.feed(event)]
    updates += assembler.close()
    return assembler.blocks(), updates


def test_delta_of_another_kind_starts_a_new_block():
    blocks, updates = assembled(
        TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d"), TextDelta("")
    )
    assert blocks == (TextBlock("ab"), ThinkingBlock(text="c"), TextBlock("d"))
    assert [(u.phase, u.index, u.delta) for u in updates] == [
        ("text_start", 0, ""),
        ("text_delta", 0, "a"),
        ("text_delta", 0, "b"),
        ("text_end", 0, ""),
        ("thinking_start", 1, ""),
        ("thinking_delta", 1, "c"),
        ("thinking_end", 1, ""),
        ("text_start", 2, ""),
        ("text_delta", 2, "d"),
        ("text_end", 2, ""),
    ]


def test_thinking_end_replaces_repeated_text_or_appends_new_text():
    end = ThinkingEnd(text="abc", signature="s")
    assert assembled(ThinkingDelta("ab"), end)[0] == (ThinkingBlock(text="abc", signature="s"),)
    end = ThinkingEnd(text="c")
    assert assembled(ThinkingDelta("ab"), end)[0] == (ThinkingBlock(text="abc"),)
    assert assembled(ThinkingEnd(redacted="x"))[0] == (ThinkingBlock(text="", redacted="x"),)


def test_interleaved_tool_calls_are_separated_by_key():
    blocks, _ = assembled(
        ToolCallDelta(key="0", id="a", name="x"),
        ToolCallDelta(key="1", id="b", name="y", arguments='{"n"'),
        ToolCallDelta(key="0", arguments='{"m": 1}'),
        ToolCallDelta(key="1", arguments=": 2}"),
    )
    assert blocks == (
        ToolCallBlock(id="a", name="x", arguments={"m": 1}),
        ToolCallBlock(id="b", name="y", arguments={"n": 2}),
    )


def test_tool_calls_with_the_same_key_are_separated_by_id():
    blocks, _ = assembled(
        ToolCallDelta(key="0", id="a", name="x", arguments="{}"),
        ToolCallDelta(key="0", id="b", name="y", arguments="{}"),
    )
    assert [block.id for block in blocks] == ["a", "b"]


async def test_tool_call_deltas_and_complete_call_give_one_call():
    echo = Tool()
    model = ScriptedModel().will_stream(
        ToolCallDelta(key="k", id="a", name="echo", arguments='{"n'),
        ToolCallEnd(key="a", id="a", name="echo", arguments={"n": 1}),
        StreamDone(stop_reason="toolUse"),
    )
    run = await run_loop(model.will_say("done"), "go", tools=[echo])

    assert echo.ran == [{"n": 1}]
    phases = [update.phase for update in run.recorder.of(MessageUpdate)]
    assert phases.count("toolcall_start") == phases.count("toolcall_end") == 1


def test_duplicate_call_ids_are_made_unique_and_empty_calls_dropped():
    blocks = [ToolCallBlock(id=i, name=n, arguments="{}") for i, n in ["ax", "ay", " z", "b "]]
    blocks = [ToolCallBlock(id=b.id.strip(), name=b.name.strip(), arguments="") for b in blocks]
    numbers = itertools.count(1)
    assert finished_blocks(blocks, lambda: str(next(numbers))) == (
        ToolCallBlock(id="a", name="x", arguments={}),
        ToolCallBlock(id="call_1", name="y", arguments={}),
        ToolCallBlock(id="call_2", name="z", arguments={}),
    )


async def test_call_with_arguments_and_without_a_name_is_answered():
    async def model(context, _options, _signal):
        if len(context.messages) == 1:
            yield TextDelta("I'll read it.")
            yield ToolCallDelta(key="0", id="a", arguments='{"path": "a"}')
        yield StreamDone(stop_reason="stop")

    run = await run_loop(model, "go", tools=[Tool("read")])
    assert run.outcomes == ["unknown_tool"] and "There are: read." in run.results[0].text


async def test_retried_attempt_leaves_no_content():
    model = ScriptedModel().will_stream(
        StreamStart(),
        ToolCallDelta(key="1", id="1", name="echo", arguments='{"a'),
        StreamRetry(attempt=1, delay_ms=5, error="gone"),
        StreamStart(),
        TextDelta("whole"),
        StreamDone(),
    )
    run = await run_loop(model, "go")

    assert run.new[-1].content == (TextBlock("whole"),)
    types = run.recorder.types
    assert types.index("retry_notice") < types.index("message_update")
    assert types.count("message_start") == types.count("message_end") == 2
    assert run.recorder.of(RetryNotice) == [RetryNotice(attempt=1, delay_ms=5, error="gone")]


async def test_complete_message_is_emitted_without_updates():
    whole = AssistantMessage(content=(TextBlock("all"),))
    run = await run_loop(ScriptedModel().will_stream(StreamDone(message=whole)), "go")
    assert run.new[-1] == whole
    assert run.recorder.of(MessageUpdate) == []


async def test_twenty_thousand_deltas_take_linear_time():
    events = [TextDelta("word ")] * 20_000
    began = time.perf_counter()
    run = await run_loop(ScriptedModel().will_stream(*events, StreamDone()), "go")
    assert len(run.new[-1].text) == 100_000
    assert time.perf_counter() - began < 3
