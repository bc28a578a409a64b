"""Empty answers and calls written as text: dirge asks again, then the run fails."""

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


async def run_with(*replies, used=None, scavenge=False, more=(), before=(), allowed=None):
    model = ScriptedModel()
    for reply in replies:
        model.will(reply if isinstance(reply, Reply) else Reply(text=reply))
    config = compose(
        resume_broken_answers(3),
        ask_again(scavenges=scavenge, allowed=allowed),
        *more,
        config=LoopConfig(scavenge=scavenge),
    )
    run = await run_loop(model, "go", tools=tools() if used is None else used, config=config)
    assert_balanced(run.new)
    return run


# -- calls as text


async def test_d3_message_says_that_a_written_call_did_not_run_and_the_model_makes_it():
    used = [edit()]
    run = await run_with(EDIT, Reply(calls=[EDIT_CALL]), "Edited.", used=used)

    (told,) = nudges(run)
    assert told.startswith("You wrote a call of `edit` as text, so nothing ran. Make it as a tool")
    assert (used[0].ran, run.outcome.result.response) == ([{"path": "a"}], "Edited.")


async def test_written_call_of_a_tool_that_the_prompt_hides_is_not_asked_for():
    run = await run_with(EDIT, allowed=("read",))
    assert (nudges(run), run.outcome.result.response) == ([], EDIT)


async def test_d3_third_written_call_fails_the_run():
    used = [edit()]
    run = await run_with(EDIT, EDIT, EDIT, used=used)

    assert (len(nudges(run)), used[0].ran) == (3, [])
    assert isinstance(run.outcome, Failed)
    assert run.outcome.kind == "text_call"
    assert run.outcome.message == (
        "The model wrote a call of `edit` as text 3 times instead of making it."
    )
    assert "supports tool calls" in run.outcome.hint


async def test_real_calls_between_written_calls_do_not_reset_the_count():
    call = Reply(calls=[EDIT_CALL])
    run = await run_with(EDIT, call, EDIT, call, EDIT)
    assert (len(nudges(run)), run.outcome.kind) == (3, "text_call")


async def test_run_failed_by_written_calls_has_no_final_text_and_can_continue():
    run = await run_with(EDIT, EDIT, EDIT)
    assert final_text(run.new) == ""
    assert check_resumable(run.new) is None
    assert continuation_prompt(run.new) == ()
    assert run.new[-1].text.startswith(CALL_AS_TEXT)


async def test_call_written_in_thinking_is_asked_for_too():
    run = await run_with(Reply(thinking=f"I edit it.\n{EDIT}"), "Done after all.")
    assert nudges(run)[0].startswith(CALL_AS_TEXT)
    assert isinstance(run.outcome, Done)


async def test_scavenged_read_call_runs_without_a_message():
    used = [read(), edit()]
    run = await run_with(READ, "Seen.", used=used, scavenge=True)
    assert (used[0].ran, nudges(run), run.outcome.result.response) == ([{"path": "a"}], [], "Seen.")


@pytest.mark.parametrize("written", [EDIT, f"```json\n{EDIT}\n```"])
async def test_scavenging_does_not_run_a_written_change_and_asks_for_it(written):
    used = [read(), edit()]
    run = await run_with(written, "Done after all.", used=used, scavenge=True)
    assert (used[1].ran, len(nudges(run))) == ([], 1)


async def test_scavenging_runs_the_read_and_asks_for_the_change_beside_it():
    used = [read(), edit()]
    run = await run_with(f"I'll do both.\n{READ}\n{EDIT}", "Seen.", used=used, scavenge=True)
    assert (used[0].ran, used[1].ran) == ([{"path": "a"}], [])
    assert ["`edit`" in text for text in nudges(run)] == [True]


@pytest.mark.parametrize("scavenge", [False, True])
async def test_call_that_is_both_made_and_written_is_not_asked_for(scavenge):
    reply = Reply(text=f"I'll edit it:\n{EDIT}", calls=[EDIT_CALL])
    other = Reply(text=f"I'll edit it:\n{EDIT}", calls=[("edit", {"path": "b"})])
    run = await run_with(reply, other, "Edited.", scavenge=scavenge)
    assert (nudges(run), run.outcome.result.response) == ([], "Edited.")


