"""Open todo items continue a run, three times at most."""

from dirge_py.guards.stop_checks import todo_check
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import SystemNotice
from dirge_py.types.outcomes import Done
from tests.support.guarded_runs import nudges, run_guarded


def stopping(times=9):
    model = ScriptedModel()
    for _ in range(times):
        model.will_say("I stop.")
    return model


async def test_open_items_are_named_and_the_rest_counted():
    items = [f"item {n}" for n in range(7)]
    run = await run_guarded(stopping(), todo_check(lambda: items, 1))
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


async def test_it_speaks_three_times_at_most():
    model = stopping()
    run = await run_guarded(model, todo_check(lambda: ["write the docs"]))
    assert (len(nudges(run)), len(model.seen)) == (3, 4)
    assert nudges(run)[0].startswith("1 item is still open")


async def test_it_is_silent_once_everything_is_done():
    items = ["a"]
    model = ScriptedModel().will_say("I stop.").will(lambda _: items.clear() or Reply(text="done"))
    run = await run_guarded(model, todo_check(lambda: items))
    assert len(nudges(run)) == 1


async def test_an_unreadable_list_ends_the_run_with_a_notice():
    def broken():
        raise OSError("the list is gone")

    run = await run_guarded(stopping(), todo_check(broken))
    assert isinstance(run.outcome, Done)
    assert (nudges(run), len(run.recorder.of(SystemNotice))) == ([], 1)
    assert "the list is gone" in run.recorder.of(SystemNotice)[0].content
