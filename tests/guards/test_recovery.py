"""Continuing after an incomplete answer."""

import asyncio
from typing import Any

import pytest

from dirge_py.agent_loop import compose, retrying_stream_fn
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import CUT_OFF, TOO_LONG, resume_broken_answers
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.events import RetryNotice, SystemNotice, TurnEnd
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import Message, ThinkingBlock, ToolCallBlock, user_text
from dirge_py.types.outcomes import Cancelled, Done, Failed, MaxTurns
from tests.support.loop_runs import LoopRun, Tool, run_loop


def blip(model: ScriptedModel, text: str = "half", kind: ErrorKind = "network") -> ScriptedModel:
    return model.will_fail("connection reset", kind=kind, text=text)


def recovering(most: int = 3, clock: FakeClock | None = None) -> Hooks:
    """The hooks, with waits on a clock that does not wait, and without jitter."""
    clock = clock or FakeClock(is_eager=True)
    return resume_broken_answers(most, sleep=clock.sleep, random=lambda: 0.0)


async def recovered(
    model: ScriptedModel, most: int = 3, *, clock: FakeClock | None = None, **more: Any
) -> LoopRun:
    config = compose(recovering(most, clock))
    return await run_loop(model, "start", tools=[Tool()], config=config, **more)


async def test_broken_answer_is_continued_where_it_stopped() -> None:
    run = await recovered(blip(ScriptedModel()).will_say("rest"))

    assert [(m.role, getattr(m, "text", "")) for m in run.new] == [
        ("user", "start"),
        ("assistant", "half"),
        ("user", CUT_OFF),
        ("assistant", "rest"),
    ]
    assert run.new[2].origin == "harness"  # type: ignore[union-attr]
    assert run.recorder.of(RetryNotice) == [
        RetryNotice(attempt=1, delay_ms=1000, error="connection reset")
    ]
    assert len(run.recorder.of(TurnEnd)) == 2
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["network", "rate_limit", "server", "proxy_page"])
async def test_temporary_errors_are_recovered_from(kind: ErrorKind) -> None:
    run = await recovered(blip(ScriptedModel(), kind=kind).will_say("rest"))
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["auth", "context_length", "usage_cap", "other", "refused"])
async def test_case_12_permanent_error_ends_the_run(kind: ErrorKind) -> None:
    model = blip(ScriptedModel(), kind=kind).will_say("never")
    run = await recovered(model)
    assert len(model.seen) == 1
    assert run.recorder.of(RetryNotice) == []


async def test_case_74_repeated_error_fails_the_run_after_three_recoveries() -> None:
    model = ScriptedModel()
    for _ in range(6):
        blip(model)

    run = await recovered(model)

    assert len(model.seen) == 1 + 3
    assert run.new[-1].stop_reason == "error"  # type: ignore[union-attr]
    assert [notice.attempt for notice in run.recorder.of(RetryNotice)] == [1, 2, 3]
    assert run.outcome == Failed(kind="network", message="connection reset")


async def test_case_75_successful_turn_resets_the_recovery_count() -> None:
    model = ScriptedModel()
    for n in range(4):
        blip(model).will_call("echo", n=n)
    model.will_say("done")

    run = await recovered(model)

    assert isinstance(run.outcome, Done)
    assert [notice.attempt for notice in run.recorder.of(RetryNotice)] == [1] * 4


async def test_case_76_partial_call_is_dropped_and_partial_text_is_kept() -> None:
    half = ToolCallBlock(id="c1", name="echo", arguments='{"path": "a')
    model = ScriptedModel().will(
        Reply(text="so far", calls=[half], error=ProviderError("gone", kind="network"))
    )
    echo = Tool()
    run = await run_loop(model.will_say("rest"), "go", tools=[echo], config=compose(recovering()))

    assert run.new[1].text == "so far"  # type: ignore[union-attr]
    assert run.new[1].calls == ()  # type: ignore[union-attr]
    assert (echo.ran, run.new[-1].text) == ([], "rest")  # type: ignore[union-attr]


async def test_partial_thinking_counts_as_a_begun_answer() -> None:
    error = ProviderError("gone", kind="network")
    model = ScriptedModel().will(Reply(thinking="hm", error=error)).will_say("rest")
    run = await recovered(model)
    assert run.new[1].content == (ThinkingBlock(text="hm"),)  # type: ignore[union-attr]
    assert isinstance(run.outcome, Done)


async def test_stream_retries_and_recoveries_do_not_multiply() -> None:
    """No text had arrived, so only the stream's retries count."""
    model = ScriptedModel()
    for _ in range(20):
        model.will_fail("refused", kind="network")
    stream = retrying_stream_fn(model.stream_fn, sleep=FakeClock(is_eager=True).sleep)

    run = await run_loop(stream, "start", config=compose(recovering()))

    assert len(model.seen) == 6
    assert isinstance(run.outcome, Failed)


