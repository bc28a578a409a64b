"""A Messages request: roles that alternate, thinking handed back unread, and a cached prefix."""

from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.providers.assets import Asset, Assets, kind_of
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.history import Sendable, sendable
from dirge_py.streams import LlmContext, StreamOptions, ThinkingBudgets, ThinkingLevel, ToolSpec

_BUDGETS: Mapping[ThinkingLevel, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 4096,
    "high": 16384,
    "xhigh": 16384,
}
_EFFORTS: Mapping[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}
_LEAST_BUDGET = 1024
_REPLY_TOKENS = 32_000
_UNKNOWN_MODEL_REPLY_TOKENS = 8192
_CACHED = {"type": "ephemeral"}


def messages_request(
    context: LlmContext,
    options: StreamOptions,
    *,
    model: str,
    card: ModelCard,
    max_output_tokens: int | None,
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for the cache.

    Three marks say where to cache: behind the tools, behind the system prompt, and behind the last
    user message; the next request finds the longest prefix that was marked before.
    """
    history = sendable(context.messages)
    level = options.thinking_level
    if not card.adaptive_thinking and not _can_think(history):
        level = "off"
    reply_tokens = max_output_tokens or _reply_tokens(card)
    body: dict[str, Any] = {"model": model, "stream": True}
    body |= _thinking(level, options.thinking_budgets, card, reply_tokens)
    if context.tools:
        body["tools"] = _tools(context.tools)
    if context.system_prompt.strip():
        body["system"] = [{"type": "text", "text": context.system_prompt, "cache_control": _CACHED}]
    assets = Assets(folder=context.asset_dir, reads_documents=card.images)
    body["messages"] = _messages(history, assets, with_thinking="thinking" in body)
    user_id = options.metadata.get("user_id")
    if isinstance(user_id, str):
        body["metadata"] = {"user_id": user_id}
    return body


def _reply_tokens(card: ModelCard) -> int:
    if card.max_output_tokens is None:
        return _UNKNOWN_MODEL_REPLY_TOKENS
    return min(card.max_output_tokens, _REPLY_TOKENS)


def _thinking(
    level: ThinkingLevel, budgets: ThinkingBudgets, card: ModelCard, reply_tokens: int
) -> dict[str, Any]:
    """`max_tokens` and what goes with it. A budget must be smaller, so it is put on top."""
    if level == "off" or not card.thinking:
        return {"max_tokens": reply_tokens}
    if card.adaptive_thinking:
        return {
            "max_tokens": reply_tokens,
            # Without `display` these models think silently: minutes of nothing on the screen.
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": _EFFORTS[level]},
        }
    budget = max(_LEAST_BUDGET, _budget(level, budgets))
    max_tokens = budget + reply_tokens
    if card.max_output_tokens is not None and max_tokens > card.max_output_tokens:
        max_tokens = card.max_output_tokens
        budget = max(_LEAST_BUDGET, min(budget, max_tokens // 2))
    if budget >= max_tokens:
        return {"max_tokens": reply_tokens}
    return {"max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _budget(level: ThinkingLevel, budgets: ThinkingBudgets) -> int:
    chosen: Mapping[ThinkingLevel, int | None] = {
        "minimal": budgets.minimal,
        "low": budgets.low,
        "medium": budgets.medium,
        "high": budgets.high,
        "xhigh": budgets.high,
    }
    return chosen[level] or _BUDGETS[level]


def _can_think(history: Sequence[Sendable]) -> bool:
    """Whether the turn under way may go on with thinking.

    Inside a tool loop the service insists on the thinking that led to the calls. A loop that began
    without it (another model, another level) goes on without it.
    """
    answers = (m for m in reversed(history) if isinstance(m, AssistantMessage))
    last = next(answers, None)
    if last is None or not last.calls:
        return True
    first = next(block for block in last.content if not isinstance(block, CompactionBlock))
    return isinstance(first, ThinkingBlock)


def _tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in tools
    ]
    written[-1]["cache_control"] = _CACHED
    return written


def _messages(
    history: Sequence[Sendable], assets: Assets, *, with_thinking: bool
) -> list[dict[str, Any]]:
    """Roles alternate: results and user messages that follow each other are one message.

    What results show stands behind the last of them: the service wants all results first.
    """
    messages: list[dict[str, Any]] = []
    shown_later: list[Asset] = []
    for message in history:
        if shown_later and not isinstance(message, ToolResultMessage):
            _append(messages, "user", _parts(shown_later, assets))
            shown_later = []
        if isinstance(message, ToolResultMessage):
            shown_later += [b for b in message.content if not isinstance(b, TextBlock)]
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        _append(messages, role, _content(message, assets, with_thinking=with_thinking))
    if shown_later:
        _append(messages, "user", _parts(shown_later, assets))
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [_text("[The beginning is left out.]")]})
    for written in reversed(messages):
        if written["role"] == "user":
            written["content"][-1]["cache_control"] = _CACHED
            break
    return messages


def _append(messages: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    else:
        messages.append({"role": role, "content": content})


def _content(message: Sendable, assets: Assets, *, with_thinking: bool) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return _parts(message.content, assets)
        case ToolResultMessage():
            return [_result(message)]
        case AssistantMessage():
            return [
                _block(block)
                for block in message.content
                if with_thinking or not isinstance(block, ThinkingBlock)
            ]


def _result(message: ToolResultMessage) -> dict[str, Any]:
    texts = [
        b.text if isinstance(b, TextBlock) else f"[The {kind_of(b)} follows the results.]"
        for b in message.content
    ]
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": [_text(text) for text in texts if text.strip()] or [_text("(no output)")],
    }
    if message.is_error:
        result["is_error"] = True
    return result


def _parts(blocks: Sequence[TextBlock | Asset], assets: Assets) -> list[dict[str, Any]]:
    return [
        _part(block, assets)
        for block in blocks
        if not isinstance(block, TextBlock) or block.text.strip()
    ]


def _part(block: TextBlock | Asset, assets: Assets) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return _text(block.text)
    encoded = assets.encoded(block)
    if encoded is None:
        return _text(assets.missing(block))
    source = {"type": "base64", "media_type": block.media_type, "data": encoded}
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": source}
    title = {"title": block.name} if block.name else {}
    return {"type": "document", "source": source, **title}


def _block(block: AssistantBlock) -> dict[str, Any]:
    match block:
        case TextBlock():
            return _text(block.text)
        case ThinkingBlock(redacted=str(redacted)):
            return {"type": "redacted_thinking", "data": redacted}
        case ThinkingBlock():
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case CompactionBlock():
            return dict(block.data)
        case ToolCallBlock():
            arguments = block.arguments
            if not isinstance(arguments, dict):
                # What did not parse is wrapped: only an object is accepted here.
                arguments = {"unparsed": arguments}
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
