"""Waiting for work until an abort or a time limit: the only module that cancels tasks."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, TypeVar

from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall, text_result

GRACE_S = 0.045
"""How long cancelled work may clean up. Longer would feel slow to the user who pressed Escape."""

LAST_WORDS_S = 1.0
"""How long a run that is cancelled from outside may record its calls and emit its end."""

T = TypeVar("T")

# The event loop only holds weak references: without this set, an abandoned task could be collected.
_abandoned: set[asyncio.Future[Any]] = set()

_logger = logging.getLogger(__name__)


class Aborted(Exception):
    """The abort signal was set before the work was done; the work was cancelled."""


async def until_aborted(work: Awaitable[T], signal: AbortSignal) -> T:
    """Return or raise what `work` does; raise `Aborted` if the signal comes first.

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
        # Re-raising the CancelledError would look like a cancellation of the caller.
        raise RuntimeError("The work cancelled itself.")
    return task.result()


async def run_to_end(run: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
    """Return what `run` returns. A cancellation from outside aborts it first and is then raised."""
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
        task.exception()  # keeps asyncio from reporting it as never retrieved


def timeout_interceptor(default_s: float, per_tool: Mapping[str, float]) -> Interceptor:
    """Return an interceptor that limits a call's time: `per_tool`, the tool's or the default.

    0 is no limit. A tool's own limit is its attribute `timeout_s`. A tool that exceeds its time is
    cancelled; one that swallows the cancellation is abandoned after the grace period.
    """

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        own_s = getattr(call.tool, "timeout_s", None)
        limit_s = per_tool.get(call.name, default_s if own_s is None else own_s)
        if not limit_s:
            return await proceed()
        expiry = AbortSignal()
        timer = asyncio.get_running_loop().call_later(limit_s, expiry.abort, "timeout")
        try:
            return await until_aborted(proceed(), expiry)
        except Aborted:
            if not expiry.aborted:
                raise
            return text_result(
                f"`{call.name}` timed out after {limit_s:g} s and was stopped. What it did until "
                "then stays done. Ask for less at once, or take another way; the same call would "
                "end the same.",
                outcome="timeout",
                is_error=True,
                timeout_s=limit_s,
            )
        finally:
            timer.cancel()

    return around