async def test_zero_recoveries_let_an_error_end_the_run() -> None:
    model = blip(ScriptedModel()).will_say("never")
    run = await recovered(model, most=0)
    assert (len(model.seen), type(run.outcome)) == (1, Failed)


async def test_broken_turn_counts_toward_the_turn_limit() -> None:
    model = blip(blip(ScriptedModel())).will_say("never")
    config = compose(Meter(Limits(turns=2)).bundle(), recovering())
    run = await run_loop(model, "start", config=config)
    assert (len(model.seen), run.outcome) == (2, MaxTurns(max=2))


# -- the wait before a recovery


async def test_recovery_wait_doubles_each_time() -> None:
    model, clock = ScriptedModel(), FakeClock(is_eager=True)
    for _ in range(4):
        blip(model)

    run = await recovered(model, clock=clock)

    assert clock.slept == [1, 2, 4]
    assert [notice.delay_ms for notice in run.recorder.of(RetryNotice)] == [1000, 2000, 4000]


async def test_recovery_waits_for_the_retry_after_of_the_service() -> None:
    error = ProviderError("slow down", kind="rate_limit", retry_after_s=20)
    model, clock = ScriptedModel().will(Reply(text="half", error=error)), FakeClock(is_eager=True)

    run = await recovered(model.will_say("rest"), clock=clock)

    assert clock.slept == [20]
    assert run.recorder.of(RetryNotice) == [
        RetryNotice(attempt=1, delay_ms=20_000, error="slow down")
    ]


async def test_abort_ends_the_recovery_wait_and_the_run() -> None:
    model, signal = blip(ScriptedModel()).will_say("never"), AbortSignal()

    async def sleep(_delay_s: float) -> None:
        signal.abort()
        await asyncio.Event().wait()

    config = compose(resume_broken_answers(3, sleep=sleep))
    run = await run_loop(model, "start", config=config, signal=signal)

    assert (len(model.seen), run.outcome) == (1, Cancelled(reason="user"))


async def test_steering_during_the_recovery_wait_is_sent_with_the_next_call() -> None:
    model, typed = blip(ScriptedModel()).will_say("rest"), list[Message]()

    async def sleep(_delay_s: float) -> None:
        typed.append(user_text("be brief", "steering"))

    def steering(_info: TurnInfo) -> list[Message]:
        taken = [*typed]
        typed.clear()
        return taken

    config = compose(
        resume_broken_answers(3, sleep=sleep), Hooks(name="q", get_steering_messages=steering)
    )
    run = await run_loop(model, "start", config=config)

    assert [getattr(m, "text", "") for m in run.new[2:]] == [CUT_OFF, "be brief", "rest"]


async def test_run_at_its_turn_limit_ends_without_a_recovery_wait() -> None:
    clock = FakeClock(is_eager=True)
    config = compose(Meter(Limits(turns=1)).bundle(), recovering(clock=clock))

    run = await run_loop(blip(ScriptedModel()), "start", config=config)

    assert (clock.slept, run.recorder.of(RetryNotice)) == ([], [])
    assert run.outcome == MaxTurns(max=1)


# -- answers truncated at max tokens


async def test_t12_answer_truncated_at_max_tokens_is_continued_once() -> None:
    model = ScriptedModel()
    model.will(Reply(text="a", stop_reason="length")).will(Reply(text="b", stop_reason="length"))

    run = await recovered(model.will_say("never"))

    assert [getattr(m, "text", "") for m in run.new] == ["start", "a", TOO_LONG, "b"]
    assert isinstance(run.outcome, Done)
    assert "may be incomplete" in run.recorder.of(SystemNotice)[0].content


async def test_answer_can_be_continued_again_after_a_successful_turn() -> None:
    model = ScriptedModel().will(Reply(text="a", stop_reason="length")).will_call("echo")
    model.will(Reply(text="b", stop_reason="length")).will_say("c")
    run = await recovered(model)
    assert (len(model.seen), run.recorder.of(SystemNotice)) == (4, [])


async def test_complete_calls_of_a_truncated_answer_run() -> None:
    model = ScriptedModel().will(Reply(calls=[("echo", {})], stop_reason="length"))
    run = await recovered(model.will_say("done"))
    assert [m.role for m in run.new] == ["user", "assistant", "toolResult", "assistant"]


async def test_truncated_answer_gives_only_a_notice_without_recoveries() -> None:
    model = ScriptedModel().will(Reply(text="a", stop_reason="length")).will_say("never")
    run = await recovered(model, most=0)
    assert (len(model.seen), len(run.recorder.of(SystemNotice))) == (1, 1)
