"""The durable context between the loop and the world: around its model calls, around its tools."""

from collections.abc import AsyncIterator, Callable

from dirge_py.conversation.durable.base import (
    UNBOUNDED,
    ActivityOptions,
    DurableContext,
    LlmRequest,
)
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall


def durable_stream(
    durable: DurableContext, stream_fn: StreamFn, activity: ActivityOptions = UNBOUNDED
) -> StreamFn:
    """`stream_fn`, each call of it an activity."""

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        request = LlmRequest(context=context, options=options)
        return durable.execute_llm_call(
            request, lambda: stream_fn(context, options, signal), activity
        )

    return stream


def durable_interceptor(
    durable: DurableContext,
    *,
    is_mutating: Callable[[ToolCall], bool],
    activity: ActivityOptions = UNBOUNDED,
) -> Interceptor:
    """Around every tool call; it stands outermost, so that nothing happens before it is told."""

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        return await durable.execute_tool(
            call, proceed, replay="unsafe" if is_mutating(call) else "safe", options=activity
        )

    return around
