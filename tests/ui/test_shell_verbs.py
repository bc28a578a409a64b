"""Steering, queueing and interrupting: nothing typed is lost, and nothing runs again by itself."""

import asyncio
from pathlib import Path

from dirge_py.types.messages import UserMessage
from tests.conversation.room import Room
from tests.ui.running_app import HELD, RunningApp, running_app


async def at_work(d: RunningApp, prompt: str = "build it") -> None:
    await d.send(prompt)
    await d.until(lambda: d.app.has_calls_running)


async def queued(d: RunningApp, text: str) -> None:
    await d.send(text)
    await d.until(lambda: any(item.text == text for item in d.app.controller.waiting))


async def test_what_is_dropped_from_the_queue_stays_in_the_history_and_the_run_goes_on(
    room: Room,
) -> None:
    room.model.will_call("bash", command=HELD).will_say("built")
    async with running_app(room, mode="yolo") as d:
        await at_work(d)
        await queued(d, "one")
        await queued(d, "two")
        await d.pilot.press("alt+x")
        await d.until(lambda: not d.app.controller.waiting)
        assert d.app.controller.is_running
        d.release_command()
        await d.until(lambda: "built" in d.text)

        assert d.sent == ["build it"]
        assert [d.app.composer.prompts.older("") for _ in range(2)] == ["two", "one"]


async def test_stop_lets_the_turn_end_and_gives_the_queue_back(room: Room) -> None:
    room.model.will_call("bash", command=HELD).will_say("never said")
    async with running_app(room, mode="yolo") as d:
        await at_work(d)
        await queued(d, "and test it")
        await d.send("/stop")
        await d.until(lambda: "The run stops after the calls" in d.text)
        assert d.app.controller.is_running
        d.release_command()
        await d.idle()

        assert next(result.rstrip() for result in d.results).endswith("built")
        assert "never said" not in d.text
        assert "Stopped after this turn, as asked." in d.text
        assert "Interrupted." not in d.text
        assert d.app.composer.text == "and test it"
        await d.send("/stop")
        await d.until(lambda: "Nothing runs." in d.text)


async def test_what_is_typed_while_a_request_waits_to_be_tried_again_enters_later(
    room: Room,
) -> None:
    room.model.will_fail("busy", kind="server").will_say("hello").will_say("and tested")
    async with running_app(room) as d:
        await d.send("hi")
        await d.until(lambda: waits_to_try_again(d))
        await d.send("test it too")
        await d.until(lambda: "steers next: test it too" in d.screen)
        await d.until(lambda: "and tested" in d.text)

        assert d.sent == ["hi", "test it too"]
        assert len(room.heard(-2)) == 1


async def test_esc_during_the_wait_for_another_try_gives_back_what_was_typed(room: Room) -> None:
    room.model.will_fail("busy", kind="server")
    async with running_app(room) as d:
        await d.send("hi")
        await d.until(lambda: waits_to_try_again(d))
        await queued(d, "test it too")
        await d.pilot.press("escape")
        await d.idle()

        assert d.app.composer.text == "test it too"


async def test_a_half_answer_stays_and_a_cancelled_turn_does_not_run_again_after_a_resume(
    room: Room,
) -> None:
    gate = asyncio.Event()
    room.model.will_say("The first half of it.", hold=gate.wait)
    async with running_app(room) as d:
        await d.send("tell me")
        await d.until(lambda: "The first half" in d.text)
        await d.pilot.press("escape")
        await d.idle()
        session = str(d.conversation.session_id)
        asked = len(room.model.seen)

    async with running_app(room, resumes=session) as d:
        await d.until(lambda: "The first half" in d.text)
        await d.idle()

        assert len(room.model.seen) == asked
        assert not d.app.controller.is_running
        await d.send("go on")
        await d.until(lambda: d.sent == ["tell me", "go on"])


async def test_esc_ends_the_children_of_a_command_and_the_conversation_goes_on(room: Room) -> None:
    room.model.will_call("bash", command="setsid sleep 66 & echo $! > pid; echo up; sleep 67")
    room.model.will_say("fine")
    async with running_app(room, mode="yolo") as d:
        await at_work(d)
        await d.until(lambda: (room.project / "pid").exists() and "up" in d.text)
        pid = (room.project / "pid").read_text().strip()
        await d.pilot.press("escape")
        await d.idle()
        assert not Path(f"/proc/{pid}").exists()
        await d.send("and now?")
        await d.until(lambda: "fine" in d.text)

        said = [m for m in d.conversation.messages if isinstance(m, UserMessage)]
        assert [m.origin for m in said] == ["user", "user"]


def waits_to_try_again(d: RunningApp) -> bool:
    return d.app.controller.is_running and "busy" in d.text
