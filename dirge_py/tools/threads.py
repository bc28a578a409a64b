"""Runs blocking work in daemon threads, not in a pool: it blocks neither exit nor other work."""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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

    def settle(result: R | None, failure: BaseException | None) -> None:
        if answer.done():
            return
        if failure is None:
            answer.set_result(result)  # type: ignore[arg-type]
        else:
            answer.set_exception(failure)

    def body() -> None:
        result: R | None = None
        failure: BaseException | None = None
        try:
            result = work(*args, **kwargs)
        except Exception as error:
            failure = error
        except BaseException as error:
            # `sys.exit()` in a thread ends only the thread, without an error message.
            failure = ToolFailed(f"It ended itself with {error!r}. Take another way.")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    name = f"dirge-{getattr(work, '__name__', 'work')}"
    threading.Thread(target=body, name=name, daemon=True).start()
    return answer
