"""The threads of an agent: conversations by name, opened when they are needed."""

import asyncio
from collections.abc import Callable, Sequence

from dirge_py.agent_loop.queues import QueuedInput
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.handle import Run

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
        if conversation is None or conversation.is_running or conversation.occupant is not None:
            return  # somebody was faster, and will see to it
        del self._held[name]
        left = conversation.take_back()
        if left:
            self._queued[name] = left
        await conversation.close()
