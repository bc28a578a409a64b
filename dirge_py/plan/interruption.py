"""How a plan is stopped from outside, whatever it waits for at that moment."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """Somebody stopped the plan."""


class Interruption:
    """`stop_run` stops a run that goes on, for a reason; False where none does."""

    def __init__(self, stop_run: Callable[[str], bool]) -> None:
        self._stop_run = stop_run
        self._pending: asyncio.Task[Any] | None = None
        self.reason = ""
        """Why it was stopped; "" as long as nobody did."""

    def __call__(self, reason: str) -> None:
        self.reason = self.reason or reason
        if not self._stop_run(reason) and self._pending is not None:
            self._pending.cancel()

    def check(self) -> None:
        """Raises Interrupted once it was stopped."""
        if self.reason:
            raise Interrupted

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work that is no run.

        Raises:
            Interrupted: it was stopped, before or meanwhile.
        """
        if self.reason:
            work.close()
            raise Interrupted
        task = asyncio.get_running_loop().create_task(work)
        self._pending = task
        try:
            return await task
        except asyncio.CancelledError:
            if self.reason and not _is_cancelled():
                raise Interrupted from None
            raise
        finally:
            task.cancel()
            self._pending = None


def _is_cancelled() -> bool:
    """Whether it is this task itself that was cancelled, and not what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
