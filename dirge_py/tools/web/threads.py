"""Work that blocks, in a thread that nobody has to wait for."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_daemon_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` returns or raises. When cancelled, the thread is left behind.

    A daemon of its own, not one of a pool: a name server that does not answer must neither keep
    the program from ending nor take a place from other work.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()

    def settle(setter: Callable[[Any], None], outcome: Any) -> None:
        if not answer.done():
            setter(outcome)

    def body() -> None:
        try:
            setter, outcome = answer.set_result, work(*args, **kwargs)
        except Exception as error:
            setter, outcome = answer.set_exception, error  # type: ignore[assignment]
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, setter, outcome)

    threading.Thread(target=body, name=f"dirge-{work.__name__}", daemon=True).start()
    return await answer
