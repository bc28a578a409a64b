"""Continuing after an answer that broke off."""

from typing import Any

import pytest

from dirge_py.agent_loop import compose, retrying_stream_fn
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import CUT_OFF, TOO_LONG, resume_broken_answers
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.events import RetryNotice, SystemNotice, TurnEnd
from dirge_py.types.messages import ThinkingBlock, ToolCallBlock
from dirge_py.types.outcomes import Done, Failed, MaxTurns
from tests.support.loop_runs import LoopRun, Tool, run_loop


def blip(model: ScriptedModel, text: str = "half", kind: ErrorKind = "network") -> ScriptedModel:
    return model.will_fail("connection reset", kind=kind, text=text)


async def recovered(model: ScriptedModel, most: int = 3, **more: Any) -> LoopRun:
    return await run_loop(
        model, "start", tools=[Tool()], config=compose(resume_broken_answers(most)), **more
    )


async def test_the_rest_is_asked_for_where_the_answer_stops() -> None:
    run = await recovered(blip(ScriptedModel()).will_say("rest"))

    assert [(m.role, getattr(m, "text", "")) for m in run.new] == [
        ("user", "start"),
        ("assistant", "half"),
        ("user", CUT_OFF),
        ("assistant", "rest"),
    ]
    assert run.new[2].origin == "harness"  # type: ignore[union-attr]
    assert run.recorder.of(RetryNotice) == [
        RetryNotice(attempt=1, delay_ms=0, error="connection reset")
    ]
    assert len(run.recorder.of(TurnEnd)) == 2
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["network", "rate_limit", "server", "proxy_page"])
async def test_every_kind_that_may_pass_is_recovered_from(kind: ErrorKind) -> None:
    run = await recovered(blip(ScriptedModel(), kind=kind).will_say("rest"))
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["auth", "context_length", "usage_cap", "other", "refused"])
async def test_case_12_an_error_that_will_not_pass_ends_the_run(kind: ErrorKind) -> None:
    model = blip(ScriptedModel(), kind=kind).will_say("never")
    run = await recovered(model)
    assert len(model.seen) == 1
    assert run.recorder.of(RetryNotice) == []


async def test_case_74_the_same_error_for_ever_ends_after_three_recoveries() -> None:
    model = ScriptedModel()
    for _ in range(6):
        blip(model)

    run = await recovered(model)

    assert len(model.seen) == 1 + 3
    assert run.new[-1].stop_reason == "error"  # type: ignore[union-attr]
    assert [notice.attempt for notice in run.recorder.of(RetryNotice)] == [1, 2, 3]
    assert run.outcome == Failed(kind="network", message="connection reset")


async def test_case_75_every_good_turn_sets_the_count_back() -> None:
    model = ScriptedModel()
    for n in range(4):
        blip(model).will_call("echo", n=n)
    model.will_say("done")

    run = await recovered(model)

    assert isinstance(run.outcome, Done)
    assert [notice.attempt for notice in run.recorder.of(RetryNotice)] == [1] * 4


async def test_case_76_half_a_call_is_gone_and_the_text_is_kept() -> None:
    half = ToolCallBlock(id="c1", name="echo", arguments='{"path": "a')
    model = ScriptedModel().will(
        Reply(text="so far", calls=[half], error=ProviderError("gone", kind="network"))
    )
    echo = Tool()
    run = await run_loop(
        model.will_say("rest"), "go", tools=[echo], config=compose(resume_broken_answers(3))
    )

    assert run.new[1].text == "so far"  # type: ignore[union-attr]
    assert run.new[1].calls == ()  # type: ignore[union-attr]
    assert (echo.ran, run.new[-1].text) == ([], "rest")  # type: ignore[union-attr]


async def test_thinking_counts_as_having_begun() -> None:
    error = ProviderError("gone", kind="network")
    model = ScriptedModel().will(Reply(thinking="hm", error=error)).will_say("rest")
    run = await recovered(model)
    assert run.new[1].content == (ThinkingBlock(text="hm"),)  # type: ignore[union-attr]
    assert isinstance(run.outcome, Done)


async def test_retries_and_recoveries_do_not_multiply() -> None:
    """No text had arrived, so only the stream's retries count."""
    model = ScriptedModel()
    for _ in range(20):
        model.will_fail("refused", kind="network")
    stream = retrying_stream_fn(model.stream_fn, sleep=FakeClock(is_eager=True).sleep)

    run = await run_loop(stream, "start", config=compose(resume_broken_answers(3)))

    assert len(model.seen) == 6
    assert isinstance(run.outcome, Failed)


async def test_none_is_the_rule_that_an_error_ends_the_run() -> None:
    model = blip(ScriptedModel()).will_say("never")
    run = await recovered(model, most=0)
    assert (len(model.seen), type(run.outcome)) == (1, Failed)


async def test_a_broken_turn_counts_among_the_turns() -> None:
    model = blip(blip(ScriptedModel())).will_say("never")
    config = compose(Meter(Limits(turns=2)).bundle(), resume_broken_answers(3))
    run = await run_loop(model, "start", config=config)
    assert (len(model.seen), run.outcome) == (2, MaxTurns(max=2))


# -- answers that reached their length


async def test_t12_an_answer_cut_at_its_length_is_continued_once() -> None:
    model = ScriptedModel()
    model.will(Reply(text="a", stop_reason="length")).will(Reply(text="b", stop_reason="length"))

    run = await recovered(model.will_say("never"))

    assert [getattr(m, "text", "") for m in run.new] == ["start", "a", TOO_LONG, "b"]
    assert isinstance(run.outcome, Done)
    assert "may be incomplete" in run.recorder.of(SystemNotice)[0].content


async def test_a_good_turn_between_allows_another_continuation() -> None:
    model = ScriptedModel().will(Reply(text="a", stop_reason="length")).will_call("echo")
    model.will(Reply(text="b", stop_reason="length")).will_say("c")
    run = await recovered(model)
    assert (len(model.seen), run.recorder.of(SystemNotice)) == (4, [])


async def test_calls_of_an_answer_cut_at_its_length_are_run_instead() -> None:
    model = ScriptedModel().will(Reply(calls=[("echo", {})], stop_reason="length"))
    run = await recovered(model.will_say("done"))
    assert [m.role for m in run.new] == ["user", "assistant", "toolResult", "assistant"]


async def test_without_recoveries_the_cut_is_only_told() -> None:
    model = ScriptedModel().will(Reply(text="a", stop_reason="length")).will_say("never")
    run = await recovered(model, most=0)
    assert (len(model.seen), len(run.recorder.of(SystemNotice))) == (1, 1)
