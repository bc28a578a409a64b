"""The complete answer to one model call, assembled from its stream."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.types import llm
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import MessageUpdate, Phase
from dirge_py.types.hooks import StopRun
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

OnComplete: TypeAlias = Callable[[AssistantMessage, llm.StreamDone], Awaitable[llm.StreamDone]]
"""Takes an answer and its end, returns the end to emit; its `message` replaces the answer."""

EVENTS_PER_YIELD = 256

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Prose:
    kind: Literal["text", "thinking"]
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None
    redacted: str | None = None

    def block(self) -> TextBlock | ThinkingBlock:
        text = "".join(self.pieces)
        if self.kind == "text":
            return TextBlock(text)
        return ThinkingBlock(text=text, signature=self.signature, redacted=self.redacted)


@dataclass(slots=True)
class _Call:
    index: int
    key: str
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    arguments: Any = None
    is_complete: bool = False

    def block(self) -> ToolCallBlock:
        arguments = self.arguments
        if arguments is None:
            arguments = parsed_arguments("".join(self.pieces))
        return ToolCallBlock(id=self.id, name=self.name, arguments=arguments)


class Assembler:
    """Blocks under construction. `feed` takes events and yields the updates to emit.

    `model` is the model that answers, as far as the stream has named it. An event of another kind
    closes the open text or thinking block. Calls may interleave; they are distinguished by key, or
    by id where a service uses a key twice. A retry starts over.
    """

    def __init__(self, model: str = "") -> None:
        self.model = model
        self._clear()

    def _clear(self) -> None:
        self._parts: list[_Prose | _Call | CompactionBlock] = []
        self._open: _Prose | None = None
        self._calls: dict[str, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def feed(self, event: llm.StreamEvent) -> Iterator[MessageUpdate]:
        match event:
            case llm.TextDelta(text):
                yield from self._grow("text", text)
            case llm.ThinkingDelta(text):
                yield from self._grow("thinking", text)
            case llm.ThinkingEnd():
                yield from self._end_thinking(event)
            case llm.ToolCallDelta():
                yield from self._grow_call(event)
            case llm.ToolCallEnd():
                yield from self._end_call(event)
            case llm.CompactionDone():
                yield from self._close_open()
                self._parts.append(CompactionBlock(data=event.data, text=event.text))
            case llm.StreamStart(model, stand_in):
                self.model = stand_in or self.model or model
            case llm.StreamRetry():
                self._clear()

    def close(self) -> Iterator[MessageUpdate]:
        """End every open block: the answer is complete."""
        yield from self._close_open()
        for part in self._parts:
            if isinstance(part, _Call) and not part.is_complete:
                part.is_complete = True
                yield _call_update("toolcall_end", part)

    def blocks(self, *, with_calls: bool = True) -> tuple[AssistantBlock, ...]:
        """Return the blocks so far, without empty ones."""
        blocks = (
            part if isinstance(part, CompactionBlock) else part.block()
            for part in self._parts
            if with_calls or not isinstance(part, _Call)
        )
        return tuple(block for block in blocks if not _is_empty(block))

    def _grow(self, kind: Literal["text", "thinking"], text: str) -> Iterator[MessageUpdate]:
        if not text:
            return
        prose = self._open
        if prose is None or prose.kind != kind:
            prose = yield from self._begin(kind)
        prose.pieces.append(text)
        yield self._update("delta", delta=text)

    def _begin(self, kind: Literal["text", "thinking"]) -> Generator[MessageUpdate, None, _Prose]:
        yield from self._close_open()
        self._open = prose = _Prose(kind)
        self._parts.append(prose)
        yield self._update("start")
        return prose

    def _end_thinking(self, end: llm.ThinkingEnd) -> Iterator[MessageUpdate]:
        thinking = self._open
        if thinking is None or thinking.kind != "thinking":
            if not (end.text or end.signature or end.redacted):
                return
            thinking = yield from self._begin("thinking")
        thinking.signature, thinking.redacted = end.signature, end.redacted
        if end.text:
            text = "".join(thinking.pieces)
            # Some services repeat the whole text at the end, others send only its last piece.
            thinking.pieces = [end.text] if end.text.startswith(text) else [text, end.text]
        yield from self._close_open("".join(thinking.pieces) if end.text else None)

    def _close_open(self, text: str | None = None) -> Iterator[MessageUpdate]:
        if self._open is not None:
            yield self._update("end", text=text)
            self._open = None

    def _update(self, step: str, *, delta: str = "", text: str | None = None) -> MessageUpdate:
        assert self._open is not None
        phase: Phase = f"{self._open.kind}_{step}"  # type: ignore[assignment]
        # Only calls can follow an open text or thinking block, and they close it: it is the last.
        return MessageUpdate(phase=phase, index=len(self._parts) - 1, delta=delta, text=text)

    def _grow_call(self, delta: llm.ToolCallDelta) -> Iterator[MessageUpdate]:
        call = yield from self._call_of(delta)
        if call.is_complete:
            return
        call.id, call.name = call.id or delta.id, call.name or delta.name
        self._by_id[call.id] = call
        if delta.arguments:
            call.pieces.append(delta.arguments)
            yield _call_update("toolcall_delta", call, delta=delta.arguments)

    def _end_call(self, end: llm.ToolCallEnd) -> Iterator[MessageUpdate]:
        call = yield from self._call_of(end)
        call.id, call.name = end.id or call.id, end.name or call.name
        self._by_id[call.id] = call
        if end.arguments is not None:
            call.arguments = parsed_arguments(end.arguments)
        if not call.is_complete:
            call.is_complete = True
            yield _call_update("toolcall_end", call)

    def _call_of(
        self, event: llm.ToolCallDelta | llm.ToolCallEnd
    ) -> Generator[MessageUpdate, None, _Call]:
        """Return the call that the event belongs to; begin one if it is not known yet."""
        call = self._known(event)
        if call is None:
            yield from self._close_open()
            call = _Call(index=len(self._parts), key=event.key, id=event.id, name=event.name)
            self._parts.append(call)
            self._calls[event.key] = call
            self._by_id[call.id] = call
            yield _call_update("toolcall_start", call)
        return call

    def _known(self, event: llm.ToolCallDelta | llm.ToolCallEnd) -> _Call | None:
        call = self._calls.get(event.key)
        if (call is not None and event.id in ("", call.id)) or not event.id:
            return call
        if call is not None and not call.id:
            return call
        # Some services use one key for every call of an answer: then the id decides.
        known = self._by_id.get(event.id)
        # Another call may use this key by now, or this call another id.
        is_current = known is not None and self._calls.get(known.key) is known
        return known if known is not None and is_current and known.id == event.id else None


def _call_update(phase: Phase, call: _Call, *, delta: str = "") -> MessageUpdate:
    return MessageUpdate(
        phase=phase, index=call.index, delta=delta, tool_call_id=call.id, tool_name=call.name
    )


def parsed_arguments(arguments: Any) -> Any:
    """Parse raw arguments to an object; return the raw text if they are none."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}  # some services write a call without arguments like this
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _is_empty(block: AssistantBlock) -> bool:
    if isinstance(block, ThinkingBlock):
        return not (block.text or block.signature or block.redacted)
    return isinstance(block, TextBlock) and not block.text


