"""A time limit for each tool call; questions come before it begins, so no person is hurried."""

import asyncio
from collections.abc import Collection, Mapping

from dirge_py.agent_loop.race import Aborted, until_aborted
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall, text_result


def timeout_interceptor(
    default_s: float, per_tool: Mapping[str, float], *, exempt: Collection[str] = ("bash",)
) -> Interceptor:
    """An interceptor that ends a call after a time: `per_tool`, the tool's own, or `default_s`.

    0 is no limit. `exempt` are tools that keep time themselves; a limit in `per_tool` holds for
    them too, and a tool's own is its attribute `timeout_s`. A tool that is out of time is
    cancelled, which stops what it started; one that swallows that is left behind after a moment.
    """

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        own_s = getattr(call.tool, "timeout_s", None)
        usual_s = 0.0 if call.name in exempt else default_s
        limit_s = per_tool.get(call.name, usual_s if own_s is None else own_s)
        if not limit_s:
            return await proceed()
        expiry = AbortSignal()
        timer = asyncio.get_running_loop().call_later(limit_s, expiry.abort, "timeout")
        try:
            return await until_aborted(_result_of(proceed), expiry)
        except Aborted:
            if not expiry.aborted:
                raise
            return _timed_out(call.name, limit_s)
        finally:
            timer.cancel()

    return around


async def _result_of(proceed: Proceed) -> LoopToolResult:
    return await proceed()


def _timed_out(name: str, limit_s: float) -> LoopToolResult:
    return text_result(
        f"`{name}` timed out after {limit_s:g} s and was stopped. What it did until then stays "
        "done. Ask for less at once, or take another way; the same call would end the same.",
        outcome="timeout",
        is_error=True,
        timeout_s=limit_s,
    )
