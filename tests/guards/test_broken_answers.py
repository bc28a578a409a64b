"""Answers that are none: calls as text and silence are asked about, then the run fails."""

import pytest

from dirge_py.agent_loop import Hooks, LoopConfig, compose
from dirge_py.agent_loop.answer_schema import TOOL
from dirge_py.agent_loop.history import (
    CALL_AS_TEXT,
    check_resumable,
    continuation_prompt,
    final_text,
)
from dirge_py.guards.broken_answers import EMPTY, ask_again
from dirge_py.guards.recovery import resume_broken_answers
from dirge_py.guards.stop_checks import StopCheck, stop_checks
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.messages import ToolCallBlock, user_text
from dirge_py.types.outcomes import Done, Failed
from dirge_py.types.tools import LoopToolResult
from tests.support.guarded_runs import edit, nudges, read, tools
from tests.support.loop_runs import Tool, run_loop

EDIT = '<function=edit>{"path": "a"}</function>'
READ = '<function=read>{"path": "a"}</function>'
EDIT_CALL = ("edit", {"path": "a"})
READ_CALL = ("read", {"path": "a"})


async def run_with(*replies, used=None, scavenge=False, more=(), before=()):
    model = ScriptedModel()
    for reply in replies:
        model.will(reply if isinstance(reply, Reply) else Reply(text=reply))
    config = compose(
        resume_broken_answers(3),
        ask_again(scavenges=scavenge),
        *more,
        config=LoopConfig(scavenge=scavenge),
    )
    run = await run_loop(model, "go", tools=tools() if used is None else used, config=config)
    assert_balanced(run.new)
    return run


# -- calls as text


async def test_d3_the_model_is_told_that_nothing_ran_and_makes_the_call():
    used = [edit()]
    run = await run_with(EDIT, Reply(calls=[EDIT_CALL]), "Edited.", used=used)

    (told,) = nudges(run)
    assert told.startswith("You wrote a call of `edit` as text, so nothing ran. Make it as a tool")
    assert (used[0].ran, run.outcome.result.response) == ([{"path": "a"}], "Edited.")


async def test_d3_the_third_time_the_run_fails():
    used = [edit()]
    run = await run_with(EDIT, EDIT, EDIT, used=used)

    assert (len(nudges(run)), used[0].ran) == (3, [])
    assert isinstance(run.outcome, Failed)
    assert run.outcome.kind == "text_call"
    assert run.outcome.message == (
        "The model wrote a call of `edit` as text 3 times instead of making it."
    )
    assert "supports tool calls" in run.outcome.hint


async def test_calls_between_them_do_not_reset_the_count():
    call = Reply(calls=[EDIT_CALL])
    run = await run_with(EDIT, call, EDIT, call, EDIT)
    assert (len(nudges(run)), run.outcome.kind) == (3, "text_call")


async def test_after_the_failure_the_call_is_no_answer_and_the_run_can_be_continued():
    run = await run_with(EDIT, EDIT, EDIT)
    assert final_text(run.new) == ""
    assert check_resumable(run.new) is None
    assert continuation_prompt(run.new) == ()
    assert run.new[-1].text.startswith(CALL_AS_TEXT)


async def test_a_call_in_the_thinking_is_asked_for_too():
    run = await run_with(Reply(thinking=f"I edit it.\n{EDIT}"), "Done after all.")
    assert nudges(run)[0].startswith(CALL_AS_TEXT)
    assert isinstance(run.outcome, Done)


async def test_with_scavenging_a_read_runs_and_nothing_is_asked():
    used = [read(), edit()]
    run = await run_with(READ, "Seen.", used=used, scavenge=True)
    assert (used[0].ran, nudges(run), run.outcome.result.response) == ([{"path": "a"}], [], "Seen.")


@pytest.mark.parametrize("written", [EDIT, f"```json\n{EDIT}\n```"])
async def test_with_scavenging_a_change_is_asked_for(written):
    used = [read(), edit()]
    run = await run_with(written, "Done after all.", used=used, scavenge=True)
    assert (used[1].ran, len(nudges(run))) == ([], 1)


async def test_with_scavenging_a_change_beside_a_read_is_asked_for():
    used = [read(), edit()]
    run = await run_with(f"I'll do both.\n{READ}\n{EDIT}", "Seen.", used=used, scavenge=True)
    assert (used[0].ran, used[1].ran) == ([{"path": "a"}], [])
    assert ["`edit`" in text for text in nudges(run)] == [True]


