"""Plugins that watch: events wait in a mailbox each, so that no watcher holds up a run."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from dirge_py.agent_loop.cancellation import GRACE_S
from dirge_py.extensions.plugins.asking import HookCaller
from dirge_py.extensions.plugins.points import Registration
from dirge_py.types.events import LoopEvent

MOST_WAITING = 100
"""How many events may wait before pieces of text and of output are left out for this plugin."""

_PIECES = frozenset({"message_update", "tool_execution_update"})


class Mailbox:
    """What one plugin has yet to hear: one event after the other, each told to all its watchers.

    Every event but the pieces gets through. What waits stays small all the same: a watcher that
    hangs is off after three times its limit.
    """

    def __init__(self, caller: HookCaller) -> None:
        self._caller = caller
        self._waiting: deque[tuple[Sequence[Registration], LoopEvent]] = deque()
        self.task: asyncio.Task[None] | None = None

    def put(self, watchers: Sequence[Registration], event: LoopEvent) -> None:
        if event.type in _PIECES and len(self._waiting) >= MOST_WAITING:
            return
        self._waiting.append((watchers, event))
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while self._waiting:
            watchers, event = self._waiting.popleft()
            await asyncio.gather(*(self._caller.ask(watcher, event) for watcher in watchers))


async def finish(mailboxes: Iterable[Mailbox], limit_s: float) -> None:
    """Let what was heard be dealt with, for at most `limit_s`."""
    tasks = {box.task for box in mailboxes if box.task is not None and not box.task.done()}
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=GRACE_S)
