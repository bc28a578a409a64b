"""Messages as JSON objects and back. Reading is tolerant; only an unknown role is refused."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, assert_never, cast, get_args

from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    Origin,
    ResultBlock,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserBlock,
    UserMessage,
)

Json = dict[str, Any]
COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The fields of `Usage` that are stored."""
_SHOWN = (TextBlock, ImageBlock, DocumentBlock)
Block = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | DocumentBlock | CompactionBlock


def encode_message(message: Message) -> Json:
    """The message as a JSON object, without members at their default, except `origin`."""
    match message:
        case UserMessage():
            encoded: Json = {"content": _content(message.content), "origin": message.origin}
            return {"role": "user", **encoded, **_nonempty(attached=list(message.attached))}
        case AssistantMessage():
            return _encode_assistant(message)
        case ToolResultMessage():
            return {
                "role": "toolResult",
                "tool_call_id": message.tool_call_id,
                "tool_name": message.tool_name,
                "is_error": message.is_error,
                "content": _content(message.content),
                **_nonempty(details=dict(message.details)),
            }
        case SystemMessage():
            return {"role": "system", "content": _content(message.content)}
        case CustomMessage():
            return {"role": "custom", "kind": message.kind, "payload": message.payload}
        case _:
            assert_never(message)


def decode_message(encoded: Any) -> Message:
    """The message that a JSON object encodes. Raises ValueError: no object, or an unknown role."""
    if not isinstance(encoded, Mapping):
        raise ValueError("a message is an object")
    role = encoded.get("role")
    if not isinstance(role, str) or role not in _DECODERS:
        raise ValueError(f"unknown role {role!r}")
    return _DECODERS[role](encoded)


def encode_usage(usage: Usage) -> Json:
    """The token counts of `COUNTS` that aren't zero."""
    return _nonempty(**{name: getattr(usage, name) for name in COUNTS})


def usage_counts(usage: Usage) -> Json:
    """All token counts of `COUNTS`, also zeros; `reasoning` only if a service reported it."""
    return dict.fromkeys(COUNTS[:4], 0) | encode_usage(usage)


def decode_usage(encoded: Any) -> Usage:
    """The token counts; missing ones, and values that aren't numbers, are zero."""
    counts = encoded if isinstance(encoded, Mapping) else {}
    return Usage(**{n: counts[n] for n in COUNTS if isinstance(counts.get(n), int)})


def _encode_assistant(message: AssistantMessage) -> Json:
    return {
        "role": "assistant",
        "content": [_encode_block(block) for block in message.content],
        "stop_reason": message.stop_reason,
        "origin": message.origin,
        **_nonempty(
            error_message=message.error_message,
            error_kind=message.error_kind,
            model=message.model,
            withheld=message.withheld,
        ),
        # All zeros mean "reported, nothing used"; None means "not reported".
        **({} if message.usage is None else {"usage": encode_usage(message.usage)}),
    }


def _content(blocks: tuple[Block, ...]) -> str | list[Json]:
    """The blocks as JSON; a single text block as its text, which is shorter and easier to read."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [_encode_block(block) for block in blocks]


def _decode_user(encoded: Mapping[str, Any]) -> UserMessage:
    attached, origin = encoded.get("attached"), encoded.get("origin")
    return UserMessage(
        content=cast(tuple[UserBlock, ...], _blocks(encoded, *_SHOWN)),
        origin=cast(Origin, origin if origin in get_args(Origin) else "user"),
        attached=tuple(map(str, attached)) if isinstance(attached, list) else (),
    )


def _decode_assistant(encoded: Mapping[str, Any]) -> AssistantMessage:
    blocks = _blocks(encoded, TextBlock, ThinkingBlock, ToolCallBlock, CompactionBlock)
    reason = encoded.get("stop_reason")
    return AssistantMessage(
        content=cast(tuple[AssistantBlock, ...], blocks),
        stop_reason=cast(StopReason, reason if reason in get_args(StopReason) else "stop"),
        error_message=_text_or_none(encoded.get("error_message")),
        error_kind=_text_or_none(encoded.get("error_kind")),
        model=_text(encoded.get("model")),
        usage=decode_usage(encoded["usage"]) if "usage" in encoded else None,
        origin="harness" if encoded.get("origin") == "harness" else "model",
        withheld=_text(encoded.get("withheld")),
    )


def _decode_tool_result(encoded: Mapping[str, Any]) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=_text(encoded.get("tool_call_id")),
        tool_name=_text(encoded.get("tool_name")),
        content=cast(tuple[ResultBlock, ...], _blocks(encoded, *_SHOWN)),
        details=_object(encoded.get("details")),
        is_error=bool(encoded.get("is_error", False)),
    )


_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "user": _decode_user,
    "assistant": _decode_assistant,
    "toolResult": _decode_tool_result,
    "tool": _decode_tool_result,
    "system": lambda encoded: SystemMessage(
        content=cast(tuple[TextBlock, ...], _blocks(encoded, TextBlock))
    ),
    "custom": lambda encoded: CustomMessage(
        kind=_text(encoded.get("kind")), payload=encoded.get("payload")
    ),
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: Any) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


_BLOCKS: Mapping[str, tuple[type[Block], Mapping[str, Callable[[Any], Any]]]] = {
    "text": (TextBlock, {"text": _text}),
    "thinking": (
        ThinkingBlock,
        {"text": _text, "signature": _text_or_none, "redacted": _text_or_none},
    ),
    "toolCall": (ToolCallBlock, {"id": _text, "name": _text, "arguments": lambda v: v}),
    "image": (ImageBlock, {"asset_id": _text, "media_type": _text}),
    "document": (DocumentBlock, {"asset_id": _text, "media_type": _text, "name": _text}),
    "compaction": (CompactionBlock, {"data": _object, "text": _text}),
}
"""Each type of block: its class, and how each member is read."""
_TYPES = {kind: (name, members) for name, (kind, members) in _BLOCKS.items()}
_LEFT_OUT: Mapping[type[Block], Mapping[str, Any]] = {
    ThinkingBlock: {"signature": None, "redacted": None},
    DocumentBlock: {"name": ""},
    CompactionBlock: {"text": ""},
}
"""Members that are omitted when they have this value."""


def _encode_block(block: Block) -> Json:
    name, members = _TYPES[type(block)]
    encoded = {"type": name, **{member: getattr(block, member) for member in members}}
    for member, default in _LEFT_OUT.get(type(block), {}).items():
        if encoded[member] == default:
            del encoded[member]
    return encoded


def _blocks(encoded: Mapping[str, Any], *allowed: type[Block]) -> tuple[Block, ...]:
    content = encoded.get("content")
    if isinstance(content, str):
        return (TextBlock(content),)
    blocks = []
    for block in content if isinstance(content, Iterable) else ():
        name = block.get("type") if isinstance(block, Mapping) else None
        kind, members = _BLOCKS.get(name, (None, {})) if isinstance(name, str) else (None, {})
        if kind in allowed:
            blocks.append(kind(**{m: decode(block.get(m)) for m, decode in members.items()}))
    return tuple(blocks)


def _nonempty(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value not in (None, "", 0, [], {})}
