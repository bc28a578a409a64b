"""Waiting that an abort can end: the one place where tasks are cancelled, reaped or abandoned."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from dirge_py.types.abort import AbortSignal

GRACE_S = 0.045
"""What cancelled work gets to tidy up. Longer would be felt by whoever pressed Escape."""

LAST_WORDS_S = 1.0
"""What a run that is cancelled from outside gets to answer its calls and say how it ended."""

T = TypeVar("T")

_logger = logging.getLogger(__name__)
# The event loop holds tasks weakly: without this an abandoned one could vanish half-way.
_abandoned: set[asyncio.Future[Any]] = set()


class Aborted(Exception):
    """The signal was set before the work was done; the work was cancelled."""


async def until_aborted(work: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
    """What `work` returns, or raises; `Aborted` when the signal is set first.

    Work that was finished when the signal came keeps its result. Work begun after an abort has
    the grace period to finish. Work that swallows its cancellation is abandoned, never awaited.
    """
    task = asyncio.ensure_future(work)
    try:
        if signal.aborted:
            await asyncio.wait({task}, timeout=GRACE_S)
        else:
            await signal.wait(unless=task)
        is_finished = task.done()
    finally:
        if not task.done():
            await _reap(task)
    if not is_finished:
        raise Aborted
    if task.cancelled():
        # Raised as it is, it would look like a cancellation of whoever waits here.
        raise RuntimeError("It cancelled itself.")
    return task.result()


async def to_the_end(run: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
    """What `run` returns. A cancellation from outside aborts it first, then goes on its way."""
    task = asyncio.ensure_future(run)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        signal.abort("cancelled")
        try:
            await asyncio.wait({task}, timeout=LAST_WORDS_S)
        finally:
            task.cancel()
        raise


async def _reap(task: asyncio.Future[Any]) -> None:
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done():
        _logger.warning("abandoned after its cancellation: %r", task)


def _forget(task: asyncio.Future[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as never retrieved
