"""One model call without a run: the whole answer, for judges, summaries and plugins."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace

from dirge_py.agent_loop.assemble import Assembler, finished_blocks
from dirge_py.agent_loop.race import Aborted, until_aborted
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.hooks import StopRun
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
from dirge_py.types.messages import AssistantMessage, StopReason

_EVENTS_PER_BREATH = 256

_logger = logging.getLogger(__name__)


async def complete(
    stream_fn: StreamFn,
    context: LlmContext,
    options: StreamOptions,
    signal: AbortSignal,
    *,
    timeout_s: float | None = None,
) -> AssistantMessage:
    """The whole answer to one model call. The stream is closed on every way out.

    Raises:
        ProviderError: the call failed, broke off before its end, or was aborted (kind "aborted").
        TimeoutError: there was no whole answer after `timeout_s` seconds.
    """
    if signal.aborted:
        raise _stopped()
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await until_aborted(_folded(stream_fn, context, options, signal), signal)
    except Aborted:
        raise _stopped() from None
    except (ProviderError, StopRun):
        raise
    except Exception as error:
        if limit.expired():
            raise TimeoutError(f"There was no whole answer after {timeout_s:g} s.") from None
        _logger.exception("the stream function failed")
        raise ProviderError(f"The model could not be asked: {error!r}") from error


async def _folded(
    stream_fn: StreamFn, context: LlmContext, options: StreamOptions, signal: AbortSignal
) -> AssistantMessage:
    if signal.aborted:  # between the making of this task and its first step
        raise _stopped()
    async with closing(stream_fn(context, options, signal)) as stream:
        return await _whole(stream, options.model)


async def _whole(stream: AsyncIterator[StreamEvent], model: str) -> AssistantMessage:
    assembler = Assembler()
    heard = 0
    async for event in stream:
        match event:
            case StreamStart(name, stand_in):
                model = stand_in or model or name
            case StreamRetry():
                assembler = Assembler()
            case StreamError(error):
                raise error
            case StreamDone():
                return _message(event, assembler, model)
            case _:
                for _ in assembler.feed(event):
                    pass
        heard += 1
        if heard % _EVENTS_PER_BREATH == 0:
            # A burst that never waits would outlive every time limit.
            await asyncio.sleep(0)
    # Half a summary or verdict must not pass for a whole one.
    raise ProviderError("The answer broke off before its end.", kind="network", phase="stream")


def _message(done: StreamDone, assembler: Assembler, model: str) -> AssistantMessage:
    message = done.message or AssistantMessage(content=assembler.blocks())
    whole = replace(
        message,
        content=finished_blocks(message.content, lambda: os.urandom(8).hex()),
        model=message.model or model,
        usage=done.usage or message.usage,
    )
    return replace(whole, stop_reason=_stop_reason(done.stop_reason, has_calls=bool(whole.calls)))


def _stop_reason(told: StopReason, *, has_calls: bool) -> StopReason:
    """As in a run: services differ in what they call an answer that ends in calls."""
    if told in ("stop", "toolUse"):
        return "toolUse" if has_calls else "stop"
    return told


def _stopped() -> ProviderError:
    return ProviderError("Stopped.", kind="aborted", phase="stream")
