"""Case 109, and the rules that all stop checks share."""

import asyncio

import pytest

from dirge_py.agent_loop import Context, Hooks, StopRun, TurnInfo, compose
from dirge_py.guards.judge import goal_check, judge_check
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.stop_checks import StopCheck, failure_check, stop_checks, todo_check
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
    "judge": "A review of this run",
    "goal": "The goal is not met",
    "resume": "You stopped right after",
    "verifier": "nothing has run, built",
    "todo": "on your todo list",
}


def every_check(critic=None, watcher=None, only=tuple(WORDS)):
    """All stop checks in order, each with a message."""
    verification = Verification()
    checks = [
        judge_check(critic or Panel(*["INCOMPLETE\n- a"] * 9)),
        goal_check("b", watcher or Panel(*["UNMET\n- c"] * 9), most=2),
        failure_check(),
        verification_check(verification),
        todo_check(lambda: ["d"]),
    ]
    return track_verification(verification), [each for each in checks if each.name in only]


def bundles_of(*only, **more):
    tracking, checks = every_check(only=only or tuple(WORDS), **more)
    return tracking, stop_checks(checks)


def stopping_after_a_failure(stops=9):
    model = ScriptedModel().will_call("todo")
    model.will_call_all(("edit", {"path": "a.py"}), ("faulty", {}))
    for n in range(stops):
        model.will_say(f"I stop {n}.")
    return model


def spoke(run):
    return [next(name for name, word in WORDS.items() if word in text) for text in nudges(run)]


def checking(ask):
    return stop_checks([StopCheck(name="g", ask=ask)])


def saying(name, text, most=1):
    return StopCheck(name=name, ask=lambda _info: text, most=most)


@pytest.mark.parametrize(
    ("only", "spoken"),
    [
        (("resume", "verifier", "todo"), ["resume"]),
        (("verifier", "todo"), ["verifier"]),
        (("todo",), ["todo"]),
        (("goal", "resume", "verifier", "todo"), ["goal", "goal"]),
        (("judge", "todo"), ["judge"]),
        (tuple(WORDS), ["judge", "goal", "goal"]),
    ],
)
async def test_case_109_one_check_speaks_per_run_but_judge_and_goal_as_configured(only, spoken):
    run = await run_guarded(stopping_after_a_failure(), *bundles_of(*only))
    assert (spoke(run), isinstance(run.outcome, Done)) == (spoken, True)


async def test_judge_without_complaints_leaves_the_message_to_other_checks():
    critic, watcher = Panel("COMPLETE"), Panel("MET")
    run = await run_guarded(stopping_after_a_failure(), *bundles_of(critic=critic, watcher=watcher))
    assert (spoke(run), len(critic.asked), len(watcher.asked)) == (["resume"], 1, 1)


async def test_case_109_each_check_message_is_alone_before_its_answer():
    model = stopping_after_a_failure()
    await run_guarded(model, *bundles_of())
    openers = [
        [each for each in context.messages[-2:] if isinstance(each, UserMessage)]
        for context in model.seen[3:]
    ]
    assert [len(each) for each in openers] == [1] * 3


async def test_case_109_follow_up_of_the_user_silences_every_check_at_that_stop():
    model = stopping_after_a_failure(3)
    bundles = says("and now the docs"), *bundles_of("verifier", "todo")
    run = await run_guarded(model, *bundles)
    followed = [each.text for each in run.new if isinstance(each, UserMessage)][1]
    assert followed == "and now the docs"
    # The checks speak at the next stop as usual: they used no budget.
    assert spoke(run) == ["verifier"]


async def test_case_109_deferred_end_asks_no_check_and_uses_no_budget():
    critic, waits = Panel(*["INCOMPLETE\n- a"] * 2), [True]
    tracking, checks = every_check(critic)
    bundles = tracking, stop_checks(checks, should_defer=lambda: waits[0])
    run = await run_guarded(stopping_after_a_failure(), *bundles)
    assert isinstance(run.outcome, Done)
    assert (nudges(run), critic.asked) == ([], [])

    waits[0] = False
    again = await run_guarded(stopping_after_a_failure(), *bundles)
    assert spoke(again) == ["judge", "goal", "goal"]


async def test_case_109_follow_up_is_delivered_despite_a_deferred_end():
    critic = Panel("INCOMPLETE")
    deferred = stop_checks(every_check(critic)[1], should_defer=lambda: True)
    model = stopping_after_a_failure(2)
    run = await run_guarded(model, says("one more"), deferred)
    assert (len(model.seen), nudges(run), critic.asked) == (4, [], [])


async def test_failing_should_defer_lets_the_run_end():
    def broken():
        raise LookupError("who")

    checks = stop_checks([saying("a", "b")], should_defer=broken)
    run = await run_guarded(ScriptedModel().will_say("a"), checks)
    assert isinstance(run.outcome, Done)


