"""One call by a stronger model after a failed one."""

from typing import Any

import pytest

from dirge_py.agent_loop import LoopConfig, TurnUpdate, compose
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import (
    EscalationBudget,
    escalate_on_failure,
    resume_broken_answers,
    shrink_on_overflow,
)
from dirge_py.providers.scripted import Reply
from dirge_py.testing import EventRecorder, FakeClock, ScriptedModel
from dirge_py.types.errors import ModelRetry, ProviderError
from dirge_py.types.events import EscalationActivated, LoopEvent, MessageStart, UsageReported
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, Usage
from dirge_py.types.outcomes import Done, Failed
from dirge_py.types.tools import LoopToolResult, text_result
from tests.support.loop_runs import LoopRun, Tool, run_loop

MAIN, BIG = "main/small", "strong/big"


def wants_path(tool: Any, arguments: Any) -> Any:
    if tool.name == "strict" and not isinstance(arguments.get("path"), str):
        raise ValueError("path: is missing.")
    return arguments


class EscalationDriver:
    """A run under the guard, with the model of each call."""

    def __init__(self, model: ScriptedModel, tools: tuple[Tool, ...] = ()) -> None:
        self.model = model
        self.tools = [Tool(), Tool("strict"), *tools]
        self.asked: list[str] = []
        self.chosen = MAIN
        self.budget = EscalationBudget()

    async def run(self, alternate: str | None = BIG, *bundles: Hooks, **more: Any) -> LoopRun:
        guard = escalate_on_failure(alternate, self.budget, home=lambda: self.chosen)
        config = compose(*bundles, guard, config=LoopConfig(model=MAIN, validate=wants_path))

        def stream(context: Any, options: Any, signal: Any) -> Any:
            self.asked.append(options.model)
            return self.model.stream_fn(context, options, signal)

        return await run_loop(stream, "go", tools=self.tools, config=config, **more)


def activations(run: LoopRun) -> list[tuple[str, str]]:
    return [(event.provider, event.reason) for event in run.recorder.of(EscalationActivated)]


async def test_case_120_only_the_next_call_uses_the_stronger_model() -> None:
    model = ScriptedModel().will_call("strict").will_call("strict", path="a").will_call("echo")
    driver = EscalationDriver(model.will_say("done"))

    run = await driver.run()

    assert driver.asked == [MAIN, BIG, MAIN, MAIN]
    assert activations(run) == [(BIG, "repair_exhausted: strict")]
    assert driver.budget.spent == 1
    assert isinstance(run.outcome, Done)


async def test_case_120_escalation_event_comes_right_before_the_model_call() -> None:
    driver = EscalationDriver(ScriptedModel().will_call("strict").will_say("done"))
    heard: list[LoopEvent] = (await driver.run()).events
    place = next(n for n, event in enumerate(heard) if isinstance(event, EscalationActivated))
    following = heard[place + 1]
    assert isinstance(following, MessageStart)
    assert isinstance(following.message, AssistantMessage)
    assert following.message.model == BIG


@pytest.mark.parametrize("alternate", [None, "", MAIN])
async def test_case_120_without_another_model_there_is_no_escalation(alternate: str | None) -> None:
    driver = EscalationDriver(ScriptedModel().will_call("strict").will_say("done"))
    run = await driver.run(alternate)
    assert (driver.asked, activations(run), driver.budget.spent) == ([MAIN, MAIN], [], 0)


async def test_case_120_budget_of_three_escalations_is_per_session() -> None:
    budget = EscalationBudget()
    asked = []
    for _ in range(5):
        driver = EscalationDriver(ScriptedModel().will_call("strict").will_say("done"))
        driver.budget = budget
        await driver.run()
        asked.append(driver.asked[1])
    assert asked == [BIG, BIG, BIG, MAIN, MAIN]


async def test_several_failures_in_one_turn_cause_one_escalation() -> None:
    model = ScriptedModel().will_call_all(("strict", {}), ("strict", {"path": 1}), ("strict", {}))
    driver = EscalationDriver(model.will_say("done"))
    run = await driver.run()
    assert (len(activations(run)), driver.budget.spent) == (1, 1)


async def writes(*_: Any) -> LoopToolResult:
    return text_result("Written, but it does not parse.", syntax_error="src/a.py")


async def test_edit_with_a_syntax_error_causes_an_escalation() -> None:
    driver = EscalationDriver(
        ScriptedModel().will_call("write").will_say("done"), (Tool("write", writes),)
    )
    run = await driver.run()
    assert driver.asked == [MAIN, BIG]
    assert activations(run) == [(BIG, "syntactic_failure: write src/a.py")]


