"""Case 109, and the rules that all stop checks share."""

import asyncio

import pytest

from dirge_py.agent_loop import Context, Hooks, StopRun, TurnInfo, compose
from dirge_py.guards.judge import goal_check, judge_check
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.stop_checks import failure_check, nudge, stop_check, suppress_while, todo_check
from dirge_py.guards.verification import Verification, track_verification, verification_check
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import SystemNotice, TurnEnd
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Cancelled, Done, MaxTurns
from tests.guards.test_judge import Panel
from tests.support.guarded_runs import nudges, run_guarded, says

WORDS = {
    "resume": "You stopped right after",
    "verifier": "nothing has built",
    "judge": "A review of this run",
    "goal": "The goal is not met",
    "todo": "on your todo list",
}


def every_gate(critic=None, watcher=None):
    """All stop checks in order, each with a message."""
    verification = Verification()
    return (
        track_verification(verification),
        failure_check(1),
        verification_check(verification),
        judge_check(critic or Panel(*["INCOMPLETE\n- a"] * 9)),
        goal_check("b", watcher or Panel(*["UNMET\n- c"] * 9), most=1),
        todo_check(lambda: ["d"], 1),
    )


def stopping_after_a_failure(stops=9):
    model = ScriptedModel().will_call_all(("edit", {"path": "a.py"}), ("faulty", {}))
    for n in range(stops):
        model.will_say(f"I stop {n}.")
    return model


def spoke(run):
    return [next(name for name, word in WORDS.items() if word in text) for text in nudges(run)]


async def test_case_109_one_gate_speaks_at_a_time_and_in_their_order():
    model = stopping_after_a_failure()
    run = await run_guarded(model, *every_gate())
    assert spoke(run) == list(WORDS)
    assert isinstance(run.outcome, Done)
    openers = [
        [each for each in context.messages[-2:] if isinstance(each, UserMessage)]
        for context in model.seen[2:]
    ]
    assert [len(each) for each in openers] == [1] * 5


async def test_case_109_what_somebody_else_says_silences_every_gate_of_that_occasion():
    critic = Panel("INCOMPLETE")
    model = stopping_after_a_failure(1).will_say("ok")
    bundles = says("and now the docs"), *every_gate(critic)[:4]
    run = await run_guarded(model.will_say("ok"), *bundles)
    followed = [each.text for each in run.new if isinstance(each, UserMessage)][1]
    assert followed == "and now the docs"
    # Afterwards they speak as if nothing had been: no budget was spent.
    assert spoke(run)[0] == "verifier"


async def test_case_109_a_deferred_end_asks_nobody_and_spends_nothing():
    critic, waits = Panel("INCOMPLETE\n- a"), [True]
    bundles = [suppress_while(lambda: waits[0], each) for each in every_gate(critic)]
    run = await run_guarded(stopping_after_a_failure(), *bundles)
    assert isinstance(run.outcome, Done)
    assert (nudges(run), critic.asked) == ([], [])

    waits[0] = False
    again = await run_guarded(stopping_after_a_failure(), *bundles)
    assert spoke(again) == list(WORDS)


async def test_case_109_what_somebody_says_wins_over_a_deferred_end():
    critic = Panel("INCOMPLETE")
    bundles = [suppress_while(lambda: True, each) for each in every_gate(critic)]
    model = stopping_after_a_failure(2)
    run = await run_guarded(model, says("one more"), *bundles)
    assert (len(model.seen), nudges(run), critic.asked) == (3, [], [])


async def test_a_deferral_that_breaks_lets_the_run_end():
    def broken():
        raise LookupError("who")

    run = await run_guarded(
        ScriptedModel().will_say("a"), suppress_while(broken, todo_check(lambda: ["x"]))
    )
    assert isinstance(run.outcome, Done)


def test_only_gates_can_be_deferred():
    bundle = Hooks(name="tracker", after_tool_call=lambda *_: None)
    assert suppress_while(lambda: True, bundle) is bundle


async def test_each_is_bounded_and_pays_only_when_it_speaks():
    words = ["", "a", "", "b", "c", "d"]
    asked = []

    def ask(info):
        asked.append(info.outer_turn)
        return nudge(words[len(asked) - 1]) if words[len(asked) - 1] else ()

    model = ScriptedModel()
    for _ in range(9):
        model.will_say("x")
    quiet = todo_check(lambda: ["keep going"], 2)
    run = await run_guarded(model, stop_check("words", ask, most=2), quiet)
    assert [text for text in nudges(run) if len(text) == 1] == ["a", "b"]
    assert (len(nudges(run)), len(asked)) == (4, 4)