async def test_empty_check_message_uses_no_budget():
    answers = ["", "a", "b"]
    check = StopCheck(name="words", ask=lambda _info: answers.pop(0), most=1)
    model = ScriptedModel().will_say("x").will_say("y").will_say("z")
    run = await run_guarded(model, stop_checks([check]), says("go on"))
    assert (nudges(run), answers) == (["a"], ["b"])


@pytest.mark.parametrize("most", [0, -1])
async def test_check_without_budget_is_not_asked(most):
    asked = []
    check = StopCheck(name="g", ask=asked.append, most=most)
    run = await run_guarded(ScriptedModel().will_say("x"), stop_checks([check]))
    assert (asked, nudges(run)) == ([], [])


@pytest.mark.parametrize("only", ["judge", "resume", "verifier", "todo"])
async def test_answer_that_asks_the_user_ends_the_run(only):
    model = ScriptedModel().will_call("todo")
    model.will_call_all(("edit", {"path": "a.py"}), ("faulty", {}))
    model.will_say("Both would work:\n\nWhich one do you want?\n\n1. a\n2. b")
    run = await run_guarded(model, *bundles_of(only))
    assert (nudges(run), model.is_spent) == ([], True)


async def test_failing_check_is_skipped_and_the_next_check_speaks():
    def bug(_info):
        raise KeyError("bug")

    async def slow_bug(_info):
        raise TimeoutError

    model = ScriptedModel().will_say("x").will_say("y")
    failing = StopCheck(name="first", ask=bug), StopCheck(name="second", ask=slow_bug)
    run = await run_guarded(model, stop_checks([*failing, saying("third", "x")]))
    assert (nudges(run), isinstance(run.outcome, Done)) == (["x"], True)
    notices = [each.content for each in run.recorder.of(SystemNotice)]
    assert notices[:2] == [
        "The first check failed: 'bug'",
        "The second check failed: TimeoutError",
    ]


async def test_check_message_that_gets_no_answer_ends_the_run_as_done():
    model = ScriptedModel().will_say("Done.").will_fail("down", kind="auth")
    run = await run_guarded(model, stop_checks([saying("first", "x")]))
    assert isinstance(run.outcome, Done)
    assert "The first check got no answer" in run.recorder.of(SystemNotice)[-1].content


async def test_stop_check_can_stop_the_run():
    def stop(_info):
        raise StopRun(Done(stopped_by="gate"))

    run = await run_guarded(ScriptedModel().will_say("x"), checking(stop))
    assert run.outcome.stopped_by == "gate"


async def test_stop_checks_are_not_asked_after_an_abort():
    signal, asked = AbortSignal(), []

    async def wait():
        signal.abort()
        await asyncio.Event().wait()

    model = ScriptedModel().will(Reply(text="x", hold=wait))
    run = await run_guarded(model, checking(asked.append), signal=signal)
    assert (run.outcome, asked) == (Cancelled(reason="user"), [])


@pytest.mark.parametrize("stop", ["abort", "interject"])
async def test_stop_check_interrupted_by_a_stop_sends_no_message(stop):
    signal = AbortSignal()

    def ask(_info):
        getattr(signal, stop)()
        return "go on"

    bundle = checking(ask)
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


async def test_stop_checks_are_silent_after_a_limit():
    model = ScriptedModel().will_call("edit", path="a.py").will_call("edit", path="b.py")
    run = await run_guarded(model, Meter(Limits(turns=1)).bundle(), *bundles_of())
    assert (run.outcome, nudges(run)) == (MaxTurns(max=1), [])


async def test_stop_checks_are_silent_after_a_storm_but_follow_ups_are_delivered():
    def storm(info):
        if info.turn == 2:
            raise StopRun(Done(stopped_by="storm"), say="Stuck.", finalize=True)

    stuck = Hooks(name="storm", should_stop_after_turn=storm)
    model = stopping_after_a_failure(1)
    run = await run_guarded(model, stuck, says("try the other file"))
    assert [each.text for each in run.new if isinstance(each, UserMessage)] == [
        "go",
        "try the other file",
    ]
    assert isinstance(run.outcome, Done)
    assert len(run.recorder.of(TurnEnd)) == 4

    alone = await run_guarded(stopping_after_a_failure(1), stuck, *bundles_of())
    assert (nudges(alone), alone.outcome.stopped_by) == ([], "storm")


async def test_stop_checks_of_separate_runs_are_independent():
    for _ in range(2):
        run = await run_guarded(stopping_after_a_failure(), *bundles_of())
        assert spoke(run) == ["judge", "goal", "goal"]


async def test_run_without_stop_checks_ends_when_the_model_stops():
    assert compose().get_followup_messages is not None
    run = await run_guarded(stopping_after_a_failure())
    assert nudges(run) == []
