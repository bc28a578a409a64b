"""Case 110: a run that stops right after a failure continues, once."""

import pytest

from dirge_py.agent_loop import Context, Hooks, ToolOverride, TurnInfo, compose
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.stop_checks import failure_check, stop_checks
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import AssistantMessage, CustomMessage, ToolCallBlock, user_text
from dirge_py.types.outcomes import Done
from tests.support.guarded_runs import nudges, result, run_guarded
from tests.support.loop_runs import run_loop


def _calling():
    return AssistantMessage(content=(ToolCallBlock(id="x", name="edit", arguments={}),))


def check():
    return stop_checks([failure_check()])


async def texts(model, *more):
    return nudges(await run_guarded(model, check(), *more))


@pytest.mark.parametrize("outcome", ["error", "timeout", "invalid", "unknown_tool"])
async def test_case_110_stop_right_after_an_error_gets_one_message(outcome):
    model = ScriptedModel().will_call("faulty", outcome=outcome, text="no such file")
    answers = await texts(model.will_say("I stop.").will_say("It is gone: nothing to do."))
    assert len(answers) == 1
    assert "`faulty`" in answers[0]
    assert "no such file" in answers[0]


async def test_case_110_one_error_among_successful_results_is_enough():
    model = ScriptedModel().will_call_all(("faulty", {}), ("read", {"path": "a"}))
    assert len(await texts(model.will_say("stop").will_say("stop"))) == 1


async def test_case_110_successful_results_get_no_message():
    model = ScriptedModel().will_call("read", path="a").will_say("done")
    assert await texts(model) == []


@pytest.mark.parametrize("outcome", ["denied", "suppressed", "aborted"])
async def test_case_110_denied_suppressed_or_aborted_call_gets_no_message(outcome):
    model = ScriptedModel().will_call("faulty", outcome=outcome).will_say("done")
    assert await texts(model) == []


async def test_case_110_synthetic_error_result_gets_no_message():
    stub = ToolOverride("Repeated.", details={"outcome": "error", "synthetic": "storm"})
    storm = Hooks(before_tool_call=lambda *_: stub)
    model = ScriptedModel().will_call("read", path="a").will_say("done")
    assert await texts(model, storm) == []


async def test_case_110_stop_after_another_guard_message_gets_no_message():
    model = ScriptedModel().will_call("faulty").will_say("I stop: it cannot be done.")
    answers = await texts(model, StormBreaker(failures=1).bundle())
    assert ["1 call failed" in text for text in answers] == [True]


async def test_case_110_failed_command_gets_no_message():
    model = ScriptedModel().will_call("bash", command="grep x y", exit=1).will_say("not there")
    assert await texts(model) == []


async def test_case_110_failure_check_sends_one_message_per_run():
    model = ScriptedModel()
    for n in range(2):
        model.will_call("faulty", n=n).will_say("I stop.")
    run = await run_guarded(model, check())
    assert (len(nudges(run)), len(model.seen)) == (1, 4)
    assert isinstance(run.outcome, Done)


async def test_failed_read_before_the_answer_gets_no_message():
    missing = ToolOverride("Dockerfile does not exist.", details={"outcome": "error"})
    reading = Hooks(before_tool_call=lambda *_: missing)
    model = ScriptedModel().will_call("read", path="Dockerfile").will_say("There is none.")
    assert await texts(model, reading) == []


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("I could not change it: the file is read-only.", 0),
        ("The edit failed twice, so a.py is as it was.", 0),
        ("Which of the two files do you mean?", 0),
        ("The edit failed. Let me try another one.", 1),
        ("All done.", 1),
    ],
)
async def test_answer_that_reports_the_failure_or_asks_the_user_gets_no_message(answer, count):
    model = ScriptedModel().will_call("faulty").will_say(answer).will_say("It is gone.")
    assert len(await texts(model)) == count


async def test_custom_message_between_failure_and_answer_is_ignored():
    history = [user_text("go"), _calling(), result(), CustomMessage(kind="mark")]
    model = ScriptedModel().will_say("I stop.").will_say("It is done by now.")
    run = await run_loop(model, config=compose(check()), context=Context(messages=history))
    assert len(nudges(run)) == 1


@pytest.mark.parametrize("last", [(), (user_text("b"),), (_calling(),)])
async def test_failure_check_runs_only_after_a_closing_answer(last):
    bundle = check()
    info = TurnInfo(
        run_id="r",
        outer_turn=1,
        turn=1,
        context=Context(messages=(result(), *last) if last else ()),
        new_messages=(),
        signal=AbortSignal(),
        emit=lambda event: None,
    )
    assert await bundle.get_followup_messages(info, ()) == ()


async def test_failure_check_works_without_a_call_message_in_the_context():
    model = ScriptedModel().will_say("I stop.").will_say("done")
    messages = [result("ok"), result()]
    run = await run_loop(model, config=compose(check()), context=Context(messages=messages))
    assert len(nudges(run)) == 1
