"""Events as JSON lines, in the two shapes of `--output-format stream-json`."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.result import usage_object
from dirge_py.lib.text import clean_json
from dirge_py.session.codec import encode_message
from dirge_py.session.record import json_text
from dirge_py.types.events import (
    ForkEvent,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PlanPhase,
    ToolExecutionUpdate,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import LoopToolResult, is_internal

EventFormat = Literal["claude", "native"]
WriteLine = Callable[[str], None]

_STOP = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "compaction": "compaction",
    "pause_turn": "pause_turn",
}


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)


def one_line(value: Any) -> str:
    """Return compact JSON and a newline, escaped for terminals, where logs can end up.

    What JSON can't represent is replaced as in the journal: NaN by null.
    """
    try:
        text = _COMPACT.encode(value)
        text.encode("utf-8")
    except (ValueError, RecursionError):
        text = json_text(value)
    return clean_json(text) + "\n"


class NativeLines:
    """The native shape: every event as it is, numbered from 0 in this output."""

    def __init__(self, conversation: Conversation, write: WriteLine, *, partial: bool) -> None:
        self._conversation = conversation
        self._write = write
        self._partial = partial
        self._seq = 0

    def start(self) -> None:
        """The native shape has no opening line; `agent_start` is its first event."""

    def on_event(self, event: LoopEvent) -> None:
        # The events of forks are for screens; other events have the same data.
        if isinstance(event, ForkEvent) or (isinstance(event, MessageUpdate) and not self._partial):
            return
        if isinstance(event, ToolExecutionUpdate) and is_internal(event.partial_result):
            return
        line = self._head(event.type)
        line["event_id"] = self._conversation.event_id
        if self._conversation.journal_seq is not None:
            line["journal_seq"] = self._conversation.journal_seq
        self._write(one_line({**line, **_fields(event)}))

    def end(self, result: Mapping[str, Any]) -> None:
        self._write(one_line({**self._head("result"), **result}))

    def _head(self, kind: str) -> dict[str, Any]:
        head = {
            "type": kind,
            "seq": self._seq,
            "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "session_id": self._conversation.session_id,
        }
        self._seq += 1
        return head


class ClaudeLines:
    """Claude Code's shape, which has complete messages."""

    def __init__(
        self,
        conversation: Conversation,
        write: WriteLine,
        *,
        partial: bool,
        commands: Sequence[str] = (),
    ) -> None:
        self._conversation = conversation
        self._write = write
        self._partial = partial
        self._commands = commands
        self._started = False

    def start(self) -> None:
        """Write the opening line, once for all runs."""
        if self._started:
            return
        self._started = True
        conversation = self._conversation
        line = {
            "type": "system",
            "subtype": "init",
            "cwd": str(conversation.cwd),
            "model": conversation.settings.model,
            "tools": list(conversation.offered_tool_names),
            "permissionMode": conversation.settings.mode,
            "slash_commands": list(self._commands),
        }
        self._line(line)

    def on_event(self, event: LoopEvent) -> None:
        if isinstance(event, PlanPhase):
            self.start()
        partial = _partial_event(event) if self._partial else None
        if partial is not None:
            self._line({"type": "stream_event", "event": partial})
        if isinstance(event, MessageEnd):
            self._message(event.message)

    def end(self, result: Mapping[str, Any]) -> None:
        self._write(one_line(result))

    def _message(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._line(_assistant(message))
            return
        if isinstance(message, ToolResultMessage):
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id}
            content = [{**result, "content": message.text, "is_error": message.is_error}]
        elif isinstance(message, UserMessage) and message.origin != "user":
            content = [_block(block) for block in message.content]
        else:
            return
        line: dict[str, Any] = {"type": "user", "message": {"role": "user", "content": content}}
        if isinstance(message, UserMessage) and message.origin in ("harness", "plugin"):
            line["isSynthetic"] = True
        self._line(line)

    def _line(self, value: dict[str, Any]) -> None:
        self._write(one_line({**value, "session_id": self._conversation.session_id}))


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [_block(block) for block in message.content],
        "stop_reason": _STOP.get(message.stop_reason, message.stop_reason),
        "usage": usage_object(message.usage or Usage()),
    }
    line: dict[str, Any] = {"type": "assistant", "message": body, "parent_tool_use_id": None}
    if message.origin == "harness":
        line["isSynthetic"] = True
    return line


def _block(block: object) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ThinkingBlock(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
        case ToolCallBlock(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ImageBlock() | DocumentBlock():
            source = {"type": "asset", "asset_id": block.asset_id, "media_type": block.media_type}
            if isinstance(block, ImageBlock):
                return {"type": "image", "source": source}
            return {"type": "document", "source": source, "title": block.name}
        case CompactionBlock(text=text):
            return {"type": "compaction", "content": text}
        case _:
            return {"type": "other", "text": str(block)}


def _partial_event(event: LoopEvent) -> dict[str, Any] | None:
    match event:
        case MessageStart(message=AssistantMessage()):
            return {"type": "message_start", "message": {"role": "assistant", "content": []}}
        case MessageEnd(message=AssistantMessage()):
            return {"type": "message_stop"}
    if not isinstance(event, MessageUpdate):
        return None
    kind, _, part = event.phase.partition("_")
    if part == "end":
        return {"type": "content_block_stop", "index": event.index}
    opened: dict[str, Any] = {"type": kind, kind: ""}
    delta = {"type": f"{kind}_delta", kind: event.delta}
    if kind == "toolcall":
        opened = {"type": "tool_use", "id": event.tool_call_id, "name": event.tool_name}
        delta = {"type": "input_json_delta", "partial_json": event.delta}
    if part == "start":
        return {"type": "content_block_start", "index": event.index, "content_block": opened}
    return {"type": "content_block_delta", "index": event.index, "delta": delta}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    """The value as JSON: messages by the codec, other records field by field."""
    if isinstance(value, Message):
        return encode_message(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, LoopToolResult):
        content = [_block(block) for block in value.content]
        return {"content": content, "is_error": value.is_error, "details": dict(value.details)}
    if isinstance(value, Outcome):
        fields = _fields(value)
        fields.pop("result", None)
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, Usage):
        return dict(usage_object(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return value
