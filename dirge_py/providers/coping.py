"""Asking once more without what a service refuses."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    closing,
)

Learns: TypeAlias = Callable[[ProviderError, LlmContext, StreamOptions], bool]
"""Whether an error names something that was sent, need not be, and is left out from now on."""


_MOST_LESSONS = 2


def asked_again(inner: StreamFn, learns: Learns) -> StreamFn:
    """`inner`, called once more when its error teaches something, a few times at most."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        for lessons_left in reversed(range(_MOST_LESSONS + 1)):
            has_learnt = False
            async with closing(inner(context, options, signal)) as events:
                async for event in events:
                    has_learnt = (
                        lessons_left > 0
                        and isinstance(event, StreamError)
                        and learns(event.error, context, options)
                    )
                    if has_learnt:
                        break
                    yield event
            if not has_learnt:
                return

    return stream
