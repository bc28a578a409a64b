"""`complete` assembles a stream into one answer (N02)."""

import asyncio

import pytest

from dirge_py.agent_loop import StopRun
from dirge_py.agent_loop.model_call import complete, on_complete
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamRetry,
    StreamStart,
    TextDelta,
)
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done

QUESTION = LlmContext(system_prompt="judge", messages=(user_text("is it done?"),))


class Stream:
    """A stream function with fixed events that records whether its stream was closed."""

    def __init__(self, *events, then=None):
        self.events = events
        self.then = then
        self.opened = 0
        self.closed = 0

    async def __call__(self, context, options, signal):
        self.opened += 1
        try:
            for event in self.events:
                yield event
            if self.then is not None:
                await self.then()
        finally:
            self.closed += 1


def ask(stream_fn, *, signal=None, model="p/m", timeout_s=None):
    options = StreamOptions(model=model)
    return complete(stream_fn, QUESTION, options, signal or AbortSignal(), timeout_s=timeout_s)


def forever():
    return asyncio.Event().wait()


async def test_deltas_are_assembled_to_one_answer_with_usage():
    model = ScriptedModel().will(
        Reply(
            text="yes, it is",
            thinking="hm",
            calls=[ToolCallBlock(id="a", name="read", arguments={"path": "x"})],
            usage=Usage(input=3, output=2),
            chunk_chars=2,
        )
    )

    answer = await ask(model.stream_fn)

    assert answer == AssistantMessage(
        content=(
            ThinkingBlock(text="hm"),
            TextBlock("yes, it is"),
            ToolCallBlock(id="a", name="read", arguments={"path": "x"}),
        ),
        stop_reason="toolUse",
        model="p/m",
        usage=Usage(input=3, output=2),
    )
    assert model.seen == [QUESTION]


async def test_complete_message_replaces_the_assembled_deltas():
    whole = AssistantMessage(content=(TextBlock("whole"),), usage=Usage(output=1), model="own")
    stream = Stream(TextDelta("part"), StreamDone(message=whole))
    assert await ask(stream) == whole
    assert stream.closed == 1


async def test_model_name_of_the_service_is_used_if_none_was_chosen():
    stream = Stream(StreamStart("served"), TextDelta("a"), StreamDone())
    assert (await ask(stream, model="")).model == "served"


async def test_text_before_a_retry_is_discarded():
    retry = StreamRetry(attempt=1, delay_ms=0, error="busy")
    stream = Stream(TextDelta("MET"), retry, TextDelta("UNMET"), StreamDone())
    assert (await ask(stream)).text == "UNMET"


@pytest.mark.parametrize("told", ["length", "pause_turn"])
async def test_other_stop_reasons_are_kept(told):
    assert (await ask(Stream(TextDelta("a"), StreamDone(stop_reason=told)))).stop_reason == told


async def test_error_event_is_raised_and_the_stream_closed():
    broken = ProviderError("busy", kind="server")
    stream = Stream(TextDelta("half"), StreamError(broken), then=forever)
    with pytest.raises(ProviderError) as caught:
        await ask(stream)
    assert caught.value is broken
    assert stream.closed == 1


async def test_stream_without_an_end_event_raises_a_retryable_error():
    stream = Stream(TextDelta("half a verdict"))
    with pytest.raises(ProviderError, match="broke off") as caught:
        await ask(stream)
    assert caught.value.is_retryable
    assert stream.closed == 1


async def test_crash_of_a_stream_function_becomes_a_provider_error():
    async def bug():
        raise LookupError("oops")

    with pytest.raises(ProviderError, match="oops"):
        await ask(Stream(then=bug))
    with pytest.raises(ProviderError, match="NoneType"):
        await ask(lambda *_: None)


async def test_stop_run_raised_in_a_stream_is_not_caught():
    async def stop():
        raise StopRun(Done())

    with pytest.raises(StopRun):
        await ask(Stream(then=stop))


async def test_abort_raises_and_closes_the_stream():
    signal, waits = AbortSignal(), asyncio.Event()

    async def wait():
        waits.set()
        await forever()

    stream = Stream(TextDelta("half"), then=wait)
    asking = asyncio.ensure_future(ask(stream, signal=signal))
    await waits.wait()
    signal.abort()
    with pytest.raises(ProviderError) as caught:
        await asking
    assert (caught.value.kind, stream.closed) == ("aborted", 1)


async def test_stream_is_not_opened_after_an_abort():
    signal, stream = AbortSignal(), Stream(StreamDone())
    signal.abort()
    with pytest.raises(ProviderError) as caught:
        await ask(stream, signal=signal)
    assert (caught.value.kind, stream.opened) == ("aborted", 0)


async def test_time_limit_raises_timeout_error_and_closes_the_stream():
    stream = Stream(TextDelta("half"), then=forever)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        await ask(stream, timeout_s=0.01)
    assert stream.closed == 1


async def test_timeout_error_inside_the_stream_becomes_a_provider_error():
    async def inner():
        raise TimeoutError("the socket")

    with pytest.raises(ProviderError, match="the socket"):
        await ask(Stream(then=inner), timeout_s=60)


async def test_time_limit_also_ends_a_stream_that_never_waits():
    async def burst(context, options, signal):
        while True:
            yield TextDelta("a")

    with pytest.raises(TimeoutError):
        await ask(burst, timeout_s=0.01)


async def test_d16_stream_that_ends_without_done_is_not_passed_to_on_complete():
    looked = []

    async def look(answer, end):
        looked.append(answer)
        return end

    stream = on_complete(Stream(TextDelta("half")), look)
    *_, end = [event async for event in stream(QUESTION, StreamOptions(), AbortSignal())]
    assert (looked, end.error.kind) == ([], "network")
