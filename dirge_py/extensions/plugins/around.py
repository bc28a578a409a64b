"""A plugin's function around a tool call: it can wait before and after, but not lose the call."""

import asyncio
from typing import Any

from dirge_py.agent_loop.cancellation import GRACE_S
from dirge_py.extensions.plugins.asking import HookCaller
from dirge_py.extensions.plugins.calling import Misbehaved, TookTooLong, abandon, as_exception
from dirge_py.extensions.plugins.output import as_plugin
from dirge_py.extensions.plugins.points import Registration
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall


async def around(
    caller: HookCaller, hook: Registration, call: ToolCall, proceed: Proceed
) -> LoopToolResult:
    """The result of `hook.fn(call, proceed)`; what `proceed` gave when that fails.

    The time before and after `proceed()` is limited, the time within is the tool's. A function that
    fails before it has called `proceed` is left out: the tool runs without it.
    """
    if not hook.is_on or hook.tool not in ("", call.name):
        return await proceed()
    inner = _Inner(proceed)
    try:
        result = await _limited(hook, call, inner, caller.limit_s)
    except Exception as error:
        if inner.failure is not None and error is inner.failure:
            raise
        caller.failed(hook, error)
        return await inner.outcome()
    if isinstance(result, LoopToolResult):
        return result
    caller.failed(hook, Misbehaved(f"it returned {type(result).__name__}, not a result"))
    return await inner.outcome()


class _Inner:
    """`proceed` as a plugin gets it: it can be called once, and its outcome is remembered."""

    def __init__(self, proceed: Proceed) -> None:
        self._proceed = proceed
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.result: LoopToolResult | None = None
        self.failure: BaseException | None = None

    async def __call__(self) -> LoopToolResult:
        if self.begun.done():
            raise Misbehaved("it called proceed() twice")
        self.begun.set_result(None)
        try:
            self.result = await self._proceed()
            return self.result
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.ended.set_result(None)

    async def outcome(self) -> LoopToolResult:
        """What the call came to; it is made now if the plugin has not."""
        if not self.begun.done():
            return await self()
        if self.result is not None:
            return self.result
        raise self.failure or Misbehaved("the call was abandoned")


async def _limited(hook: Registration, call: ToolCall, inner: _Inner, limit_s: float) -> Any:
    with as_plugin():
        task = asyncio.get_running_loop().create_task(_run(hook, call, inner))
    try:
        await asyncio.wait({task, inner.begun}, timeout=limit_s, return_when="FIRST_COMPLETED")
        if inner.begun.done():
            await asyncio.wait({task, inner.ended}, return_when="FIRST_COMPLETED")
            await asyncio.wait({task}, timeout=limit_s)
        is_done = task.done()
    except asyncio.CancelledError:
        # The run is aborted: the tool inside has to hear of it, and gets its moment to end.
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        raise
    finally:
        abandon(task)
    if not is_done:
        raise TookTooLong(limit_s)
    if task.cancelled():
        raise (
            inner.failure
            if isinstance(inner.failure, Exception)
            else Misbehaved("it cancelled itself")
        )
    return task.result()


async def _run(hook: Registration, call: ToolCall, inner: _Inner) -> Any:
    try:
        return await hook.fn(call, inner)
    except (asyncio.CancelledError, Exception):
        raise
    except BaseException as error:
        raise as_exception(error) from None
