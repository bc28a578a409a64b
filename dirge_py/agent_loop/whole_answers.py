"""A look at every whole answer of a model, before the loop acts on it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from dirge_py.agent_loop.assemble import Assembler
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamRetry,
    StreamStart,
    closing,
)
from dirge_py.types.messages import AssistantMessage

Look: TypeAlias = Callable[[AssistantMessage, StreamDone], Awaitable[StreamDone]]
"""Given an answer and its end, the end to tell instead; its `message` replaces the answer."""


def at_whole_answer(inner: StreamFn, look: Look) -> StreamFn:
    """`inner`, with `look` at the end of each answer that did not break off.

    What was said before is passed on as it comes: it cannot be taken back, only replaced in what is
    kept. Goes around whatever makes calls again, so that it sees each answer once.
    """

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        assembler, model = Assembler(), options.model
        # The loop takes a stream that just ends for a whole answer.
        end: StreamDone | StreamError = StreamDone()
        async with closing(inner(context, options, signal)) as events:
            async for event in events:
                match event:
                    case StreamDone() | StreamError():
                        end = event
                        break
                    case StreamRetry():
                        assembler = Assembler()
                    case StreamStart(name, stand_in):
                        model = stand_in or model or name
                    case _:
                        for _ in assembler.feed(event):
                            pass
                yield event
        if isinstance(end, StreamDone):
            end = await look(_answer(end, assembler, model), end)
        yield end

    return stream


def _answer(done: StreamDone, assembler: Assembler, model: str) -> AssistantMessage:
    return done.message or AssistantMessage(
        content=assembler.blocks(), stop_reason=done.stop_reason, model=model, usage=done.usage
    )
