"""Summaries written ahead in the background, so that a fold need not wait for one."""

import asyncio
from collections.abc import Awaitable, Callable

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A summary of the messages before `last`, made while there had been `epoch` folds."""

    epoch: int
    last: int
    summary: str


def schedule(window_tokens: int) -> tuple[float, ...]:
    """The shares of the window at which a checkpoint is written."""
    if window_tokens < 25_000:
        return ()
    if window_tokens <= 200_000:
        step = 20
    elif window_tokens <= 500_000:
        step = 10
    else:
        step = 5
    stop = 100 if step < 20 else 81
    marks = tuple(percent / 100 for percent in range(step, stop, step))
    return marks[:18]


class Checkpoints:
    """Owns the background task; one at a time, and none outlives `close`.

    Each mark starts one once until `reset`; marks passed together start one together. A summary
    that fails or is late leaves no trace.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._task: asyncio.Task[None] | None = None
        self.newest: Checkpoint | None = None

    def is_due(self, size: int, window_tokens: int) -> bool:
        """Whether a mark was passed that was not passed before; counts it as passed."""
        share = size / window_tokens
        marks = [mark for mark in schedule(window_tokens) if self._passed < mark <= share]
        if not marks or self.is_busy:
            return False
        self._passed = marks[-1]
        return True

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, write: Callable[[], Awaitable[Checkpoint | None]]) -> None:
        """Write one in the background. Nothing waits for it."""

        async def keep() -> None:
            self.newest = await write() or self.newest

        self._task = asyncio.get_running_loop().create_task(keep())

    def reset(self) -> None:
        """Forget what was written: there was a fold. All marks count anew."""
        self._passed = 0.0
        self.newest = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Stop what is being written."""
        task = self._task
        self.reset()
        if task is not None:
            await asyncio.wait([task])

    async def settled(self) -> None:
        """Return when nothing is being written any more."""
        if self._task is not None:
            await asyncio.wait([self._task])
