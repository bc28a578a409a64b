"""A Chat Completions request, as OpenAI and everything compatible with it reads it."""

import json
from collections.abc import Mapping, Sequence
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
from dirge_py.providers.assets import Asset, Assets, kind_of
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.history import Sendable, sendable
from dirge_py.providers.memory import Memory
from dirge_py.streams import LlmContext, StreamOptions, ThinkingLevel, ToolSpec

EFFORTS: Mapping[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


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
    assets = Assets(folder=context.asset_dir, reads_documents=card.images)
    body: dict[str, Any] = {"model": model, "messages": _messages(context, role, assets, memory)}
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


def _messages(
    context: LlmContext, system_role: str, assets: Assets, memory: Memory
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if context.system_prompt.strip():
        messages.append({"role": system_role, "content": context.system_prompt})
    shown_later: list[Asset] = []
    for message in sendable(context.messages):
        if isinstance(message, AssistantMessage) and not (message.text or message.calls):
            continue  # nothing but what another service folded
        if shown_later and not isinstance(message, ToolResultMessage):
            messages.append(_shown(shown_later, assets))
            shown_later = []
        if isinstance(message, ToolResultMessage):
            shown_later += [b for b in message.content if not isinstance(b, TextBlock)]
        if isinstance(message, UserMessage) and not _is_text(message):
            # Read anew: an asset's file may be gone by now, and is too large to keep.
            messages.append({"role": "user", "content": _parts(message.content, assets)})
        else:
            messages.append(memory.of(message, _message))
    if shown_later:
        messages.append(_shown(shown_later, assets))
    return messages


def _is_text(message: UserMessage) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _message(message: Sendable) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            # Only text is allowed here; what else there is comes behind the turn's last result.
            texts = [b.text if isinstance(b, TextBlock) else _see_below(b) for b in message.content]
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(text for text in texts if text) or "(no output)",
            }


def _see_below(asset: Asset) -> str:
    return f"[The {kind_of(asset)} follows in the next message.]"


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


def _shown(assets: Sequence[Asset], kept: Assets) -> dict[str, Any]:
    kinds = " and ".join(f"{kind}s" for kind in dict.fromkeys(map(kind_of, assets)))
    title = TextBlock(f"The {kinds} of the tool results above:")
    return {"role": "user", "content": _parts([title, *assets], kept)}


def _parts(blocks: Sequence[TextBlock | Asset], assets: Assets) -> list[dict[str, Any]]:
    return [_part(b, assets) for b in blocks if not isinstance(b, TextBlock) or b.text]


def _part(block: TextBlock | Asset, assets: Assets) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    encoded = assets.encoded(block)
    if encoded is None:
        return {"type": "text", "text": assets.missing(block)}
    url = f"data:{block.media_type};base64,{encoded}"
    if isinstance(block, ImageBlock):
        return {"type": "image_url", "image_url": {"url": url}}
    file = {"filename": block.name or "document.pdf", "file_data": url}
    return {"type": "file", "file": file}