@pytest.mark.parametrize("most", [0, -1])
async def test_a_gate_without_budget_asks_nobody(most):
    asked = []
    run = await run_guarded(ScriptedModel().will_say("x"), stop_check("g", asked.append, most=most))
    assert (asked, nudges(run)) == ([], [])


async def test_each_fails_open_and_the_next_one_still_speaks():
    def bug(_info):
        raise KeyError("bug")

    async def slow_bug(_info):
        raise TimeoutError

    model = ScriptedModel().will_say("x").will_say("y")
    gates = stop_check("first", bug, most=1), stop_check("second", slow_bug, most=1)
    run = await run_guarded(model, *gates, todo_check(lambda: ["x"], 1))
    assert (spoke(run), isinstance(run.outcome, Done)) == (["todo"], True)
    notices = [each.content for each in run.recorder.of(SystemNotice)]
    assert notices[:2] == [
        "The first check failed: 'bug'",
        "The second check failed: TimeoutError",
    ]


async def test_a_gate_may_end_the_run():
    def stop(_info):
        raise StopRun(Done(stopped_by="gate"))

    run = await run_guarded(ScriptedModel().will_say("x"), stop_check("g", stop, most=1))
    assert run.outcome.stopped_by == "gate"


async def test_gates_are_silent_after_an_abort():
    signal, asked = AbortSignal(), []

    async def wait():
        signal.abort()
        await asyncio.Event().wait()

    model = ScriptedModel().will(Reply(text="x", hold=wait))
    run = await run_guarded(model, stop_check("g", asked.append, most=1), signal=signal)
    assert (run.outcome, asked) == (Cancelled(reason="user"), [])


@pytest.mark.parametrize("stop", ["abort", "interject"])
async def test_a_gate_that_is_asked_while_the_run_is_stopped_says_nothing(stop):
    signal = AbortSignal()

    def ask(_info):
        getattr(signal, stop)()
        return nudge("go on")

    bundle = stop_check("g", ask, most=1)
    model = ScriptedModel().will_say("x")
    run = await run_guarded(model, bundle, signal=signal)
    assert nudges(run) == []
    asked_again = await bundle.get_followup_messages(_info_of(signal), ())
    assert asked_again == ()


def _info_of(signal):
    return TurnInfo(
        run_id="r",
        outer_turn=1,
        turn=1,
        context=Context(),
        new_messages=(),
        signal=signal,
        emit=lambda event: None,
    )


async def test_gates_are_silent_after_a_limit():
    model = ScriptedModel().will_call("edit", path="a.py").will_call("edit", path="b.py")
    run = await run_guarded(model, Meter(Limits(turns=1)).bundle(), *every_gate())
    assert (run.outcome, nudges(run)) == (MaxTurns(max=1), [])


async def test_gates_are_silent_after_a_storm_but_what_waits_is_delivered():
    def storm(info):
        if info.turn == 1:
            raise StopRun(Done(stopped_by="storm"), say="Stuck.", finalize=True)

    stuck = Hooks(name="storm", should_stop_after_turn=storm)
    model = stopping_after_a_failure(1)
    run = await run_guarded(model, stuck, says("try the other file"), *every_gate()[:2])
    assert [each.text for each in run.new if isinstance(each, UserMessage)] == [
        "go",
        "try the other file",
    ]
    assert isinstance(run.outcome, Done)
    assert len(run.recorder.of(TurnEnd)) == 3

    alone = await run_guarded(stopping_after_a_failure(1), stuck, *every_gate())
    assert (nudges(alone), alone.outcome.stopped_by) == ([], "storm")


async def test_gates_of_one_run_know_nothing_of_another():
    for _ in range(2):
        run = await run_guarded(stopping_after_a_failure(), *every_gate())
        assert spoke(run) == list(WORDS)


async def test_a_config_without_gates_ends_where_the_model_stops():
    assert compose().get_followup_messages is not None
    run = await run_guarded(stopping_after_a_failure())
    assert nudges(run) == []
