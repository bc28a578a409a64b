"""Waits that an abort or a time limit ends: the one place where tasks are cancelled."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, TypeVar

from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall, text_result

GRACE_S = 0.045
"""How long cancelled work may clean up. The person who pressed Escape would feel more."""

LAST_WORDS_S = 1.0
"""How long a run that is cancelled from outside may answer its calls and emit its end."""

T = TypeVar("T")

# The event loop holds tasks weakly: without this an abandoned one could vanish half-way.
_abandoned: set[asyncio.Future[Any]] = set()

_logger = logging.getLogger(__name__)


class Aborted(Exception):
    """The signal was set before the work was done; the work was cancelled."""


async def until_aborted(work: Awaitable[T], signal: AbortSignal) -> T:
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
        # Raised as it is, it would look like a cancellation of the caller.
        raise RuntimeError("It cancelled itself.")
    return task.result()


async def run_to_end(run: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
    """What `run` returns. A cancellation from outside aborts it first, and is raised then."""
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


def timeout_interceptor(default_s: float, per_tool: Mapping[str, float]) -> Interceptor:
    """An interceptor that ends a call after a time: `per_tool`, the tool's own, or `default_s`.

    0 is no limit. A tool's own limit is its attribute `timeout_s`: 0 for one that keeps time
    itself. A tool that is out of time is cancelled, which stops what it started; one that swallows
    that is left behind after a moment.
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
