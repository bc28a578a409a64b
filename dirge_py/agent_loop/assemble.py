"""From stream deltas to the blocks of an assistant message, one linear pass."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dirge_py.types.events import MessageUpdate, Phase
from dirge_py.types.llm import (
    CompactionDone,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import (
    AssistantBlock,
    CompactionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)


@dataclass(slots=True)
class _Text:
    pieces: list[str] = field(default_factory=list)

    def block(self) -> TextBlock:
        return TextBlock("".join(self.pieces))


@dataclass(slots=True)
class _Thinking:
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None
    redacted: str | None = None

    def block(self) -> ThinkingBlock:
        return ThinkingBlock(
            text="".join(self.pieces), signature=self.signature, redacted=self.redacted
        )


@dataclass(slots=True)
class _Call:
    index: int
    key: str
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    arguments: Any = None
    is_whole: bool = False

    def block(self) -> ToolCallBlock:
        return ToolCallBlock(id=self.id, name=self.name, arguments=self._parsed())

    def _parsed(self) -> Any:
        if self.arguments is not None:
            return self.arguments
        return parsed_arguments("".join(self.pieces))


@dataclass(slots=True)
class _Compaction:
    whole: CompactionBlock

    def block(self) -> CompactionBlock:
        return self.whole


class Assembler:
    """Blocks under construction. `feed` takes deltas and yields what sinks should hear.

    A new kind closes the open text or thinking block, so text, thinking, text gives three. Calls
    may interleave; they are told apart by key, or by id where a service uses a key twice.
    """

    def __init__(self) -> None:
        self._parts: list[_Text | _Thinking | _Call | _Compaction] = []
        self._open: _Text | _Thinking | None = None
        self._calls: dict[str, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def feed(self, event: StreamEvent) -> Iterator[MessageUpdate]:
        match event:
            case TextDelta(text):
                yield from self._grow(_Text, text)
            case ThinkingDelta(text):
                yield from self._grow(_Thinking, text)
            case ThinkingEnd():
                yield from self._end_thinking(event)
            case ToolCallDelta():
                yield from self._grow_call(event)
            case ToolCallEnd():
                yield from self._end_call(event)
            case CompactionDone():
                yield from self._close_open()
                self._parts.append(_Compaction(CompactionBlock(data=event.data, text=event.text)))

    def close(self) -> Iterator[MessageUpdate]:
        """End whatever is open: the answer is over."""
        yield from self._close_open()
        for part in self._parts:
            if isinstance(part, _Call) and not part.is_whole:
                yield from self._close_call(part)

    def blocks(self, *, with_calls: bool = True) -> tuple[AssistantBlock, ...]:
        """What was said so far, without empty blocks."""
        parts = (part.block() for part in self._parts if with_calls or not isinstance(part, _Call))
        return tuple(block for block in parts if _says_something(block))

    def _grow(self, kind: type[_Text | _Thinking], text: str) -> Iterator[MessageUpdate]:
        if not text:
            return
        if not isinstance(self._open, kind):
            yield from self._close_open()
            self._open = kind()
            self._parts.append(self._open)
            yield self._update("start")
        assert self._open is not None
        self._open.pieces.append(text)
        yield self._update("delta", delta=text)

    def _end_thinking(self, end: ThinkingEnd) -> Iterator[MessageUpdate]:
        if not isinstance(self._open, _Thinking):
            if not (end.text or end.signature or end.redacted):
                return
            yield from self._close_open()
            self._open = _Thinking()
            self._parts.append(self._open)
            yield self._update("start")
        thinking = self._open
        assert isinstance(thinking, _Thinking)
        thinking.signature, thinking.redacted = end.signature, end.redacted
        if end.text:
            said = "".join(thinking.pieces)
            # Some services repeat the whole at the end, others send only its last piece.
            thinking.pieces = [end.text] if end.text.startswith(said) else [said, end.text]
        yield from self._close_open("".join(thinking.pieces) if end.text else None)

    def _close_open(self, text: str | None = None) -> Iterator[MessageUpdate]:
        if self._open is not None:
            yield self._update("end", text=text)
            self._open = None

    def _update(self, step: str, *, delta: str = "", text: str | None = None) -> MessageUpdate:
        kind = "text" if isinstance(self._open, _Text) else "thinking"
        phase: Phase = f"{kind}_{step}"  # type: ignore[assignment]
        # Only calls can follow an open text or thinking block, and they close it: it is the last.
        return MessageUpdate(phase=phase, index=len(self._parts) - 1, delta=delta, text=text)

    def _grow_call(self, delta: ToolCallDelta) -> Iterator[MessageUpdate]:
        call = self._known(delta)
        if call is None:
            yield from self._close_open()
            call = self._new_call(delta)
            yield _call_update("toolcall_start", call)
        if call.is_whole:
            return
        call.id, call.name = call.id or delta.id, call.name or delta.name
        self._by_id[call.id] = call
        if delta.arguments:
            call.pieces.append(delta.arguments)
            yield _call_update("toolcall_delta", call, delta=delta.arguments)

    def _end_call(self, end: ToolCallEnd) -> Iterator[MessageUpdate]:
        call = self._known(end)
        if call is None:
            yield from self._close_open()
            call = self._new_call(end)
            yield _call_update("toolcall_start", call)
        call.id, call.name = end.id or call.id, end.name or call.name
        self._by_id[call.id] = call
        if end.arguments is not None:
            call.arguments = parsed_arguments(end.arguments)
        if not call.is_whole:
            yield from self._close_call(call)

    def _known(self, event: ToolCallDelta | ToolCallEnd) -> _Call | None:
        call = self._calls.get(event.key)
        if (call is not None and event.id in ("", call.id)) or not event.id:
            return call
        if call is not None and not call.id:
            return call
        # Some services give every call of an answer the same key: then the id decides.
        known = self._by_id.get(event.id)
        # Another call may have its key by now, or it another id.
        is_current = known is not None and self._calls.get(known.key) is known
        return known if known is not None and is_current and known.id == event.id else None

    def _new_call(self, event: ToolCallDelta | ToolCallEnd) -> _Call:
        call = _Call(index=len(self._parts), key=event.key, id=event.id, name=event.name)
        self._parts.append(call)
        self._calls[event.key] = call
        self._by_id[call.id] = call
        return call

    def _close_call(self, call: _Call) -> Iterator[MessageUpdate]:
        call.is_whole = True
        yield _call_update("toolcall_end", call)


def _call_update(phase: Phase, call: _Call, *, delta: str = "") -> MessageUpdate:
    return MessageUpdate(
        phase=phase, index=call.index, delta=delta, tool_call_id=call.id, tool_name=call.name
    )


def parsed_arguments(arguments: Any) -> Any:
    """The object that raw arguments spell; the raw text when they spell none."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}  # how some services write a call without arguments
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _says_something(block: AssistantBlock) -> bool:
    if isinstance(block, TextBlock):
        return bool(block.text)
    if isinstance(block, ThinkingBlock):
        return bool(block.text or block.signature or block.redacted)
    return True


def finished_blocks(
    blocks: Sequence[AssistantBlock], new_id: Callable[[], str]
) -> tuple[AssistantBlock, ...]:
    """The blocks of a whole answer: calls parsed, nameless ones dropped, each under its own id.

    An id answers for one call, so one that is missing or repeated is replaced.
    """
    taken: set[str] = set()
    finished: list[AssistantBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            if not block.name:
                continue
            is_fresh = block.id and block.id not in taken
            call_id = block.id if is_fresh else f"call_{new_id()}"
            taken.add(call_id)
            block = replace(block, id=call_id, arguments=parsed_arguments(block.arguments))
        finished.append(block)
    return tuple(finished)
