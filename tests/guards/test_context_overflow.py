"""A request that exceeds the window."""

from dataclasses import replace
from typing import Any

from dirge_py.agent_loop import compose
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import resume_broken_answers, shrink_on_overflow
from dirge_py.testing import FakeClock, ScriptedModel
from dirge_py.types.events import SystemNotice, UsageReported
from dirge_py.types.hooks import Context, Hooks, TurnInfo
from dirge_py.types.messages import user_text
from dirge_py.types.outcomes import Done, Failed
from tests.support.loop_runs import LoopRun, Tool, run_loop
from tests.support.project import ScriptedProject

TOO_LONG = "prompt is too long: 210000 tokens > 200000"


class View:
    """A context view of the newest `kept` messages that can be halved."""

    def __init__(self, kept: int = 64, least: int = 1) -> None:
        self.kept, self.least, self.shrunk = kept, least, 0

    async def shrink(self) -> bool:
        self.shrunk += 1
        before, self.kept = self.kept, max(self.kept // 2, self.least)
        return self.kept < before

    def bundle(self) -> Hooks:
        def transform(info: TurnInfo) -> Context:
            return replace(info.context, messages=info.context.messages[-self.kept :])

        return Hooks(name="view", transform_context=transform)


def refusing(model: ScriptedModel, times: int) -> ScriptedModel:
    for _ in range(times):
        model.will_fail(TOO_LONG, kind="context_length")
    return model


async def shrinking(model: ScriptedModel, view: View, *bundles: Hooks, **more: Any) -> LoopRun:
    history = [user_text(str(n)) for n in range(20)]
    config = compose(
        view.bundle(),
        resume_broken_answers(3, sleep=FakeClock(is_eager=True).sleep),
        shrink_on_overflow(view.shrink),
        *bundles,
    )
    context = Context(messages=history, tools=[Tool()])
    return await run_loop(model, "start", context=context, config=config, **more)


async def test_a03_request_after_an_overflow_is_smaller_within_the_same_turn() -> None:
    model = refusing(ScriptedModel(), 1).will_say("fits")
    view = View(kept=21)

    run = await shrinking(model, view)

    before, after = (len(seen.messages) for seen in model.seen)
    assert after <= before // 2
    assert view.shrunk == 1
    assert isinstance(run.outcome, Done)
    assert run.outcome.result is not None
    assert (run.outcome.result.response, run.outcome.result.turns) == ("fits", 1)


async def test_t21_overflow_without_progress_fails_the_run_with_a_hint() -> None:
    model = refusing(ScriptedModel(), 5)

    run = await shrinking(model, View(kept=1))

    assert len(model.seen) == 1
    assert isinstance(run.outcome, Failed)
    assert run.outcome.kind == "context_length"
    assert "nothing left to compact" in run.outcome.message
    assert TOO_LONG in run.outcome.message
    assert "`/clear`" in run.outcome.hint and "/compact" not in run.outcome.hint


async def test_s19_overflow_is_compacted_once_per_turn() -> None:
    model = refusing(ScriptedModel(), 5)
    view = View()

    run = await shrinking(model, view)

    assert (len(model.seen), view.shrunk) == (2, 1)
    assert isinstance(run.outcome, Failed)
    assert "still too large" in run.outcome.message


async def test_later_turn_can_be_compacted_again() -> None:
    model = refusing(ScriptedModel(), 1).will_call("echo")
    view = View()
    run = await shrinking(refusing(model, 1).will_say("done"), view)
    assert (view.shrunk, type(run.outcome)) == (2, Done)


async def test_request_that_overflowed_does_not_count_as_a_turn() -> None:
    model = refusing(ScriptedModel(), 1).will_say("fits")
    run = await shrinking(model, View(), Meter(Limits(turns=1)).bundle())
    assert isinstance(run.outcome, Done)


async def test_failing_compaction_fails_the_run_with_the_services_message() -> None:
    async def broken() -> bool:
        raise OSError("disk full")

    model = refusing(ScriptedModel(), 5)
    run = await run_loop(model, "start", config=compose(shrink_on_overflow(broken)))

    assert run.outcome == Failed(kind="context_length", message=TOO_LONG)
    assert "disk full" in run.recorder.of(SystemNotice)[0].content
    assert run.recorder.of(UsageReported) == []


async def test_finished_run_is_done_if_a_stop_check_overflows_the_context(
    project: ScriptedProject,
) -> None:
    project.model.will_call("todo", items=[{"id": "1", "text": "one"}]).will_say("Finished.")
    project.model.will_fail(TOO_LONG, kind="context_length")
    async with project.open() as conversation:
        outcome = await conversation.send("go")

        assert isinstance(outcome, Done) and outcome.result is not None
        assert outcome.result.response == "Finished."
        assert len(project.model.seen) == 3
