"""Plugins that watch: events wait in a mailbox each, so that no watcher holds up a run."""

import asyncio
from collections import deque
from collections.abc import Iterable

from dirge_py.events import LoopEvent
from dirge_py.plugin_host.asking import HookCaller
from dirge_py.plugin_host.points import Registration

MOST_DELTAS = 100
"""How many events may wait before pieces of text and of output are left out for this watcher."""

_PIECES = frozenset({"message_update", "tool_execution_update"})


class Watcher:
    """One function's mailbox; it hears one event after the other, in order.

    Every event but the pieces gets through: a watcher that hangs is off after three times its
    limit, so what waits is bounded by that.
    """

    def __init__(self, hook: Registration, caller: HookCaller) -> None:
        self.hook = hook
        self._caller = caller
        self._waiting: deque[LoopEvent] = deque()
        self.task: asyncio.Task[None] | None = None

    def hear(self, event: LoopEvent) -> None:
        if not self.hook.is_on:
            return
        if event.type in _PIECES and len(self._waiting) >= MOST_DELTAS:
            return
        self._waiting.append(event)
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while self._waiting:
            await self._caller.ask(self.hook, self._waiting.popleft())


async def finish(watchers: Iterable[Watcher], limit_s: float) -> None:
    """Let what was heard be dealt with, for at most `limit_s`."""
    tasks = {w.task for w in watchers if w.task is not None and not w.task.done()}
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=0.1)