def finished_blocks(
    blocks: Sequence[AssistantBlock], new_id: Callable[[], str]
) -> tuple[AssistantBlock, ...]:
    """Return the blocks of a complete answer: calls parsed, nameless ones dropped, ids unique."""
    used_ids = {""}
    finished: list[AssistantBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            if not block.name:
                continue
            call_id = block.id if block.id not in used_ids else f"call_{new_id()}"
            used_ids.add(call_id)
            block = replace(block, id=call_id, arguments=parsed_arguments(block.arguments))
        finished.append(block)
    return tuple(finished)


async def complete(
    stream_fn: llm.StreamFn,
    context: llm.LlmContext,
    options: llm.StreamOptions,
    signal: AbortSignal,
    *,
    timeout_s: float | None = None,
) -> AssistantMessage:
    """Return the complete answer to one model call. The stream is closed on every way out.

    Raises ProviderError if the call failed, broke off or was aborted (kind "aborted"), TimeoutError
    if there was no complete answer after `timeout_s` seconds.
    """
    try:
        async with asyncio.timeout(timeout_s) as limit:
            answer = _answer(stream_fn, context, options, signal)
            return await until_aborted(answer, signal)
    except Aborted:
        raise _stopped() from None
    except (ProviderError, StopRun):
        raise
    except Exception as error:
        if limit.expired():
            raise TimeoutError(f"There was no complete answer after {timeout_s:g} s.") from None
        _logger.exception("the stream function failed")
        raise ProviderError(f"The model call failed: {error!r}") from error


async def _answer(
    stream_fn: llm.StreamFn,
    context: llm.LlmContext,
    options: llm.StreamOptions,
    signal: AbortSignal,
) -> AssistantMessage:
    if signal.aborted:
        raise _stopped()
    assembler = Assembler(options.model)
    async with llm.closing(until_end(stream_fn(context, options, signal))) as events:
        async for event in events:
            match event:
                case llm.StreamError(error):
                    raise error
                case llm.StreamDone():
                    return finished_message(event, assembler, lambda: os.urandom(8).hex())
            for _ in assembler.feed(event):
                pass
    raise cut_short()


async def until_end(stream: AsyncIterator[llm.StreamEvent]) -> AsyncIterator[llm.StreamEvent]:
    """Yield the events of a stream up to its end, and close it; if it has none, add an error."""
    async with llm.closing(stream) as events:
        received = 0
        async for event in events:
            yield event
            if isinstance(event, llm.StreamDone | llm.StreamError):
                return
            received += 1
            if received % EVENTS_PER_YIELD == 0:
                # A burst that never waits would block the keyboard and outlast every time limit.
                await asyncio.sleep(0)
    yield llm.StreamError(cut_short())


def finished_message(
    done: llm.StreamDone, assembler: Assembler, new_id: Callable[[], str]
) -> AssistantMessage:
    """Return the message of a complete answer, in which every call has its own id."""
    message = done.message or AssistantMessage(content=assembler.blocks())
    message = replace(
        message,
        content=finished_blocks(message.content, new_id),
        stop_reason=done.stop_reason,
        model=message.model or assembler.model,
        usage=done.usage or message.usage,
    )
    if message.stop_reason not in ("stop", "toolUse"):
        return message
    # Services disagree on the stop reason of an answer that ends in calls.
    return replace(message, stop_reason="toolUse" if message.calls else "stop")


def cut_short() -> ProviderError:
    """Return the error of a stream without an end: half an answer must not pass for a whole one."""
    return ProviderError("The answer broke off before its end.", kind="network", phase="stream")


def _stopped() -> ProviderError:
    return ProviderError("Stopped.", kind="aborted", phase="stream")


def on_complete(inner: llm.StreamFn, look: OnComplete) -> llm.StreamFn:
    """Return `inner` with `look` called at the end of each answer that did not break off.

    Deltas are passed on as they come. Wrap it around the function that retries.
    """

    async def stream(
        context: llm.LlmContext, options: llm.StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[llm.StreamEvent]:
        assembler = Assembler(options.model)
        end: llm.StreamDone | None = None
        async with llm.closing(until_end(inner(context, options, signal))) as events:
            async for event in events:
                if isinstance(event, llm.StreamDone):
                    end = event
                    break
                for _ in assembler.feed(event):
                    pass
                yield event
        if end is not None:
            answer = end.message or AssistantMessage(
                content=assembler.blocks(),
                stop_reason=end.stop_reason,
                model=assembler.model,
                usage=end.usage,
            )
            yield await look(answer, end)

    return stream