async def test_model_retry_of_a_tool_causes_no_escalation() -> None:
    async def picky(*_: Any) -> LoopToolResult:
        raise ModelRetry("A line number below 10.")

    driver = EscalationDriver(
        ScriptedModel().will_call("picky").will_say("done"), (Tool("picky", picky),)
    )
    run = await driver.run()
    assert (run.outcomes, driver.asked) == (["invalid"], [MAIN, MAIN])


async def test_model_switched_during_an_escalation_is_used_afterwards() -> None:
    driver = EscalationDriver(ScriptedModel())

    def switching(_context: Any) -> Reply:
        driver.chosen = "other/m"  # while the stronger model answers
        return Reply(calls=[("echo", {})])

    driver.model.will_call("strict").will(switching).will_say("done")
    hooks = Hooks(name="switch", prepare_next_turn=lambda _: TurnUpdate(model=driver.chosen))

    await driver.run(BIG, hooks)

    assert driver.asked == [MAIN, BIG, "other/m"]


async def test_second_failure_by_the_stronger_model_escalates_once_more() -> None:
    model = ScriptedModel().will_call("strict").will_call("strict").will_call("echo")
    driver = EscalationDriver(model.will_say("done"))
    run = await driver.run()
    assert driver.asked == [MAIN, BIG, BIG, MAIN]
    assert (len(activations(run)), driver.budget.spent) == (2, 2)


async def test_unreachable_stronger_model_is_replaced_by_the_chosen_model() -> None:
    model = ScriptedModel().will_call("strict").will_fail("no key", kind="auth").will_say("done")
    driver = EscalationDriver(model)
    run = await driver.run()
    assert driver.asked == [MAIN, BIG, MAIN]
    assert isinstance(run.outcome, Done)


async def test_nothing_is_compacted_for_the_window_of_the_stronger_model() -> None:
    async def shrink() -> bool:
        raise AssertionError("not asked for")

    too_long = ProviderError("too long", kind="context_length")
    model = ScriptedModel().will_call("strict").will(Reply(error=too_long)).will_say("done")
    driver = EscalationDriver(model)
    run = await driver.run(BIG, shrink_on_overflow(shrink, lambda: BIG))

    assert driver.asked == [MAIN, BIG, MAIN]
    assert isinstance(run.outcome, Done)


async def test_unreachable_chosen_model_fails_the_run() -> None:
    model = ScriptedModel().will_call("echo").will_fail("no key", kind="auth").will_say("never")
    driver = EscalationDriver(model)
    assert isinstance((await driver.run()).outcome, Failed)
    assert driver.asked == [MAIN, MAIN]


async def test_partial_answer_of_the_stronger_model_is_continued_by_the_chosen_one() -> None:
    model = ScriptedModel().will_call("strict").will_fail("gone", kind="network", text="half")
    driver = EscalationDriver(model.will_say("rest"))
    run = await driver.run(BIG, resume_broken_answers(3, sleep=FakeClock(is_eager=True).sleep))
    assert driver.asked == [MAIN, BIG, MAIN]
    assert [m.origin for m in run.new if m.role == "user"] == ["user", "harness"]


async def test_escalation_blocked_by_a_limit_uses_no_budget() -> None:
    driver = EscalationDriver(ScriptedModel().will_call("strict").will_say("never"))
    recorder = EventRecorder()
    run = await driver.run(BIG, Meter(Limits(requests=1)).bundle(), recorder=recorder)
    assert (driver.asked, driver.budget.spent, activations(run)) == ([MAIN], 0, [])


async def test_escalated_call_uses_thinking_level_and_usage_role_of_escalation() -> None:
    one = Usage(input=1)
    call = ToolCallBlock(id="1", name="strict", arguments={})
    good = ToolCallBlock(id="2", name="strict", arguments={"path": "a"})
    model = ScriptedModel().will(Reply(calls=[call], usage=one))
    model.will(Reply(calls=[good], usage=one)).will_say("done", usage=one)
    guard = escalate_on_failure(
        BIG, EscalationBudget(), home=lambda: MAIN, level="high", home_level=lambda: "low"
    )
    base = LoopConfig(model=MAIN, thinking_level="low", validate=wants_path)

    run = await run_loop(
        model.stream_fn, "go", tools=[Tool("strict")], config=compose(guard, config=base)
    )

    assert [options.thinking_level for options in model.options] == ["low", "high", "low"]
    assert [event.role for event in run.recorder.of(UsageReported)] == ["", "escalate", ""]
