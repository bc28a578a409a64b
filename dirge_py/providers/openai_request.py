"""A Chat Completions request, as OpenAI and everything compatible with it reads it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from dirge_py.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.history import Sendable, sendable
from dirge_py.providers.images import image_base64, missing_image
from dirge_py.providers.memory import Memory
from dirge_py.streams import LlmContext, StreamOptions, ThinkingLevel, ToolSpec

EFFORTS: Mapping[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}

_SEE_BELOW = "[The picture follows in the next message.]"


def is_openai(base_url: str) -> bool:
    """Whether this is OpenAI itself, which is stricter and newer than those who follow it."""
    return urlsplit(base_url).hostname == "api.openai.com"


def chat_request(
    context: LlmContext,
    options: StreamOptions,
    *,
    model: str,
    card: ModelCard,
    official: bool,
    max_output_tokens: int | None,
    memory: Memory,
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches.

    `memory` gives a message that it knows the very object of the last request.

    OpenAI itself wants `max_completion_tokens`; compatible servers know the older `max_tokens`.
    """
    role = "developer" if official and card.thinking else "system"
    body: dict[str, Any] = {"model": model, "messages": _messages(context, role, memory)}
    if context.tools:
        body["tools"] = [_tool(tool) for tool in context.tools]
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    if max_output_tokens is not None:
        body["max_completion_tokens" if official else "max_tokens"] = max_output_tokens
    effort = _effort(options.thinking_level, card, official=official, tools=context.tools)
    if effort is not None:
        body["reasoning_effort"] = effort
    return body


def _effort(
    level: ThinkingLevel, card: ModelCard, *, official: bool, tools: Sequence[ToolSpec]
) -> str | None:
    if official and not card.thinking:
        return None
    if official and tools and not card.effort_with_tools:
        # These models think unasked, and refuse tools on this interface unless told not to.
        return "none"
    return EFFORTS.get(level)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def _messages(context: LlmContext, system_role: str, memory: Memory) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if context.system_prompt.strip():
        messages.append({"role": system_role, "content": context.system_prompt})
    shown_later: list[ImageBlock] = []
    for message in sendable(context.messages):
        if isinstance(message, AssistantMessage) and not (message.text or message.calls):
            continue  # nothing but what another service folded
        if shown_later and not isinstance(message, ToolResultMessage):
            messages.append(_pictures(shown_later, context.asset_dir))
            shown_later = []
        if isinstance(message, ToolResultMessage):
            shown_later += [b for b in message.content if isinstance(b, ImageBlock)]
        if any(isinstance(block, ImageBlock) for block in message.content):
            # Read anew: a picture's file may be gone by now, and is too large to keep.
            messages.append(_message(message, context.asset_dir))
        else:
            messages.append(memory.of(message, _message))
    if shown_later:
        messages.append(_pictures(shown_later, context.asset_dir))
    return messages


def _message(message: Sendable, asset_dir: str | None = None) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": _user_content(message, asset_dir)}
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            # Only text is allowed here; pictures come behind the last result of the turn.
            texts = [b.text if isinstance(b, TextBlock) else _SEE_BELOW for b in message.content]
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(text for text in texts if text) or "(no output)",
            }


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant", "content": joined_text(message.content) or None}
    calls = [_call(call) for call in message.calls]
    if calls:
        written["tool_calls"] = calls
    return written


def _call(call: ToolCallBlock) -> dict[str, Any]:
    arguments = call.arguments
    if not isinstance(arguments, dict):
        # Servers that render prompts from templates parse this; what did not parse is wrapped.
        arguments = {"unparsed": arguments}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


def _user_content(message: UserMessage, asset_dir: str | None) -> str | list[dict[str, Any]]:
    if all(isinstance(block, TextBlock) for block in message.content):
        return message.text
    return [_part(block, asset_dir) for block in message.content if _says_something(block)]


def _pictures(images: Sequence[ImageBlock], asset_dir: str | None) -> dict[str, Any]:
    return {"role": "user", "content": list(_parts(images, asset_dir))}


def _parts(images: Sequence[ImageBlock], asset_dir: str | None) -> Iterator[dict[str, Any]]:
    yield {"type": "text", "text": "The pictures of the tool results above:"}
    for image in images:
        yield _part(image, asset_dir)


def _part(block: TextBlock | ImageBlock, asset_dir: str | None) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    encoded = image_base64(block, asset_dir)
    if encoded is None:
        return {"type": "text", "text": missing_image(block)}
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{encoded}"}}


def _says_something(block: TextBlock | ImageBlock) -> bool:
    return isinstance(block, ImageBlock) or bool(block.text)
