"""Interceptors around a tool call, each of which can run what is inside it only once."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall, changes_something

_STOPPED = (
    "The call was stopped while it ran. What it had done by then was not undone: look before you "
    "repeat it."
)


class ProceedOnce:
    """A `Proceed` that runs `proceed` once: every further call gets the same result or error.

    After an error it runs again only if `may_repeat()`. `begun` and `ended` are set when it first
    begins, and when it ends.
    """

    __slots__ = ("_may_repeat", "_proceed", "_result", "begun", "ended", "failure")

    def __init__(self, proceed: Proceed, *, may_repeat: Callable[[], bool] = lambda: False) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.failure: Exception | None = None
        self._proceed = proceed
        self._may_repeat = may_repeat
        self._result: LoopToolResult | None = None

    async def __call__(self) -> LoopToolResult:
        while self.begun.done():
            ended = self.ended
            await asyncio.shield(ended)
            if self._result is not None:
                return self._result
            if not self._may_repeat():
                raise self.failure or ToolFailed(_STOPPED)
            if ended is self.ended:
                self.ended = asyncio.get_running_loop().create_future()
                break
        if not self.begun.done():
            self.begun.set_result(None)
        try:
            self._result = await self._proceed()
            return self._result
        except Exception as error:
            self.failure = error
            raise
        finally:
            self.ended.set_result(None)


def intercepted(call: ToolCall, body: Proceed, interceptors: Sequence[Interceptor]) -> Proceed:
    """Return `body` inside its interceptors, the first of them outermost.

    A call that only reads may be made again after an error, as durable engines do.
    """
    proceed = body
    for around in reversed(interceptors):
        once = ProceedOnce(proceed, may_repeat=lambda: not changes_something(call))
        proceed = partial(around, call, once)
    return proceed
