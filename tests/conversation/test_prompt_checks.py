"""Checks of prompts: a rejected prompt is not stored, and is returned to the user."""

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
from tests.support.project import ScriptedProject, on_first

Check = Callable[[UserMessage], Awaitable[str | None]]


async def no_secrets(message: UserMessage) -> str | None:
    return "it holds a secret" if "hunter2" in message.text else None


def checked(conversation: Conversation, *checks: Check) -> None:
    conversation._deps = replace(
        conversation._deps, run=replace(conversation._deps.run, prompt_checks=checks)
    )


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


async def test_prompt_rejected_by_a_check_is_returned_and_not_stored(
    project: ScriptedProject,
) -> None:
    project.model.will_say("never")

    async with project.open() as conversation:
        checked(conversation, no_secrets)
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        run = conversation.send("log in with hunter2")

        assert await run == HookTerminated(point="before_prompt", reason="it holds a secret")
        assert [type(event) for event in recorder.events] == [AgentStart, AgentEnd]
        assert texts(run.unsent) == ["log in with hunter2"]
        assert list(conversation.messages) == []

    assert project.model.seen == []
    assert list(project.state_dir.rglob("*.jsonl")) == []


async def test_first_failing_prompt_check_gives_the_reason(
    project: ScriptedProject,
) -> None:
    asked: list[str] = []

    def check(name: str, reason: str | None) -> Check:
        async def look(message: UserMessage) -> str | None:
            asked.append(name)
            return reason

        return look

    async with project.open() as conversation:
        checked(conversation, check("a", None), check("b", "no"), check("c", "never asked"))
        outcome = await conversation.send("x")

    assert outcome == HookTerminated(point="before_prompt", reason="no")
    assert asked == ["a", "b"]


async def test_prompt_is_not_sent_if_its_check_crashes(project: ScriptedProject) -> None:
    async def broken(message: UserMessage) -> str | None:
        raise LookupError("no model")

    async with project.open() as conversation:
        checked(conversation, broken)
        run = conversation.send("x")
        outcome = await run

        assert isinstance(outcome, HookTerminated)
        assert "could not be checked" in outcome.reason
        assert texts(run.unsent) == ["x"]


async def test_prompt_after_a_rejected_prompt_is_checked_and_sent(project: ScriptedProject) -> None:
    project.model.will_say("hello")

    async with project.open() as conversation:
        checked(conversation, no_secrets)
        await conversation.send("hunter2")
        run = conversation.send("hi")
        assert isinstance(await run, Done)
        assert list(run.unsent) == []

    assert project.prompts_of_call() == ["hi"]


@pytest.mark.parametrize("way", ["steer", "follow_up"])
async def test_messages_queued_during_a_run_are_checked(project: ScriptedProject, way: str) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        checked(conversation, no_secrets)
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: getattr(conversation, way)("use hunter2"))
        )
        run = conversation.send("look")

        assert isinstance(await run, Done)
        assert texts(run.unsent) == ["use hunter2"]
        assert [notice.content for notice in recorder.of(SystemNotice)] == [
            "Not sent: it holds a secret"
        ]
        assert all("hunter2" not in str(message) for message in conversation.messages)


async def test_steering_that_passes_its_check_is_sent(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        checked(conversation, no_secrets)
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: conversation.steer("look closely"))
        )
        run = conversation.send("look")
        await run

    assert list(run.unsent) == []
    assert project.prompts_of_call()[-1].endswith("look closely")


async def test_abort_during_a_prompt_check_returns_the_prompt(project: ScriptedProject) -> None:
    started = asyncio.Event()

    async def slow(message: UserMessage) -> str | None:
        started.set()
        await asyncio.Event().wait()
        return None

    async with project.open() as conversation:
        checked(conversation, slow)
        run = conversation.send("x")
        await started.wait()
        run.abort()

        assert await run == Cancelled(reason="user")
        assert texts(run.unsent) == ["x"]


async def test_abort_during_a_steering_check_returns_the_steering(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".")
    started = asyncio.Event()

    async def slow(message: UserMessage) -> str | None:
        if message.text == "look":
            return None
        started.set()
        await asyncio.Event().wait()
        return None

    async with project.open() as conversation:
        checked(conversation, slow)
        conversation.subscribe(on_first(ToolExecutionStart, lambda: conversation.steer("wait")))
        run = conversation.send("look")
        await started.wait()
        run.abort()

        assert await run == Cancelled(reason="user")
        assert texts(run.unsent) == ["wait"]


async def test_prompt_of_a_run_that_failed_to_start_is_returned(
    project: ScriptedProject,
) -> None:
    def broken(names: object) -> str:
        raise DirgeError("no prompt", hint="write one")

    async with project.open() as conversation:
        conversation._deps = replace(
            conversation._deps, environment=replace(conversation.environment, system_prompt=broken)
        )
        run = conversation.send("ping")

        assert await run == Failed(kind="other", message="no prompt", hint="write one")
        assert texts(run.unsent) == ["ping"]


async def test_prompt_of_a_failed_run_stays_in_the_history(project: ScriptedProject) -> None:
    project.model.will_fail("no", kind="auth")

    async with project.open() as conversation:
        run = conversation.send("ping")
        await run

        assert list(run.unsent) == []
        assert texts(conversation.messages)[0] == "ping"
