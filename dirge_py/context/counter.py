"""How many tokens something will cost as input, guessed high."""

import json
from collections.abc import Sequence
from typing import Any

from dirge_py.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from dirge_py.streams import ToolSpec

# English and code have about 4 bytes to a token; 3.5 leaves room for what is denser. Counting bytes
# and not characters keeps the guess high for scripts whose characters are a token each.
_BYTES_PER_TOKEN = 3.5
_IMAGE_TOKENS = 1600
_MESSAGE_TOKENS = 4


def estimate_tokens(
    messages: Sequence[Message], *, system_prompt: str = "", tools: Sequence[ToolSpec] = ()
) -> int:
    """Tokens of one request: prompt, tools and messages with all that is in them.

    Call arguments, thinking and schemas count; messages no model sees do not. Never for billing.
    """
    total = estimate_text(system_prompt)
    total += sum(_tool_tokens(tool) for tool in tools)
    return total + sum(_message_tokens(message) for message in messages)


def estimate_text(text: str) -> int:
    """Tokens of a text, 1 per 3.5 bytes of UTF-8, rounded up."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -int(-size // _BYTES_PER_TOKEN)


def _tool_tokens(tool: ToolSpec) -> int:
    return estimate_text(tool.name + tool.description + _as_json(tool.parameters))


def _message_tokens(message: Message) -> int:
    if isinstance(message, CustomMessage):
        return 0
    if isinstance(message, AssistantMessage) and not message.content:
        return 0
    return _MESSAGE_TOKENS + sum(_block_tokens(block) for block in message.content)


def _block_tokens(
    block: TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | CompactionBlock,
) -> int:
    match block:
        case TextBlock():
            return estimate_text(block.text)
        case ThinkingBlock():
            return estimate_text(block.text + (block.redacted or ""))
        case ToolCallBlock():
            return estimate_text(block.name + _as_json(block.arguments))
        case ImageBlock():
            return _IMAGE_TOKENS
        case CompactionBlock():
            return estimate_text(_as_json(dict(block.data)))


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=dict, separators=(",", ":"))