async def test_new_prompt_resets_the_count_of_written_calls():
    typed = [user_text("And now?", origin="follow_up")]

    def get_followup_messages(_info, _so_far):
        return [typed.pop()] if typed else []

    more = [Hooks(name="user", get_followup_messages=get_followup_messages)]
    run = await run_with(EDIT, EDIT, "First.", EDIT, EDIT, "Second.", more=more)
    assert (len(nudges(run)), isinstance(run.outcome, Done)) == (4, True)


# -- empty answers

SILENT = [Reply(), Reply(text=" \n\t"), Reply(thinking="Hm."), Reply(text="\n", thinking="Hm.")]


@pytest.mark.parametrize("silent", SILENT, ids=["nothing", "blanks", "thinking", "both"])
async def test_d9_empty_answer_is_asked_for_once_more(silent):
    run = await run_with(silent, "Here it is.")
    assert (nudges(run), run.outcome.result.response) == ([EMPTY], "Here it is.")


@pytest.mark.parametrize("silent", SILENT, ids=["nothing", "blanks", "thinking", "both"])
async def test_d9_second_empty_answer_in_a_row_fails_the_run(silent):
    run = await run_with(silent, silent)
    assert nudges(run) == [EMPTY]
    assert isinstance(run.outcome, Failed)
    assert (run.outcome.kind, run.outcome.message) == (
        "empty_answer",
        "The model gave an empty answer twice in a row.",
    )


async def test_d9_empty_answers_after_tool_calls_are_asked_about_three_times():
    run = await run_with(
        *(reply for _ in range(3) for reply in (Reply(), Reply(calls=[READ_CALL]))), Reply()
    )
    assert (nudges(run), run.outcome.kind) == ([EMPTY] * 3, "empty_answer")


async def test_call_without_a_name_counts_as_an_empty_answer():
    nameless = Reply(calls=[ToolCallBlock(id="1", name="", arguments={})])
    run = await run_with(nameless, "Here it is.")
    assert nudges(run) == [EMPTY]


async def test_empty_answer_to_a_stop_check_does_not_fail_a_finished_run():
    check = stop_checks([StopCheck(name="check", ask=lambda info: "Are you sure?")])
    run = await run_with("It is 4.", Reply(), Reply(), more=[check])

    assert nudges(run) == ["Are you sure?", EMPTY]
    assert (isinstance(run.outcome, Done), run.outcome.result.response) == (True, "It is 4.")


async def test_empty_answer_after_a_terminating_tool_ends_the_run():
    async def last(*_):
        return LoopToolResult(content=(), terminate=True)

    ends, works = Tool("ends", body=last), Tool("works")
    run = await run_with(Reply(calls=[("ends", {})]), used=[ends])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)
    both = Reply(calls=[("ends", {}), ("works", {})])
    run = await run_with(both, Reply(), used=[ends, works])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)


@pytest.mark.parametrize(("text", "kind"), [("", "empty_answer"), (EDIT, "text_call")])
async def test_broken_answer_fails_the_run_immediately_if_asking_is_not_allowed(text, kind):
    config = compose(ask_again(can_ask=lambda: False))
    model = ScriptedModel().will_say(text)
    run = await run_loop(model, "go", tools=tools(), config=config)
    assert (len(model.seen), run.outcome.kind) == (1, kind)


@pytest.mark.parametrize("stop_reason", ["length", "aborted"])
@pytest.mark.parametrize("text", ["", EDIT])
async def test_truncated_or_aborted_answer_is_not_treated_as_broken(stop_reason, text):
    run = await run_with(*[Reply(text=text, stop_reason=stop_reason)] * 2)
    assert EMPTY not in nudges(run)
    assert not any(told.startswith(CALL_AS_TEXT) for told in nudges(run))


@pytest.mark.parametrize("text", ["", '{"name": "read", "arguments": {"path": "a"}}'])
async def test_run_with_structured_output_is_not_checked_for_broken_answers(text):
    run = await run_with(text, used=[*tools(), Tool(TOOL)])
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)
