"""Memory hears of every run once, before anybody is told that it is over."""

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
from tests.conversation.room import Room, when


@dataclass
class Remembering:
    """Writes down when it was asked for what, among the events of the conversation."""

    events: EventRecorder
    calls: list[tuple[str, int]] = field(default_factory=list)
    said: list[Sequence[Message]] = field(default_factory=list)
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
        self.said.append(messages)
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
async def talking(
    room: Room, **options: Any
) -> AsyncIterator[tuple[Conversation, Remembering, list[LoopEvent]]]:
    events = EventRecorder()
    memory = Remembering(events)
    talk = build(
        load(environment=room._environment),
        room.person,
        BuildOptions(session=SessionChoice(kind="new"), **options),
        stream_fn=room.model.stream_fn,
        memory=memory,
    )
    talk.subscribe(events)
    try:
        yield talk, memory, events.events
    finally:
        await talk.close()


async def test_a42_memory_is_read_before_the_first_turn_and_told_before_the_end(
    room: Room,
) -> None:
    room.model.will_call("list_dir", path=".").will_say("done")

    async with talking(room) as (talk, memory, events):
        outcome = await talk.send("look")
        assert isinstance(outcome, Done)

        assert memory.names == ["prefetch", "sync"]
        at = dict(memory.calls)
        first_turn = next(n for n, event in enumerate(events) if isinstance(event, TurnStart))
        assert at["prefetch"] <= first_turn
        assert at["sync"] == len(events) - 1
        assert isinstance(events[-1], AgentEnd)
        assert_event_grammar(events)
        assert tuple(memory.said[0]) == tuple(talk.messages)


async def test_each_run_is_told_once_with_what_it_said(room: Room) -> None:
    room.model.will_say("one").will_say("two")

    async with talking(room) as (talk, memory, _):
        await talk.send("1")
        await talk.send("2")

        assert memory.names == ["prefetch", "sync"] * 2
        assert [len(said) for said in memory.said] == [2, 2]


async def test_a_run_that_never_began_is_told_too(room: Room) -> None:
    room.configure('[[guardrail]]\non = "input"\npattern = "forbidden"\naction = "trip"\n')

    async with talking(room) as (talk, memory, events):
        await talk.send("forbidden")

        assert (memory.names, memory.said) == (["sync"], [()])
        assert isinstance(events[-1], AgentEnd)


async def test_an_aborted_and_a_failed_run_are_told_once(room: Room) -> None:
    async with talking(room) as (talk, memory, events):
        talk.subscribe(when(TurnStart, talk.abort))
        assert isinstance(await talk.send("x"), Cancelled)
        assert memory.names.count("sync") == 1

        room.model.will_fail("no key", kind="auth")
        await talk.send("y")
        assert memory.names.count("sync") == 2
        assert isinstance(events[-1], AgentEnd)


async def test_a_run_that_rests_between_turns_is_told_when_it_is_over(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("done")

    async with talking(room) as (talk, memory, _):
        assert isinstance(await talk.send("look", single_turn=True), NeedsMoreTurns)
        assert memory.names == ["prefetch"]
        assert isinstance(await talk.continue_run(single_turn=True), Done)

        assert memory.names == ["prefetch", "sync"]
        assert tuple(memory.said[0]) == tuple(talk.messages)
        assert isinstance(memory.said[0][0], UserMessage)


async def test_a_run_that_waits_for_a_yes_is_not_over(room: Room) -> None:
    room.model.will_call("bash", command="touch a")
    room.person.answer = PermissionAnswer(effect="defer")

    async with talking(room) as (talk, memory, _):
        assert isinstance(await talk.send("go"), AwaitingConfirmation)
        assert memory.names == ["prefetch"]


@pytest.mark.parametrize("fails", [True, False])
async def test_what_goes_wrong_is_a_notice_before_the_end(room: Room, fails: bool) -> None:
    room.model.will_say("done")

    async with talking(room) as (talk, memory, events):
        memory.failure = OSError("gone") if fails else None
        assert isinstance(await talk.send("x"), Done)

        notices = [event for event in events if isinstance(event, SystemNotice)]
        assert len(notices) == (1 if fails else 0)
        assert isinstance(events[-1], AgentEnd)


async def test_while_memory_takes_its_time_the_run_is_still_going_on(room: Room) -> None:
    room.model.will_say("done")

    async with talking(room) as (talk, memory, events):
        memory.release = asyncio.Event()
        run = talk.send("x")
        await memory.begun.wait()
        assert talk.is_running
        assert not any(isinstance(event, AgentEnd) for event in events)

        memory.release.set()
        await run
        assert isinstance(events[-1], AgentEnd)
        assert not talk.is_running
