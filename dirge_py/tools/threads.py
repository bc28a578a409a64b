"""Runs blocking work in daemon threads, not in a pool: it blocks neither exit nor other work."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ToolFailed

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(
    signal: AbortSignal, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Run `work` in its own thread; raise ToolFailed when the run is aborted."""
    if signal.aborted:
        raise ToolFailed("Aborted.", outcome="aborted")
    answer = _start_thread(work, *args, **kwargs)
    try:
        await signal.wait(unless=answer)
        if not answer.done():
            raise ToolFailed("Aborted.", outcome="aborted")
        return answer.result()
    finally:
        answer.cancel()


async def run_in_daemon_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `work` returns, or raise what it raises. When cancelled, abandon the thread."""
    return await _start_thread(work, *args, **kwargs)


def _start_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[R]":
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            setter(value)

    def body() -> None:
        ended: tuple[Callable[[Any], None], Any]
        try:
            ended = answer.set_result, work(*args, **kwargs)
        except BaseException as error:
            # `sys.exit()` would end only this thread; a future rejects a StopIteration.
            if not isinstance(error, Exception) or isinstance(error, StopIteration):
                error = ToolFailed(f"It ended with {type(error).__name__}. Take another way.")
            ended = answer.set_exception, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *ended)

    name = f"dirge-{getattr(work, '__name__', 'work')}"
    threading.Thread(target=body, name=name, daemon=True).start()
    return answer