@pytest.mark.parametrize("scavenge", [False, True])
async def test_a_call_that_is_made_and_written_too_is_not_asked_for(scavenge):
    reply = Reply(text=f"I'll edit it:\n{EDIT}", calls=[EDIT_CALL])
    other = Reply(text=f"I'll edit it:\n{EDIT}", calls=[("edit", {"path": "b"})])
    run = await run_with(reply, other, "Edited.", scavenge=scavenge)
    assert (nudges(run), run.outcome.result.response) == ([], "Edited.")


async def test_a_new_prompt_starts_the_count_again():
    typed = [user_text("And now?", origin="follow_up")]

    def get_followup_messages(_info, _so_far):
        return [typed.pop()] if typed else []

    more = [Hooks(name="user", get_followup_messages=get_followup_messages)]
    run = await run_with(EDIT, EDIT, "First.", EDIT, EDIT, "Second.", more=more)
    assert (len(nudges(run)), isinstance(run.outcome, Done)) == (4, True)


# -- silence

SILENT = [Reply(), Reply(text=" \n\t"), Reply(thinking="Hm."), Reply(text="\n", thinking="Hm.")]


@pytest.mark.parametrize("silent", SILENT, ids=["nothing", "blanks", "thinking", "both"])
async def test_d9_an_empty_answer_is_asked_for_once_more(silent):
    run = await run_with(silent, "Here it is.")
    assert (nudges(run), run.outcome.result.response) == ([EMPTY], "Here it is.")


@pytest.mark.parametrize("silent", SILENT, ids=["nothing", "blanks", "thinking", "both"])
async def test_d9_a_second_empty_answer_fails_the_run(silent):
    run = await run_with(silent, silent)
    assert nudges(run) == [EMPTY]
    assert isinstance(run.outcome, Failed)
    assert (run.outcome.kind, run.outcome.message) == (
        "empty_answer",
        "The model gave an empty answer twice in a row.",
    )


async def test_d9_silence_after_work_is_asked_about_three_times_in_all():
    run = await run_with(
        *(reply for _ in range(3) for reply in (Reply(), Reply(calls=[READ_CALL]))), Reply()
    )
    assert (nudges(run), run.outcome.kind) == ([EMPTY] * 3, "empty_answer")


async def test_a_call_without_a_name_is_no_answer_either():
    nameless = Reply(calls=[ToolCallBlock(id="1", name="", arguments={})])
    run = await run_with(nameless, "Here it is.")
    assert nudges(run) == [EMPTY]


async def test_a_finished_run_does_not_fail_because_a_check_gets_no_answer():
    check = stop_checks([StopCheck(name="check", ask=lambda info: "Are you sure?")])
    run = await run_with("It is 4.", Reply(), Reply(), more=[check])

    assert nudges(run) == ["Are you sure?", EMPTY]
    assert (isinstance(run.outcome, Done), run.outcome.result.response) == (True, "It is 4.")


async def test_silence_after_a_tool_that_ends_the_run_is_an_answer():
    async def last(*_):
        return LoopToolResult(content=(), terminate=True)

    ends, works = Tool("ends", body=last), Tool("works")
    run = await run_with(Reply(calls=[("ends", {})]), used=[ends])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)
    both = Reply(calls=[("ends", {}), ("works", {})])
    run = await run_with(both, Reply(), used=[ends, works])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)


@pytest.mark.parametrize(("text", "kind"), [("", "empty_answer"), (EDIT, "text_call")])
async def test_without_a_turn_left_the_run_fails_at_once(text, kind):
    config = compose(ask_again(can_ask=lambda: False))
    model = ScriptedModel().will_say(text)
    run = await run_loop(model, "go", tools=tools(), config=config)
    assert (len(model.seen), run.outcome.kind) == (1, kind)


@pytest.mark.parametrize("stop_reason", ["length", "aborted"])
@pytest.mark.parametrize("text", ["", EDIT])
async def test_an_answer_that_something_else_ended_is_left_to_others(stop_reason, text):
    run = await run_with(*[Reply(text=text, stop_reason=stop_reason)] * 2)
    assert EMPTY not in nudges(run)
    assert not any(told.startswith(CALL_AS_TEXT) for told in nudges(run))


@pytest.mark.parametrize("text", ["", '{"name": "read", "arguments": {"path": "a"}}'])
async def test_a_run_for_a_structured_answer_is_left_to_its_own_check(text):
    run = await run_with(text, used=[*tools(), Tool(TOOL)])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)
