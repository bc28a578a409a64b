"""Open todo items continue a run that worked on the list, once."""

import pytest

from dirge_py.guards.stop_checks import stop_checks, todo_check
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import SystemNotice
from dirge_py.types.outcomes import Done
from tests.support.guarded_runs import nudges, run_guarded


def check(open_items, most=1):
    return stop_checks([todo_check(open_items, most)])


def planning(answer="I stop."):
    """A model that calls the tool `todo`, and stops."""
    model = ScriptedModel().will_call("todo")
    for _ in range(9):
        model.will_say(answer)
    return model


async def test_todo_message_names_five_open_items_and_counts_the_others():
    items = [f"item {n}" for n in range(7)]
    run = await run_guarded(planning(), check(lambda: items))
    (text,) = nudges(run)
    assert text.startswith("7 items are still open")
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- item 0",
        "- item 1",
        "- item 2",
        "- item 3",
        "- item 4",
        "- and 2 more",
    ]


@pytest.mark.parametrize(("most", "count"), [(0, 0), (1, 1), (3, 1)])
async def test_todo_check_sends_at_most_one_message(most, count):
    model = planning()
    run = await run_guarded(model, check(lambda: ["write the docs"], most))
    assert (len(nudges(run)), len(model.seen)) == (count, 2 + count)
    assert all(text.startswith("1 item is still open") for text in nudges(run))


async def test_run_without_a_todo_call_gets_no_todo_message():
    model = ScriptedModel().will_call("read", path="a").will_say("It is empty.")
    assert nudges(await run_guarded(model, check(lambda: ["from yesterday"]))) == []


async def test_answer_that_asks_the_user_gets_no_todo_message():
    model = planning("Two are done. Do you want me to delete the old files?")
    assert nudges(await run_guarded(model, check(lambda: ["delete the old files"]))) == []


async def test_interjected_run_gets_no_todo_message():
    signal = AbortSignal()
    model = ScriptedModel().will_call("todo")
    model.will(lambda _: signal.interject() or Reply(text="I stop."))
    run = await run_guarded(model, check(lambda: ["a"]), signal=signal)
    assert (nudges(run), len(model.seen)) == ([], 2)


async def test_finished_todo_list_gets_no_message():
    items = ["a"]
    model = ScriptedModel().will_call("todo").will(lambda _: items.clear() or Reply(text="Done."))
    assert nudges(await run_guarded(model, check(lambda: items))) == []


async def test_unreadable_todo_list_ends_the_run_with_a_notice():
    def broken():
        raise OSError("the list is gone")

    run = await run_guarded(planning(), check(broken))
    assert isinstance(run.outcome, Done)
    assert (nudges(run), len(run.recorder.of(SystemNotice))) == ([], 1)
    assert "the list is gone" in run.recorder.of(SystemNotice)[0].content
