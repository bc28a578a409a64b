"""Messages as plain JSON objects and back.

Reading is tolerant: unknown members and blocks are skipped, missing ones get the vocabulary's
defaults, the old role `tool` is a tool result. Only an unknown role is refused.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, assert_never, cast, get_args

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
_SHOWN = (TextBlock, ImageBlock, DocumentBlock)
Block = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | DocumentBlock | CompactionBlock


def encode_message(message: Message) -> Json:
    """The message as a JSON object; members at their default are left out, but for `origin`."""
    match message:
        case UserMessage():
            encoded: Json = {"content": _content(message.content), "origin": message.origin}
            return {"role": "user", **encoded, **_given(attached=list(message.attached))}
        case AssistantMessage():
            return _encode_assistant(message)
        case ToolResultMessage():
            return {
                "role": "toolResult",
                "tool_call_id": message.tool_call_id,
                "tool_name": message.tool_name,
                "is_error": message.is_error,
                "content": _content(message.content),
                **_given(details=dict(message.details)),
            }
        case SystemMessage():
            return {"role": "system", "content": _content(message.content)}
        case CustomMessage():
            return {"role": "custom", "kind": message.kind, "payload": message.payload}
        case _:
            assert_never(message)


def decode_message(encoded: Any) -> Message:
    """The message an object stands for.

    Raises:
        ValueError: it is no object, or its role is unknown.
    """
    if not isinstance(encoded, Mapping):
        raise ValueError("a message is an object")
    role = encoded.get("role")
    decode = _DECODERS.get(role) if isinstance(role, str) else None
    if decode is None:
        raise ValueError(f"unknown role {role!r}")
    return decode(encoded)


def encode_usage(usage: Usage) -> Json:
    """The four counts, zeros left out."""
    return _given(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
    )


def decode_usage(encoded: Any) -> Usage:
    """The counts that are there; what is no number counts as zero."""
    counts = encoded if isinstance(encoded, Mapping) else {}
    return Usage(
        input=_whole(counts.get("input")),
        output=_whole(counts.get("output")),
        cache_read=_whole(counts.get("cache_read")),
        cache_write=_whole(counts.get("cache_write")),
    )


def _encode_assistant(message: AssistantMessage) -> Json:
    return {
        "role": "assistant",
        "content": [_encode_block(block) for block in message.content],
        "stop_reason": message.stop_reason,
        "origin": message.origin,
        **_given(
            error_message=message.error_message,
            error_kind=message.error_kind,
            model=message.model,
            withheld=message.withheld,
        ),
        # All zeros say "reported, nothing used", which differs from None: nothing reported.
        **({} if message.usage is None else {"usage": encode_usage(message.usage)}),
    }


def _content(blocks: tuple[Block, ...]) -> str | list[Json]:
    """One text block alone is written as its text: that is most messages, and easier to read."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [_encode_block(block) for block in blocks]


def _encode_block(block: Block) -> Json:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock():
            opaque = {"signature": block.signature, "redacted": block.redacted}
            kept = {name: value for name, value in opaque.items() if value is not None}
            return {"type": "thinking", "text": block.text, **kept}
        case ToolCallBlock():
            return {
                "type": "toolCall",
                "id": block.id,
                "name": block.name,
                "arguments": block.arguments,
            }
        case ImageBlock():
            return {"type": "image", "asset_id": block.asset_id, "media_type": block.media_type}
        case DocumentBlock():
            reference = {"asset_id": block.asset_id, "media_type": block.media_type}
            return {"type": "document", **reference, **_given(name=block.name)}
        case CompactionBlock():
            return {"type": "compaction", "data": dict(block.data), **_given(text=block.text)}


def _decode_user(encoded: Mapping[str, Any]) -> UserMessage:
    attached = encoded.get("attached")
    return UserMessage(
        content=cast(tuple[UserBlock, ...], _blocks(encoded, *_SHOWN)),
        origin=_one_of(get_args(Origin), encoded.get("origin"), "user"),
        attached=tuple(map(str, attached)) if isinstance(attached, list) else (),
    )


