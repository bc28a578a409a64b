import asyncio
from contextlib import suppress

import pytest

from dirge_py.agent_loop import RecoveryPolicy, retrying_stream_fn
from dirge_py.agent_loop.retry import NUDGE
from dirge_py.testing import FakeClock, ScriptedModel
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
    ThinkingDelta,
    ToolCallDelta,
)
from dirge_py.types.messages import user_text

CALL = ToolCallDelta(key="1", id="1", name="x")


def error(kind="network", message="gone", **fields):
    return StreamError(ProviderError(message, kind=kind, **fields))


async def record_run(model, *, policy=None, signal=None, clock=None, seen=None):
    clock = clock or FakeClock(is_eager=True)
    stream = retrying_stream_fn(model.stream_fn, policy, sleep=clock.sleep, random=lambda: 0.0)
    context = LlmContext(system_prompt="", messages=[user_text("go")])
    return [event async for event in stream(context, StreamOptions(), signal or AbortSignal())]


async def test_stream_without_errors_passes_unchanged():
    events = [TextDelta("a"), StreamDone()]
    assert await record_run(ScriptedModel().will_stream(*events)) == events


@pytest.mark.parametrize(
    "kind", ["auth", "context_length", "other", "usage_cap", "invalid_request", "refused"]
)
async def test_permanent_errors_are_not_retried(kind):
    model = ScriptedModel().will_stream(error(kind))
    assert [type(event) for event in await record_run(model)] == [StreamError]
    assert len(model.seen) == 1


async def test_retry_wait_doubles_and_the_sixth_error_is_returned():
    model, clock = ScriptedModel(), FakeClock(is_eager=True)
    for _ in range(6):
        model.will_stream(error())

    events = await record_run(model, clock=clock)

    assert clock.slept == [1, 2, 4, 8, 16]
    assert [e.attempt for e in events if isinstance(e, StreamRetry)] == [1, 2, 3, 4, 5]
    assert isinstance(events[-1], StreamError)
    assert len(model.seen) == 6


@pytest.mark.parametrize(
    ("kind", "asked_s", "waited"),
    [
        ("rate_limit", 0.05, [1]),
        ("rate_limit", 30, [30]),
        ("rate_limit", 301, []),
        ("server", 900, [300]),
    ],
)
async def test_retry_after_is_respected_up_to_a_limit(kind, asked_s, waited):
    clock = FakeClock(is_eager=True)
    model = ScriptedModel().will_stream(error(kind, retry_after_s=asked_s)).will_say("ok")

    events = await record_run(model, clock=clock)

    assert clock.slept == waited
    if not waited:
        assert events[-1].error.kind == "usage_cap"


def test_jitter_only_lengthens_the_retry_wait():
    policy, gone = RecoveryPolicy(), ProviderError("gone", kind="network")
    assert policy.delay_s(2, gone, lambda: 0.0) == 4
    assert policy.delay_s(2, gone, lambda: 1.0) == 5
    assert policy.delay_s(50, gone, lambda: 0.0) == 64


@pytest.mark.parametrize(
    ("policy", "delta", "calls"),
    [
        (RecoveryPolicy(), TextDelta("a"), 1),
        (RecoveryPolicy(), ThinkingDelta("a"), 1),
        (RecoveryPolicy(), CALL, 2),
        (RecoveryPolicy(commit_on="seed"), TextDelta("a"), 1),
        (RecoveryPolicy(commit_on="seed"), ThinkingDelta("a"), 2),
        (RecoveryPolicy(commit_on="seed"), CALL, 1),
    ],
)
async def test_stream_is_not_retried_after_visible_output(policy, delta, calls):
    model = ScriptedModel().will_stream(delta, error()).will_say("ok")
    await record_run(model, policy=policy)
    assert len(model.seen) == calls


@pytest.mark.parametrize(
    ("message", "phase", "nudges"),
    [
        ("The request timed out.", "stream", 1),
        ("503 service unavailable", "stream", 0),
        ("Timed out: silently dropped connection.", "stream", 0),
        ("Timed out before the first byte.", "establish", 0),
    ],
)
async def test_retry_adds_a_nudge_only_after_a_stalled_stream(message, phase, nudges):
    model = ScriptedModel()
    model.will_stream(error("network", message, phase=phase))
    model.will_stream(error("network", message, phase=phase)).will_say("ok")

    await record_run(model)

    texts = [[m.text for m in seen.messages].count(NUDGE) for seen in model.seen]
    assert texts == [0, nudges, nudges]


async def test_retry_event_comes_before_the_wait_and_abort_ends_the_wait():
    model, clock, signal = ScriptedModel().will_stream(error()), FakeClock(), AbortSignal()
    stream = retrying_stream_fn(model.stream_fn, sleep=clock.sleep)
    events = stream(LlmContext(system_prompt="", messages=[]), StreamOptions(), signal)

    assert isinstance(await anext(events), StreamRetry)
    rest = asyncio.ensure_future(anext(events))
    for _ in range(5):
        await asyncio.sleep(0)
    assert clock.sleepers == 1
    signal.abort()
    last = await rest

    assert last.error.kind == "aborted"
    with suppress(StopAsyncIteration):
        await anext(events)
    assert len(model.seen) == 1


async def test_no_request_is_sent_after_an_abort():
    model, signal = ScriptedModel(), AbortSignal()
    signal.abort()
    (event,) = await record_run(model, signal=signal)
    assert (event.error.kind, model.seen) == ("aborted", [])


async def test_stream_that_ends_before_any_output_is_retried():
    model = ScriptedModel().will_stream(StreamStart(model="m")).will_say("here")
    events = await record_run(model)
    assert isinstance(events[1], StreamRetry)
    assert (len(model.seen), isinstance(events[-1], StreamDone)) == (2, True)


async def test_stream_that_ends_after_text_without_done_is_an_error():
    model = ScriptedModel().will_stream(TextDelta("half")).will_say("never")
    text, end = await record_run(model)
    assert (text, end.error.kind, len(model.seen)) == (TextDelta("half"), "network", 1)


async def test_stream_start_before_an_error_is_passed_on():
    model = ScriptedModel().will_stream(StreamStart(model="m"), error()).will_stream(StreamDone())
    kinds = [type(event) for event in await record_run(model)]
    assert kinds == [StreamStart, StreamRetry, StreamDone]
