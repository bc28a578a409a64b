"""Threads that wait for a decision: what is needed to take them up again, and whether it fits.

The threads of an agent: conversations by name, opened when they are needed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from dirge_py.agent_loop.history import is_turn
from dirge_py.agent_loop.queues import QueuedInput
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.sdk.agent_inputs import Resume
from dirge_py.session.journal import read_journal
from dirge_py.session.record import Record
from dirge_py.session.recovery import (
    Continuation,
    check_call,
    check_continuation,
    continuation_at,
    parse_continuation,
)
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import AssistantMessage, Message, Usage
from dirge_py.types.outcomes import AwaitingConfirmation

MAIN = "main"
"""What a thread that was given no name is called in a continuation."""
_MADE: WeakKeyDictionary[Conversation, Continuation] = WeakKeyDictionary()
"""The newest continuation of each conversation that is kept in memory only."""


class ThreadState:
    """Makes the continuations of a thread that is kept in memory only."""

    def __init__(self, thread: str | None) -> None:
        self._thread = thread
        self._conversation: Conversation | None = None

    def look_at(self, conversation: Conversation) -> None:
        """The conversation it is about, once that is there."""
        self._conversation = conversation

    def continuation(self, outcome: AwaitingConfirmation) -> Mapping[str, Any]:
        assert self._conversation is not None, "a run has a conversation"
        messages = self._conversation.messages
        made = continuation_at(
            messages,
            session_id=self._thread or MAIN,
            journal_seq=len(messages),
            turn=sum(map(is_turn, messages)),
            usage=_usage(messages),
            description=outcome.description,
        )
        assert made is not None, "a run that waits has a call that waits"
        _MADE[self._conversation] = made
        return made.as_json()


def read_resume(resume: Resume) -> Continuation:
    """The continuation of `resume`, about the call it decides.

    Raises:
        SessionError: it is none that this dirge reads, or waits for another call.
    """
    try:
        continuation = parse_continuation(resume.continuation)
    except ValueError as error:
        raise SessionError(
            f"The continuation cannot be used: {error}.",
            hint="Give back the `continuation` of an AwaitingConfirmation, as it was.",
        ) from error
    check_call(continuation, resume.tool_call_id)
    return continuation


def check_fits(
    continuation: Continuation, conversation: Conversation, thread: str | None, store: Store | None
) -> None:
    """Raise SessionError unless the thread still stands where the continuation left it."""
    name = conversation.session_id or thread or MAIN
    if continuation.session_id != name:
        raise SessionError(
            f"The continuation is of thread {continuation.session_id!r}, not of {name!r}.",
            hint="Nothing was run. Name the thread it came from.",
        )
    if store is not None and conversation.session_id is not None:
        check_continuation(continuation, records_of(store, name))
        return
    now = continuation_at(conversation.messages)
    if now is None or len(conversation.messages) != continuation.journal_seq:
        raise SessionError(
            f"The continuation is stale: thread {name!r} has gone on without it.",
            hint="Nothing was run. What waits now, if anything, is in the newest outcome.",
        )
    if _MADE.get(conversation) != continuation:
        raise SessionError(
            f"The continuation does not fit thread {name!r}: it was changed, or its calls are not "
            "those that wait.",
            hint="Nothing was run. Give it back as it was.",
        )


def records_of(store: Store, session_id: str) -> Sequence[Record]:
    """What the thread's journal holds now; nothing if it was not begun."""
    path = store.folder / f"{session_id}.jsonl"
    return read_journal(path).records if path.exists() else ()


def _usage(messages: Sequence[Message]) -> Usage:
    said = (m.usage for m in messages if isinstance(m, AssistantMessage) and m.usage)
    return sum(said, Usage())


Open = Callable[[str | None], Conversation]


class Threads:
    """Keeps conversations at hand; None names the one that belongs to this agent alone.

    With `are_shared` a named thread is held only while a run of it goes on, so that other processes
    can take it up between two runs. What was queued in it meanwhile waits here.
    """

    def __init__(self, open_thread: Open, *, are_shared: bool) -> None:
        self._open = open_thread
        self._are_shared = are_shared
        self._held: dict[str | None, Conversation] = {}
        self._queued: dict[str, Sequence[QueuedInput]] = {}
        self._releases: dict[str, asyncio.Task[None]] = {}

    def take(self, name: str | None) -> Conversation:
        """The conversation of the thread. Raises SessionError: somebody else holds it."""
        if name not in self._held:
            self._held[name] = conversation = self._open(name)
            for item in self._queued.pop(name, ()) if name is not None else ():
                put = conversation.steer if item.kind == "steering" else conversation.follow_up
                put(item.message)
        return self._held[name]

    def holding(self, session_id: str) -> str | None:
        """The name under which the thread of that id is taken: its own, or none."""
        main = self._held.get(None)
        return None if main is not None and main.session_id == session_id else session_id

    def holds(self, name: str) -> bool:
        return name in self._held

    def watch(self, name: str | None, run: Run) -> None:
        """Let go of the thread when the run is over, if others are to have it."""
        if name is not None and self._are_shared:
            self._release(name, run)

    def let_go(self, name: str | None) -> None:
        """Let go of a thread in which nothing could be begun."""
        if name is not None and self._are_shared and name in self._held:
            self._release(name)

    async def settle(self, name: str | None) -> None:
        """Return when the thread is let go of, if it will be."""
        release = self._releases.get(name) if name is not None else None
        if release is not None:
            await asyncio.shield(release)

    async def close(self) -> None:
        """Stop what runs and let go of everything."""
        held, self._held = list(self._held.values()), {}
        for conversation in held:
            await conversation.close()
        for release in list(self._releases.values()):
            await release

    def _release(self, name: str, run: Run | None = None) -> None:
        self._releases[name] = release = asyncio.ensure_future(self._released(name, run))

        def forget(_release: object) -> None:
            if self._releases.get(name) is release:
                del self._releases[name]

        release.add_done_callback(forget)

    async def _released(self, name: str, run: Run | None) -> None:
        if run is not None:
            await run
        conversation = self._held.get(name)
        if (
            conversation is None
            or conversation.is_running
            or conversation.exclusive_owner is not None
        ):
            return  # somebody was faster, and will see to it
        del self._held[name]
        left = conversation.take_back()
        if left:
            self._queued[name] = left
        await conversation.close()
