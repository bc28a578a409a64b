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


async def test_case_103_repeated_reads_of_a_file_give_one_reminder_with_task_and_file():
    texts = await reminders("foo", "foo", "foo", "foo")
    assert len(texts) == 1
    assert FOO in texts[0]
    assert "The task: fix the parser" in texts[0]
    assert "3 calls" in texts[0]


async def test_case_103_streak_gets_only_one_reminder():
    assert len(await reminders(*["foo"] * 9)) == 1


async def test_case_103_another_file_starts_a_new_streak():
    assert await reminders("foo", "foo", "bar", "foo", "foo") == []
    assert len(await reminders("foo", "foo", "foo", "bar", "bar", "bar")) == 2


async def test_case_103_call_without_a_file_starts_a_new_streak():
    model = reads(ScriptedModel(), "foo", "foo").will_call("bash", command="ls")
    model = reads(model, "foo", "foo").will_say("done")
    assert nudges(await run_guarded(model, depth_reminder(DepthTracker(), 3))) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [("look at foo again", 1), ("and now the docs", 0), ("what about foobar", 0)],
)
async def test_case_103_user_message_that_names_the_file_keeps_the_streak(said, told):
    queue = InputQueue("steering")
    queue.put(said)
    poll = steering_from_queue(queue)
    steering = Hooks(get_steering_messages=lambda info: poll(info) if info.turn == 2 else [])
    model = reads(ScriptedModel(), "foo", "foo", "foo").will_say("done")
    texts = nudges(await run_guarded(model, steering, depth_reminder(DepthTracker(), 3)))
    assert len(texts) == told
    assert all(f"The task: {said}" in text for text in texts)


async def test_case_103_reminder_does_not_count_as_a_user_message():
    tracker = DepthTracker()
    await reminders("foo", "foo", "foo", "foo", tracker=tracker)
    assert tracker.files == (FOO,)
    assert "The task: fix the parser" in (tracker.next_reminder(2) or _told_again(tracker))


def _told_again(tracker):
    """The reminder in a new streak without a new user message."""
    for path in ([BAR], [FOO], [FOO], [FOO]):
        tracker.record_call(path)
    return tracker.next_reminder(3)


async def test_depth_reminder_with_threshold_zero_is_off_but_tracks_files():
    tracker = DepthTracker()
    assert await reminders(*["foo"] * 5, threshold=0, tracker=tracker) == []
    assert tracker.files == (FOO,)


async def test_streak_can_continue_over_several_runs():
    tracker = DepthTracker()
    assert await reminders("foo", "foo", tracker=tracker) == []
    assert len(await reminders("foo", tracker=tracker, prompt="once more: foo.")) == 1


def test_minimum_depth_threshold_is_two():
    tracker = DepthTracker()
    tracker.record_call([FOO])
    assert tracker.next_reminder(1) == ""
    tracker.record_call([FOO])
    assert FOO in tracker.next_reminder(1)


def test_tracked_files_narrow_to_files_shared_by_calls():
    tracker = DepthTracker()
    tracker.record_call([FOO, BAR, "/w/baz"])
    tracker.record_call([BAR, FOO, "/w/qux"])
    assert tracker.files == (BAR, FOO)
    tracker.record_call([FOO])
    assert tracker.files == (FOO,)
    tracker.record_call([])
    assert tracker.files == ()


def test_paths_come_from_claims_or_from_arguments():
    assert paths_of(call(patch(), files=["a", "b"])) == ("/w/a", "/w/b")
    assert paths_of(call(read(), path="a")) == ("/w/a",)
    named = call(faulty(), path="a", file_path="b", file="c", paths=["d", 5, ""], other="e")
    assert paths_of(named) == ("a", "b", "c", "d")
    assert paths_of(call(faulty(), path=7, paths="abc")) == ()


def test_call_with_invalid_arguments_has_no_paths():
    assert paths_of(ToolCall(id="x", name="gone", arguments="{")) == ()
    assert paths_of(ToolCall(id="x", name="read", arguments={}, tool=read())) == ()
    assert paths_of(ToolCall(id="x", name="read", arguments=None, tool=read())) == ()
