"""All guards that continue a run, against models that misbehave at random."""

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import (
    EscalationBudget,
    escalate_on_failure,
    resume_broken_answers,
    shrink_on_overflow,
)
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.events import EscalationActivated, RetryNotice
from dirge_py.types.outcomes import Done, Failed, LimitExceeded, MaxTurns
from tests.security.sizes import size
from tests.support.loop_runs import LoopRun, Tool, run_loop

MOST_REQUESTS, MOST_TURNS = 25, 15


def broken(kind: ErrorKind, text: str) -> Reply:
    return Reply(text=text, error=ProviderError("gone", kind=kind))


REPLIES = st.one_of(
    st.builds(
        broken,
        st.sampled_from(["network", "server", "context_length"]),
        st.sampled_from(["", "half"]),
    ),
    st.sampled_from(
        [
            Reply(calls=[("echo", {})]),
            Reply(calls=[("echo", "{cut"), ("echo", {})]),
            Reply(text="long", stop_reason="length"),
            Reply(text="…", stop_reason="pause_turn"),
            Reply(stop_reason="compaction"),
            Reply(text="done"),
        ]
    ),
)


async def misbehaving(script: Sequence[Reply], shrinks: Sequence[bool]) -> LoopRun:
    model = ScriptedModel()
    for reply in script:
        model.will(reply)
    progress = iter(shrinks)

    async def shrink() -> bool:
        return next(progress, False)

    config = compose(
        Meter(Limits(turns=MOST_TURNS, requests=MOST_REQUESTS)).bundle(),
        resume_broken_answers(3, sleep=FakeClock(is_eager=True).sleep),
        shrink_on_overflow(shrink),
        escalate_on_failure("strong/big", EscalationBudget(), home=lambda: "main/small"),
        config=LoopConfig(model="main/small"),
    )
    run = await run_loop(model, "go", tools=[Tool()], config=config)
    assert len(model.seen) <= MOST_REQUESTS
    return run


@settings(max_examples=size(25, 60), deadline=None)
@given(
    st.lists(REPLIES, max_size=40).map(lambda script: [*script, Reply(text="end")]),
    st.lists(st.booleans(), max_size=4),
)
def test_every_run_ends_balanced_within_its_limits(
    script: list[Reply], shrinks: list[bool]
) -> None:
    run = asyncio.run(misbehaving(script, shrinks))

    assert_balanced(run.new)
    assert isinstance(run.outcome, Done | Failed | MaxTurns | LimitExceeded)
    assert all(notice.attempt <= 3 for notice in run.recorder.of(RetryNotice))
    assert len(run.recorder.of(EscalationActivated)) <= 3
