"""The complete answer to one model call, assembled from its stream."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.tool_calls import refuse_constant
from dirge_py.lib.lean_dataclass import dataclass
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
_ENDS = (llm.StreamDone, llm.StreamError)

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Part:
    """A block under construction."""

    kind: Literal["text", "thinking", "toolcall"]
    index: int
    key: str = ""
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    arguments: Any = None
    signature: str | None = None
    redacted: str | None = None
    is_complete: bool = False

    def block(self) -> AssistantBlock:
        text = "".join(self.pieces)
        if self.kind == "text":
            return TextBlock(text)
        if self.kind == "thinking":
            return ThinkingBlock(text=text, signature=self.signature, redacted=self.redacted)
        arguments = parsed_arguments(text) if self.arguments is None else self.arguments
        return ToolCallBlock(id=self.id, name=self.name, arguments=arguments)


class Assembler:
    """Blocks under construction. `feed` takes events and returns the updates to emit.

    `model` is the model that answers, as far as the stream has named it. An event of another kind
    closes the open text or thinking block. Calls may interleave; they are distinguished by key, or
    by id where a service uses a key twice. A retry starts over.
    """

    def __init__(self, model: str = "") -> None:
        self.model = model
        self._updates: list[MessageUpdate] = []
        self._clear()

    def _clear(self) -> None:
        self._parts: list[_Part | CompactionBlock] = []
        self._open: _Part | None = None
        """The text or thinking that grows."""
        self._calls: dict[str, _Part] = {}
        self._by_id: dict[str, _Part] = {}

    def feed(self, event: llm.StreamEvent) -> Sequence[MessageUpdate]:
        self._updates = []
        match event:
            case llm.TextDelta(text) if text:
                self._grow("text", text)
            case llm.ThinkingDelta(text) if text:
                self._grow("thinking", text)
            case llm.ThinkingEnd():
                self._end_thinking(event)
            case llm.ToolCallDelta() | llm.ToolCallEnd():
                self._grow_call(event)
            case llm.CompactionDone():
                self._close_open()
                self._parts.append(CompactionBlock(data=event.data, text=event.text))
            case llm.StreamStart(model, stand_in):
                self.model = stand_in or self.model or model
            case llm.StreamRetry():
                self._clear()
        return self._updates

    def close(self) -> Sequence[MessageUpdate]:
        """End every open block: the answer is complete."""
        self._updates = []
        self._close_open()
        for part in self._parts:
            if isinstance(part, _Part) and not part.is_complete:
                self._complete(part)
        return self._updates

    def blocks(self, *, with_calls: bool = True) -> tuple[AssistantBlock, ...]:
        """Return the blocks so far, without empty ones."""
        blocks = (each.block() if isinstance(each, _Part) else each for each in self._parts)
        return tuple(
            block
            for block in blocks
            if not _is_empty(block) and (with_calls or not isinstance(block, ToolCallBlock))
        )

    def _begin(self, part: _Part) -> _Part:
        self._close_open()
        self._parts.append(part)
        self._tell(part, "start")
        return part

    def _complete(self, part: _Part, text: str | None = None) -> None:
        part.is_complete = True
        self._tell(part, "end", text=text)

    def _close_open(self, text: str | None = None) -> None:
        if self._open is not None:
            self._complete(self._open, text)
            self._open = None

    def _tell(self, part: _Part, step: str, *, delta: str = "", text: str | None = None) -> None:
        phase: Phase = f"{part.kind}_{step}"  # type: ignore[assignment]
        self._updates.append(
            MessageUpdate(
                phase=phase,
                index=part.index,
                delta=delta,
                text=text,
                tool_call_id=part.id,
                tool_name=part.name,
            )
        )

    def _opened(self, kind: Literal["text", "thinking"]) -> _Part:
        """Return the open block if it is of this kind, else begin one."""
        if self._open is None or self._open.kind != kind:
            self._open = self._begin(_Part(kind=kind, index=len(self._parts)))
        return self._open

    def _grow(self, kind: Literal["text", "thinking"], text: str) -> None:
        part = self._opened(kind)
        part.pieces.append(text)
        self._tell(part, "delta", delta=text)

    def _end_thinking(self, end: llm.ThinkingEnd) -> None:
        is_open = self._open is not None and self._open.kind == "thinking"
        if not (is_open or end.text or end.signature or end.redacted):
            return
        thinking = self._opened("thinking")
        thinking.signature, thinking.redacted = end.signature, end.redacted
        if end.text:
            text = "".join(thinking.pieces)
            # Some services repeat the whole text at the end, others send only its last piece.
            thinking.pieces = [end.text] if end.text.startswith(text) else [text, end.text]
        self._close_open("".join(thinking.pieces) if end.text else None)

    def _grow_call(self, event: llm.ToolCallDelta | llm.ToolCallEnd) -> None:
        call = self._known(event)
        if call is None:
            part = _Part(kind="toolcall", index=len(self._parts), key=event.key, id=event.id)
            part.name = event.name
            call = self._calls[event.key] = self._begin(part)
        if isinstance(event, llm.ToolCallEnd):
            call.id, call.name = event.id or call.id, event.name or call.name
            if event.arguments is not None:
                call.arguments = parsed_arguments(event.arguments)
            if not call.is_complete:
                self._complete(call)
        elif not call.is_complete:
            call.id, call.name = call.id or event.id, call.name or event.name
            if event.arguments:
                call.pieces.append(event.arguments)
                self._tell(call, "delta", delta=event.arguments)
        self._by_id[call.id] = call

    def _known(self, event: llm.ToolCallDelta | llm.ToolCallEnd) -> _Part | None:
        call = self._calls.get(event.key)
        if not event.id or (call is not None and call.id in ("", event.id)):
            return call
        # Some services use one key for every call of an answer: then the id decides.
        known = self._by_id.get(event.id)
        # Another call may use this key by now, or this call another id.
        is_current = known is not None and self._calls.get(known.key) is known
        return known if known is not None and is_current and known.id == event.id else None


def parsed_arguments(arguments: Any) -> Any:
    """Parse raw arguments to an object; return the raw text if they are none."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}  # some services write a call without arguments like this
    try:
        parsed = json.loads(arguments, parse_constant=refuse_constant)
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
    """Return the blocks of a complete answer: calls parsed, empty ones dropped, ids unique."""
    used_ids = {""}
    finished: list[AssistantBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            if not (block.name or block.arguments):
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
                    return finished_message(event, assembler, _new_id)
            assembler.feed(event)
    raise cut_short()


async def until_end(stream: AsyncIterator[llm.StreamEvent]) -> AsyncIterator[llm.StreamEvent]:
    """Yield the events of a stream up to its end, and close it; if it has none, add an error."""
    async with llm.closing(stream) as events:
        received = 0
        async for event in events:
            yield event
            if isinstance(event, _ENDS):
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
    last = message.content[-1] if message.content else None
    if message.stop_reason == "length" and isinstance(last, ToolCallBlock) and not last.arguments:
        # Cut off before its arguments began: `{}` would be a whole call.
        cut = replace(last, arguments="{")
        return replace(message, content=(*message.content[:-1], cut))
    if message.stop_reason not in ("stop", "toolUse"):
        return message
    # Services disagree on the stop reason of an answer that ends in calls.
    return replace(message, stop_reason="toolUse" if message.calls else "stop")


def _new_id() -> str:
    return os.urandom(8).hex()


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
                assembler.feed(event)
                yield event
        if end is not None:
            yield await look(finished_message(end, assembler, _new_id), end)

    return stream
