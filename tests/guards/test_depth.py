"""Case 103: a model that works on the same files again and again is reminded."""

import pytest

from dirge_py.agent_loop import Hooks
from dirge_py.agent_loop.queues import InputQueue, steering_from_queue
from dirge_py.guards.reminders import DepthTracker, depth_reminder, paths_of
from dirge_py.testing import ScriptedModel
from dirge_py.types.tools import ToolCall
from tests.support.guarded_runs import call, faulty, nudges, patch, read, run_guarded

FOO, BAR = "/w/foo", "/w/bar"


def reads(model, *paths):
    for path in paths:
        model.will_call("read", path=path)
    return model


async def reminders(*paths, threshold=3, tracker=None, prompt="fix the parser"):
    model = reads(ScriptedModel(), *paths).will_say("done")
    run = await run_guarded(
        model, depth_reminder(tracker or DepthTracker(), threshold), prompt=prompt
    )
    return nudges(run)


async def test_case_103_four_reads_of_one_file_give_one_reminder_with_task_and_file():
    texts = await reminders("foo", "foo", "foo", "foo")
    assert len(texts) == 1
    assert FOO in texts[0]
    assert "The task: fix the parser" in texts[0]
    assert "3 calls" in texts[0]


async def test_case_103_it_stays_silent_for_the_rest_of_the_streak():
    assert len(await reminders(*["foo"] * 9)) == 1


async def test_case_103_another_file_begins_anew():
    assert await reminders("foo", "foo", "bar", "foo", "foo") == []
    assert len(await reminders("foo", "foo", "foo", "bar", "bar", "bar")) == 2


async def test_case_103_a_call_about_no_file_begins_anew():
    model = reads(ScriptedModel(), "foo", "foo").will_call("bash", command="ls")
    model = reads(model, "foo", "foo").will_say("done")
    assert nudges(await run_guarded(model, depth_reminder(DepthTracker(), 3))) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [("look at foo again", 1), ("and now the docs", 0), ("what about foobar", 0)],
)
async def test_case_103_a_message_that_names_the_file_keeps_the_streak(said, told):
    queue = InputQueue("steering")
    queue.put(said)
    poll = steering_from_queue(queue)
    steering = Hooks(get_steering_messages=lambda info: poll(info) if info.turn == 2 else [])
    model = reads(ScriptedModel(), "foo", "foo", "foo").will_say("done")
    texts = nudges(await run_guarded(model, steering, depth_reminder(DepthTracker(), 3)))
    assert len(texts) == told
    assert all(f"The task: {said}" in text for text in texts)


async def test_case_103_the_reminder_itself_is_no_message_of_the_user():
    tracker = DepthTracker()
    await reminders("foo", "foo", "foo", "foo", tracker=tracker)
    assert tracker.files == (FOO,)
    assert "The task: fix the parser" in (tracker.next_reminder(2) or _told_again(tracker))


def _told_again(tracker):
    """The reminder in a new streak without a new user message."""
    for path in ([BAR], [FOO], [FOO], [FOO]):
        tracker.record_call(path)
    return tracker.next_reminder(3)


async def test_it_is_off_unless_asked_for_but_still_knows_the_files():
    tracker = DepthTracker()
    assert await reminders(*["foo"] * 5, threshold=0, tracker=tracker) == []
    assert tracker.files == (FOO,)


async def test_a_streak_may_last_longer_than_a_run():
    tracker = DepthTracker()
    assert await reminders("foo", "foo", tracker=tracker) == []
    assert len(await reminders("foo", tracker=tracker, prompt="once more: foo.")) == 1


def test_the_least_threshold_is_two():
    tracker = DepthTracker()
    tracker.record_call([FOO])
    assert tracker.next_reminder(1) == ""
    tracker.record_call([FOO])
    assert FOO in tracker.next_reminder(1)


def test_the_set_narrows_to_what_calls_share():
    tracker = DepthTracker()
    tracker.record_call([FOO, BAR, "/w/baz"])
    tracker.record_call([BAR, FOO, "/w/qux"])
    assert tracker.files == (BAR, FOO)
    tracker.record_call([FOO])
    assert tracker.files == (FOO,)
    tracker.record_call([])
    assert tracker.files == ()


def test_paths_come_from_claims_else_from_arguments():
    assert paths_of(call(patch(), files=["a", "b"])) == ("/w/a", "/w/b")
    assert paths_of(call(read(), path="a")) == ("/w/a",)
    named = call(faulty(), path="a", file_path="b", file="c", paths=["d", 5, ""], other="e")
    assert paths_of(named) == ("a", "b", "c", "d")
    assert paths_of(call(faulty(), path=7, paths="abc")) == ()


def test_a_call_that_cannot_be_made_out_is_about_nothing():
    assert paths_of(ToolCall(id="x", name="gone", arguments="{")) == ()
    assert paths_of(ToolCall(id="x", name="read", arguments={}, tool=read())) == ()
    assert paths_of(ToolCall(id="x", name="read", arguments=None, tool=read())) == ()
