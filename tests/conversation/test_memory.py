"""Memory syncs every run once, before the run emits its end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from dirge_py.config.load import load
from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.testing import EventRecorder
from dirge_py.testing.checks import assert_event_grammar
from dirge_py.types.events import AgentEnd, LoopEvent, SystemNotice, TurnStart
from dirge_py.types.memory import MemoryUpdate, RecalledMemory, StoreName
from dirge_py.types.messages import Message, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Cancelled, Done, NeedsMoreTurns
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject, on_first


@dataclass
class Remembering:
    """Records its calls among the events of the conversation."""

    events: EventRecorder
    calls: list[tuple[str, int]] = field(default_factory=list)
    synced: list[Sequence[Message]] = field(default_factory=list)
    failure: Exception | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event | None = None

    def prefetch(self) -> RecalledMemory:
        self.calls.append(("prefetch", len(self.events.events)))
        return RecalledMemory(project="- a fact")

    async def read(self, store: StoreName) -> str:
        return ""

    async def update(self, change: MemoryUpdate) -> str:
        return "Kept."

    async def sync(self, messages: Sequence[Message]) -> None:
        self.calls.append(("sync", len(self.events.events)))
        self.synced.append(messages)
        self.begun.set()
        if self.release is not None:
            await self.release.wait()
        if self.failure is not None:
            raise self.failure

    def where(self, store: StoreName) -> str:
        return "nowhere"

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@asynccontextmanager
async def open_conversation(
    project: ScriptedProject, **options: Any
) -> AsyncIterator[tuple[Conversation, Remembering, list[LoopEvent]]]:
    events = EventRecorder()
    memory = Remembering(events)
    conversation = build(
        load(environment=project._environment),
        project.user,
        BuildOptions(session=SessionChoice(kind="new"), **options),
        stream_fn=project.model.stream_fn,
        memory=memory,
    )
    conversation.subscribe(events)
    try:
        yield conversation, memory, events.events
    finally:
        await conversation.close()


async def test_a42_memory_is_prefetched_before_first_turn_and_synced_before_the_end(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("done")

    async with open_conversation(project) as (conversation, memory, events):
        outcome = await conversation.send("look")
        assert isinstance(outcome, Done)

        assert memory.names == ["prefetch", "sync"]
        at = dict(memory.calls)
        first_turn = next(n for n, event in enumerate(events) if isinstance(event, TurnStart))
        assert at["prefetch"] <= first_turn
        assert at["sync"] == len(events) - 1
        assert isinstance(events[-1], AgentEnd)
        assert_event_grammar(events)
        assert tuple(memory.synced[0]) == tuple(conversation.messages)


async def test_memory_sync_runs_once_per_run_with_its_messages(project: ScriptedProject) -> None:
    project.model.will_say("one").will_say("two")

    async with open_conversation(project) as (conversation, memory, _):
        await conversation.send("1")
        await conversation.send("2")

        assert memory.names == ["prefetch", "sync"] * 2
        assert [len(said) for said in memory.synced] == [2, 2]


async def test_memory_sync_runs_for_a_run_blocked_by_a_guardrail(project: ScriptedProject) -> None:
    project.configure('[[guardrail]]\non = "input"\npattern = "forbidden"\naction = "trip"\n')

    async with open_conversation(project) as (conversation, memory, events):
        await conversation.send("forbidden")

        assert (memory.names, memory.synced) == (["sync"], [()])
        assert isinstance(events[-1], AgentEnd)


async def test_memory_sync_runs_once_for_aborted_and_failed_runs(project: ScriptedProject) -> None:
    async with open_conversation(project) as (conversation, memory, events):
        conversation.subscribe(on_first(TurnStart, conversation.abort))
        assert isinstance(await conversation.send("x"), Cancelled)
        assert memory.names.count("sync") == 1

        project.model.will_fail("no key", kind="auth")
        await conversation.send("y")
        assert memory.names.count("sync") == 2
        assert isinstance(events[-1], AgentEnd)


async def test_memory_sync_of_single_turns_runs_after_the_last_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("done")

    async with open_conversation(project) as (conversation, memory, _):
        assert isinstance(await conversation.send("look", single_turn=True), NeedsMoreTurns)
        assert memory.names == ["prefetch"]
        assert isinstance(await conversation.continue_run(single_turn=True), Done)

        assert memory.names == ["prefetch", "sync"]
        assert tuple(memory.synced[0]) == tuple(conversation.messages)
        assert isinstance(memory.synced[0][0], UserMessage)


async def test_memory_sync_waits_while_a_call_awaits_confirmation(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch a")
    project.user.answer = PermissionAnswer(effect="defer")

    async with open_conversation(project) as (conversation, memory, _):
        assert isinstance(await conversation.send("go"), AwaitingConfirmation)
        assert memory.names == ["prefetch"]


@pytest.mark.parametrize("fails", [True, False])
async def test_memory_sync_failure_is_a_notice_before_agent_end(
    project: ScriptedProject, fails: bool
) -> None:
    project.model.will_say("done")

    async with open_conversation(project) as (conversation, memory, events):
        memory.failure = OSError("gone") if fails else None
        assert isinstance(await conversation.send("x"), Done)

        notices = [event for event in events if isinstance(event, SystemNotice)]
        assert len(notices) == (1 if fails else 0)
        assert isinstance(events[-1], AgentEnd)


async def test_run_is_active_until_memory_sync_finishes(
    project: ScriptedProject,
) -> None:
    project.model.will_say("done")

    async with open_conversation(project) as (conversation, memory, events):
        memory.release = asyncio.Event()
        run = conversation.send("x")
        await memory.begun.wait()
        assert conversation.is_running
        assert not any(isinstance(event, AgentEnd) for event in events)

        memory.release.set()
        await run
        assert isinstance(events[-1], AgentEnd)
        assert not conversation.is_running
