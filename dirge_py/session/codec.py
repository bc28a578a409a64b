"""Messages as JSON objects and back. Reading is tolerant; only an unknown role is refused."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast, get_args

from dirge_py.session.record import text_member, texts_in
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    Origin,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

Json = dict[str, Any]
COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The fields of `Usage` that are stored."""
Block = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | DocumentBlock | CompactionBlock
Reader = Callable[[Any], Any]


def encode_message(message: Message) -> Json:
    """The message as a JSON object, without members at their default, except those of `_ALWAYS`."""
    return {"role": message.role, **_encode(message)}


def decode_message(encoded: Any) -> Message:
    """The message that a JSON object encodes. Raises ValueError: no object, or an unknown role."""
    if not isinstance(encoded, Mapping):
        raise ValueError("a message is an object")
    role = encoded.get("role")
    if not isinstance(role, str) or role not in _MESSAGES:
        raise ValueError(f"unknown role {role!r}")
    return cast(Message, _decode(_MESSAGES[role], encoded))


def encode_usage(usage: Usage) -> Json:
    """The token counts of `COUNTS` that aren't zero."""
    return {name: count for name in COUNTS if (count := getattr(usage, name))}


def usage_counts(usage: Usage) -> Json:
    """All token counts of `COUNTS`, also zeros; `reasoning` only if a service reported it."""
    return dict.fromkeys(COUNTS[:4], 0) | encode_usage(usage)


def decode_usage(encoded: Any) -> Usage:
    """The token counts; missing ones, and values that aren't numbers, are zero."""
    counts = encoded if isinstance(encoded, Mapping) else {}
    return Usage(**{n: counts[n] for n in COUNTS if isinstance(counts.get(n), int)})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _anything(value: Any) -> Any:
    return value


def _object(value: Any) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


def _one_of(choices: Iterable[str], otherwise: str) -> Reader:
    return lambda value: value if value in choices else otherwise


def _blocks_of(*allowed: type[Block]) -> Reader:
    """A function that reads blocks of these types and leaves others out."""

    def read(content: Any) -> tuple[Block, ...]:
        if isinstance(content, str):
            return (TextBlock(content),)
        blocks = []
        for block in content if isinstance(content, Iterable) else ():
            kind = _BLOCKS.get(text_member(block, "type"))
            if kind in allowed:
                blocks.append(_decode(kind, block))
        return tuple(blocks)

    return read


_SHOWN = (TextBlock, ImageBlock, DocumentBlock)
_BLOCKS: Mapping[str, type[Block]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "toolCall": ToolCallBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
    "compaction": CompactionBlock,
}
_TYPES = {kind: name for name, kind in _BLOCKS.items()}
_MESSAGES: Mapping[str, type[Message]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "toolResult": ToolResultMessage,
    "tool": ToolResultMessage,
    "system": SystemMessage,
    "custom": CustomMessage,
}
_READERS: Mapping[type, Mapping[str, Reader]] = {
    TextBlock: {"text": _text},
    ThinkingBlock: {"text": _text, "signature": _text_or_none, "redacted": _text_or_none},
    ToolCallBlock: {"id": _text, "name": _text, "arguments": _anything},
    ImageBlock: {"asset_id": _text, "media_type": _text},
    DocumentBlock: {"asset_id": _text, "media_type": _text, "name": _text},
    CompactionBlock: {"data": _object, "text": _text},
    UserMessage: {
        "content": _blocks_of(*_SHOWN),
        "origin": _one_of(get_args(Origin), "user"),
        "attached": texts_in,
    },
    AssistantMessage: {
        "content": _blocks_of(TextBlock, ThinkingBlock, ToolCallBlock, CompactionBlock),
        "stop_reason": _one_of(get_args(StopReason), "stop"),
        "origin": _one_of(("model", "harness"), "model"),
        "error_message": _text_or_none,
        "error_kind": _text_or_none,
        "model": _text,
        "withheld": _text,
        # All zeros mean "reported, nothing used"; None means "not reported".
        "usage": lambda value: None if value is None else decode_usage(value),
    },
    ToolResultMessage: {
        "tool_call_id": _text,
        "tool_name": _text,
        "is_error": bool,
        "content": _blocks_of(*_SHOWN),
        "details": _object,
    },
    SystemMessage: {"content": _blocks_of(TextBlock)},
    CustomMessage: {"kind": _text, "payload": _anything},
}
"""How each stored member of a block or a message is read."""
_WRITERS: Mapping[str, Reader] = {"attached": list, "details": dict, "usage": encode_usage}
_ALWAYS = frozenset({"content", "is_error", "origin", "payload", "stop_reason"})
"""Members that are stored even if they have their default value."""
_DEFAULTS: Mapping[type, Mapping[str, Any]] = {
    kind: {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(kind)
    }
    for kind in _READERS
}


def _encode(value: Message | Block) -> Json:
    kind = type(value)
    encoded: Json = {}
    for name in _READERS[kind]:
        member = getattr(value, name)
        if name == "content":
            encoded[name] = _content(member, is_list=kind is AssistantMessage)
        elif name in _ALWAYS or member != _DEFAULTS[kind][name]:
            encoded[name] = _WRITERS.get(name, _anything)(member)
    return encoded


def _content(blocks: tuple[Block, ...], *, is_list: bool) -> str | list[Json]:
    """The blocks as JSON; a single text block as its text, which is shorter and easier to read."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock) and not is_list:
        return blocks[0].text
    return [{"type": _TYPES[type(block)], **_encode(block)} for block in blocks]


def _decode(kind: type, encoded: Mapping[str, Any]) -> Any:
    return kind(**{name: read(encoded.get(name)) for name, read in _READERS[kind].items()})
