"""The threads of an agent: conversations by name, opened when needed, and their continuations."""

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
from dirge_py.types.messages import AssistantMessage, Usage
from dirge_py.types.outcomes import AwaitingConfirmation

MAIN = "main"
"""The name in a continuation of a thread without a name."""
_MADE: WeakKeyDictionary[Conversation, Continuation] = WeakKeyDictionary()
"""The newest continuation of each conversation without a journal."""


def continue_in_memory(
    conversation: Conversation, thread: str | None, outcome: AwaitingConfirmation
) -> Mapping[str, Any]:
    """The continuation of a thread without a journal."""
    messages = conversation.messages
    used = (m.usage for m in messages if isinstance(m, AssistantMessage) and m.usage)
    made = continuation_at(
        messages,
        session_id=thread or MAIN,
        journal_seq=len(messages),
        turn=sum(map(is_turn, messages)),
        usage=sum(used, Usage()),
        description=outcome.description,
    )
    assert made is not None, "a run that waits has a call that waits"
    _MADE[conversation] = made
    return made.as_json()


def read_resume(resume: Resume) -> Continuation:
    """The continuation of `resume`, about the call it decides.

    Raises SessionError: it is not valid, or waits for another call.
    """
    try:
        continuation = parse_continuation(resume.continuation)
    except ValueError as error:
        raise SessionError(
            f"The continuation cannot be used: {error}.",
            hint="Pass the `continuation` of an AwaitingConfirmation unchanged.",
        ) from error
    check_call(continuation, resume.tool_call_id)
    return continuation


def check_fits(
    continuation: Continuation, conversation: Conversation, thread: str | None, store: Store | None
) -> None:
    """Raise SessionError unless the thread is still as the continuation left it."""
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
            f"The continuation is stale: thread {name!r} was continued without it.",
            hint="Nothing was run. The newest outcome names the calls that wait.",
        )
    if _MADE.get(conversation) != continuation:
        raise SessionError(
            f"The continuation does not fit thread {name!r}: it was changed, or other calls wait.",
            hint="Nothing was run. Pass it unchanged.",
        )


def records_of(store: Store, session_id: str) -> Sequence[Record]:
    """The records of the thread's journal; none if it does not exist."""
    path = store.folder / f"{session_id}.jsonl"
    return read_journal(path).records if path.exists() else ()


OpenThread = Callable[[str | None], Conversation]
"""Opens the thread of this name; None: a new one."""


class Threads:
    """The open conversations of an agent; None names the one that belongs to this agent alone.

    With `are_shared` a named thread is open only during a run, so that other processes can open it
    between two runs. Input that is queued in it is kept here meanwhile.
    """

    def __init__(self, open_thread: OpenThread, *, are_shared: bool) -> None:
        self._open = open_thread
        self._are_shared = are_shared
        self._held: dict[str | None, Conversation] = {}
        self._queued: dict[str, Sequence[QueuedInput]] = {}
        self._releases: dict[str, asyncio.Task[None]] = {}

    def open(self, name: str | None) -> Conversation:
        """Open the thread, if it is not. Raises SessionError: another process has it open."""
        if name not in self._held:
            self._held[name] = conversation = self._open(name)
            for item in self._queued.pop(name, ()) if name is not None else ():
                submit = conversation.steer if item.kind == "steering" else conversation.follow_up
                submit(item.message)
        return self._held[name]

    @property
    def opened(self) -> Sequence[Conversation]:
        """The conversations that are open now."""
        return list(self._held.values())

    def name_of(self, session_id: str) -> str | None:
        """The name that opens the thread of this id: None for the agent's own thread."""
        main = self._held.get(None)
        return None if main is not None and main.session_id == session_id else session_id

    def is_open(self, name: str) -> bool:
        return name in self._held

    def release(self, name: str | None, run: Run | None = None) -> None:
        """Close the thread, after `run` if there is one, so that other processes can open it."""
        if name is None or not self._are_shared or name not in self._held:
            return
        self._releases[name] = release = asyncio.ensure_future(self._release(name, run))

        def forget(_release: object) -> None:
            if self._releases.get(name) is release:
                del self._releases[name]

        release.add_done_callback(forget)

    async def wait_released(self, name: str | None) -> None:
        """Return when the release of the thread is done, if one has begun."""
        release = self._releases.get(name) if name is not None else None
        if release is not None:
            await asyncio.shield(release)

    async def close(self) -> None:
        """Stop all runs and close all threads."""
        held, self._held = list(self._held.values()), {}
        for conversation in held:
            await conversation.close()
        for release in list(self._releases.values()):
            await release

    async def _release(self, name: str, run: Run | None) -> None:
        if run is not None:
            await run
        conversation = self._held.get(name)
        if (
            conversation is None
            or conversation.is_running
            or conversation.program_calls
            or conversation.exclusive_owner is not None
        ):
            return  # a newer run or call releases it
        del self._held[name]
        queued = conversation.take_back()
        if queued:
            self._queued[name] = queued
        await conversation.close()
