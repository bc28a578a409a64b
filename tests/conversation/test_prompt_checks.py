"""What was typed is checked before it is sent; what is held back is not stored, and not lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.testing import EventRecorder
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import AgentEnd, AgentStart, SystemNotice, ToolExecutionStart
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Cancelled, Done, Failed, HookTerminated
from tests.conversation.room import Room, when

Check = Callable[[UserMessage], Awaitable[str | None]]


async def no_secrets(message: UserMessage) -> str | None:
    return "it holds a secret" if "hunter2" in message.text else None


def checked(talk: Conversation, *checks: Check) -> None:
    talk._deps = replace(talk._deps, run=replace(talk._deps.run, prompt_checks=checks))


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


async def test_a_prompt_that_trips_a_check_is_stored_nowhere_and_goes_back(room: Room) -> None:
    room.model.will_say("never")

    async with room.open() as talk:
        checked(talk, no_secrets)
        recorder = EventRecorder()
        talk.subscribe(recorder)
        run = talk.send("log in with hunter2")

        assert await run == HookTerminated(point="before_prompt", reason="it holds a secret")
        assert [type(event) for event in recorder.events] == [AgentStart, AgentEnd]
        assert texts(run.unsent) == ["log in with hunter2"]
        assert list(talk.messages) == []

    assert room.model.seen == []
    assert list(room.state_dir.rglob("*.jsonl")) == []


async def test_the_first_check_that_objects_is_the_one_that_is_told(room: Room) -> None:
    asked: list[str] = []

    def check(name: str, reason: str | None) -> Check:
        async def look(message: UserMessage) -> str | None:
            asked.append(name)
            return reason

        return look

    async with room.open() as talk:
        checked(talk, check("a", None), check("b", "no"), check("c", "never asked"))
        outcome = await talk.send("x")

    assert outcome == HookTerminated(point="before_prompt", reason="no")
    assert asked == ["a", "b"]


async def test_a_prompt_that_cannot_be_checked_is_not_sent(room: Room) -> None:
    async def broken(message: UserMessage) -> str | None:
        raise LookupError("no model")

    async with room.open() as talk:
        checked(talk, broken)
        run = talk.send("x")
        outcome = await run

        assert isinstance(outcome, HookTerminated)
        assert "could not be checked" in outcome.reason
        assert texts(run.unsent) == ["x"]


async def test_the_next_prompt_is_checked_anew(room: Room) -> None:
    room.model.will_say("hello")

    async with room.open() as talk:
        checked(talk, no_secrets)
        await talk.send("hunter2")
        run = talk.send("hi")
        assert isinstance(await run, Done)
        assert list(run.unsent) == []

    assert room.heard() == ["hi"]


@pytest.mark.parametrize("way", ["steer", "follow_up"])
async def test_what_is_typed_during_a_run_is_checked_too(room: Room, way: str) -> None:
    room.model.will_call("list_dir", path=".").will_say("Empty.")

    async with room.open() as talk:
        checked(talk, no_secrets)
        recorder = EventRecorder()
        talk.subscribe(recorder)
        talk.subscribe(when(ToolExecutionStart, lambda: getattr(talk, way)("use hunter2")))
        run = talk.send("look")

        assert isinstance(await run, Done)
        assert texts(run.unsent) == ["use hunter2"]
        assert [notice.content for notice in recorder.of(SystemNotice)] == [
            "Not sent: it holds a secret"
        ]
        assert all("hunter2" not in str(message) for message in talk.messages)


async def test_steering_that_passes_is_not_left_over(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("Empty.")

    async with room.open() as talk:
        checked(talk, no_secrets)
        talk.subscribe(when(ToolExecutionStart, lambda: talk.steer("look closely")))
        run = talk.send("look")
        await run

    assert list(run.unsent) == []
    assert room.heard()[-1].endswith("look closely")


async def test_an_abort_during_a_check_gives_the_prompt_back(room: Room) -> None:
    started = asyncio.Event()

    async def slow(message: UserMessage) -> str | None:
        started.set()
        await asyncio.Event().wait()
        return None

    async with room.open() as talk:
        checked(talk, slow)
        run = talk.send("x")
        await started.wait()
        run.abort()

        assert await run == Cancelled(reason="user")
        assert texts(run.unsent) == ["x"]


async def test_an_abort_while_steering_is_checked_gives_it_back(room: Room) -> None:
    room.model.will_call("list_dir", path=".")
    started = asyncio.Event()

    async def slow(message: UserMessage) -> str | None:
        if message.text == "look":
            return None
        started.set()
        await asyncio.Event().wait()
        return None

    async with room.open() as talk:
        checked(talk, slow)
        talk.subscribe(when(ToolExecutionStart, lambda: talk.steer("wait")))
        run = talk.send("look")
        await started.wait()
        run.abort()

        assert await run == Cancelled(reason="user")
        assert texts(run.unsent) == ["wait"]


async def test_a_prompt_that_failed_before_it_was_stored_goes_back(room: Room) -> None:
    def broken(names: object) -> str:
        raise DirgeError("no prompt", hint="write one")

    async with room.open() as talk:
        talk._deps = replace(
            talk._deps, environment=replace(talk.environment, system_prompt=broken)
        )
        run = talk.send("ping")

        assert await run == Failed(kind="other", message="no prompt", hint="write one")
        assert texts(run.unsent) == ["ping"]


async def test_a_prompt_whose_answer_failed_is_history(room: Room) -> None:
    room.model.will_fail("no", kind="auth")

    async with room.open() as talk:
        run = talk.send("ping")
        await run

        assert list(run.unsent) == []
        assert texts(talk.messages)[0] == "ping"