def _decode_assistant(encoded: Mapping[str, Any]) -> AssistantMessage:
    blocks = _blocks(encoded, TextBlock, ThinkingBlock, ToolCallBlock, CompactionBlock)
    origin: Literal["model", "harness"] = (
        "harness" if encoded.get("origin") == "harness" else "model"
    )
    return AssistantMessage(
        content=cast(tuple[AssistantBlock, ...], blocks),
        stop_reason=_one_of(get_args(StopReason), encoded.get("stop_reason"), "stop"),
        error_message=_text_or_none(encoded.get("error_message")),
        error_kind=_text_or_none(encoded.get("error_kind")),
        model=_text(encoded.get("model")),
        usage=decode_usage(encoded["usage"]) if "usage" in encoded else None,
        origin=origin,
        withheld=_text(encoded.get("withheld")),
    )


def _decode_tool_result(encoded: Mapping[str, Any]) -> ToolResultMessage:
    details = encoded.get("details")
    return ToolResultMessage(
        tool_call_id=_text(encoded.get("tool_call_id")),
        tool_name=_text(encoded.get("tool_name")),
        content=cast(tuple[ResultBlock, ...], _blocks(encoded, *_SHOWN)),
        details=details if isinstance(details, dict) else {},
        is_error=bool(encoded.get("is_error", False)),
    )


def _decode_system(encoded: Mapping[str, Any]) -> SystemMessage:
    return SystemMessage(content=cast(tuple[TextBlock, ...], _blocks(encoded, TextBlock)))


def _decode_custom(encoded: Mapping[str, Any]) -> CustomMessage:
    return CustomMessage(kind=_text(encoded.get("kind")), payload=encoded.get("payload"))


_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "user": _decode_user,
    "assistant": _decode_assistant,
    "toolResult": _decode_tool_result,
    "tool": _decode_tool_result,
    "system": _decode_system,
    "custom": _decode_custom,
}


def _blocks(encoded: Mapping[str, Any], *allowed: type[Block]) -> tuple[Block, ...]:
    content = encoded.get("content")
    if isinstance(content, str):
        return (TextBlock(content),)
    if not isinstance(content, Iterable):
        return ()
    decoded = (_decode_block(block) for block in content if isinstance(block, Mapping))
    return tuple(block for block in decoded if isinstance(block, allowed))


def _decode_block(encoded: Mapping[str, Any]) -> Block | None:
    match encoded.get("type"):
        case "text":
            return TextBlock(_text(encoded.get("text")))
        case "thinking":
            return ThinkingBlock(
                text=_text(encoded.get("text")),
                signature=_text_or_none(encoded.get("signature")),
                redacted=_text_or_none(encoded.get("redacted")),
            )
        case "toolCall":
            return ToolCallBlock(
                id=_text(encoded.get("id")),
                name=_text(encoded.get("name")),
                arguments=encoded.get("arguments"),
            )
        case "image":
            return ImageBlock(
                asset_id=_text(encoded.get("asset_id")),
                media_type=_text(encoded.get("media_type")),
            )
        case "document":
            return DocumentBlock(
                asset_id=_text(encoded.get("asset_id")),
                media_type=_text(encoded.get("media_type")),
                name=_text(encoded.get("name")),
            )
        case "compaction":
            data = encoded.get("data")
            return CompactionBlock(
                data=data if isinstance(data, dict) else {}, text=_text(encoded.get("text"))
            )
        case _:
            return None


def _given(**members: Any) -> Json:
    """The members that say something."""
    return {name: value for name, value in members.items() if value not in (None, "", 0, [], {})}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _one_of(allowed: tuple[Any, ...], value: Any, otherwise: Any) -> Any:
    return value if value in allowed else otherwise
