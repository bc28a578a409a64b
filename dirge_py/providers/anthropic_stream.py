"""The answer of Anthropic's Messages API: blocks that open, grow and close, in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.providers.errors import declined_error
from dirge_py.providers.stream_parser import (
    CallIdAllocator,
    ServiceError,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.llm import (
    CompactionDone,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import StopReason, Usage

_STOP_REASONS: Mapping[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "compaction": "compaction",
    "pause_turn": "pause_turn",
}


@dataclass(slots=True)
class _Block:
    kind: str
    signature: str = ""
    redacted: str = ""
    input: Any = None
    has_pieces: bool = False
    compaction: dict[str, Any] = field(default_factory=dict)


class AnthropicParser:
    """A `StreamParser`. Events are told apart by the `type` in their JSON: not all send names.

    `taken` are call ids of history: a service that reuses one, or sends none, gets a new one.
    """

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        self._ids = CallIdAllocator(taken, f"toolu_{new_id}")
        self.is_done = False
        self.is_settled = False
        self.has_content = False
        self._blocks: dict[Any, _Block] = {}
        self._has_calls = False
        self._stop = ""
        self._stop_details: Mapping[str, Any] = {}
        self._usage: dict[str, int] = {}
        self._iterations: list[Mapping[str, Any]] = []

    @property
    def call_is_open(self) -> bool:
        return any(block.kind == "tool_use" for block in self._blocks.values())

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        index = payload.get("index")
        match as_text(payload.get("type")) or name:
            case "content_block_delta":
                return self._grown(index, as_object(payload.get("delta")))
            case "content_block_start":
                return self._opened(index, as_object(payload.get("content_block")))
            case "content_block_stop":
                return self._closed(index)
            case "message_start":
                message = as_object(payload.get("message"))
                self._count(message.get("usage"))
                return [StreamStart(as_text(message.get("model")))]
            case "message_delta":
                self._count(payload.get("usage"))
                delta = as_object(payload.get("delta"))
                self._stop = as_text(delta.get("stop_reason"))
                self._stop_details = as_object(delta.get("stop_details"))
                self.is_settled = self.is_settled or bool(self._stop)
                return ()
            case "message_stop":
                self.is_settled = True
                return self.finish()
            case "error":
                raise ServiceError(payload)
            case _:
                if payload.get("error"):
                    raise ServiceError(payload)
                return ()

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if payload.get("type") != "message":
            raise ServiceError(payload)
        events = [*self.event("message_start", {"message": payload})]
        for index, block in enumerate(as_objects(payload.get("content"))):
            events += self._opened(index, block)
            if as_text(block.get("signature")):
                self._blocks[index].signature = block["signature"]
            events += self._closed(index)
        self._stop = as_text(payload.get("stop_reason"))
        self._stop_details = as_object(payload.get("stop_details"))
        self.is_settled = True
        return events

    def finish(self) -> Sequence[StreamEvent]:
        if self.is_done or not self.is_settled:
            return ()
        self.is_done = True
        ends = [event for index in list(self._blocks) for event in self._closed(index)]
        if self._stop == "refusal":
            return [
                *ends,
                StreamError(declined_error(as_text(self._stop_details.get("explanation")))),
            ]
        reason = _STOP_REASONS.get(self._stop, "stop")
        if self._has_calls and reason == "stop":
            reason = "toolUse"
        return [*ends, StreamDone(stop_reason=reason, usage=self._total())]

    def _opened(self, index: Any, raw: Mapping[str, Any]) -> Sequence[StreamEvent]:
        block = _Block(kind=as_text(raw.get("type")))
        self._blocks[index] = block
        match block.kind:
            case "text":
                return self._grown(index, {"type": "text_delta", "text": raw.get("text")})
            case "thinking":
                thinking = {"type": "thinking_delta", "thinking": raw.get("thinking")}
                return self._grown(index, thinking)
            case "redacted_thinking":
                block.redacted = as_text(raw.get("data"))
            case "compaction":
                block.compaction = dict(raw)
            case "tool_use":
                self.has_content = self._has_calls = True
                block.input = raw.get("input")
                call_id, name = self._ids.free(as_text(raw.get("id"))), as_text(raw.get("name"))
                return [ToolCallDelta(key=str(index), id=call_id, name=name)]
        return ()

    def _grown(self, index: Any, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        match delta.get("type"):
            case "text_delta":
                text = as_text(delta.get("text"))
                self.has_content = self.has_content or bool(text)
                return [TextDelta(text)] if text else ()
            case "thinking_delta":
                thinking = as_text(delta.get("thinking"))
                self.has_content = self.has_content or bool(thinking)
                return [ThinkingDelta(thinking)] if thinking else ()
            case "input_json_delta":
                piece, block = as_text(delta.get("partial_json")), self._blocks.get(index)
                # The input of a tool that the service runs itself streams, too.
                if not piece or block is None or block.kind != "tool_use":
                    return ()
                block.has_pieces = True
                return [ToolCallDelta(key=str(index), arguments=piece)]
            case "signature_delta":
                if index in self._blocks:
                    self._blocks[index].signature = as_text(delta.get("signature"))
            case "compaction_delta":
                if index in self._blocks:
                    _fold_in(self._blocks[index].compaction, delta)
        return ()

    def _closed(self, index: Any) -> Sequence[StreamEvent]:
        block = self._blocks.pop(index, None)
        if block is None:
            return ()
        match block.kind:
            case "thinking":
                return [ThinkingEnd(signature=block.signature or None)]
            case "redacted_thinking":
                return [ThinkingEnd(redacted=block.redacted or None)]
            case "compaction":
                text = as_text(block.compaction.get("content"))
                return [CompactionDone(data=block.compaction, text=text)]
            case "tool_use":
                # `input` is empty where pieces follow; services that stream none give it whole.
                whole = None if block.has_pieces else as_object(block.input)
                return [ToolCallEnd(key=str(index), arguments=whole)]
        return ()

    def _count(self, usage: Any) -> None:
        """Keep the newest figure of each kind: later events repeat, correct or leave them out."""
        counted = as_object(usage)
        self._usage |= {
            name: as_count(counted[name]) for name in _COUNTS if counted.get(name) is not None
        }
        self._iterations = as_objects(counted.get("iterations")) or self._iterations

    def _total(self) -> Usage | None:
        if not self._usage:
            return None
        # A service that compacted on the way called its model several times: its own sum leaves
        # the compaction out, which is paid for, too.
        return sum(map(_usage, self._iterations or [self._usage]), Usage())


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def _usage(counted: Mapping[str, Any]) -> Usage:
    fresh, output, read, write = (as_count(counted.get(name)) for name in _COUNTS)
    return Usage(input=fresh + read + write, output=output, cache_read=read, cache_write=write)


def _fold_in(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a piece of a compaction: its text grows, everything else is taken as it comes last."""
    for name, value in delta.items():
        before = block.get(name)
        if name == "content" and isinstance(before, str) and isinstance(value, str):
            block[name] = before + value
        elif name != "type":
            block[name] = value
