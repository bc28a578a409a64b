"""A Messages request: roles that alternate, thinking handed back unread, and a cached prefix."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from dirge_py.providers.anthropic_cache import Blocks, mark
from dirge_py.providers.anthropic_schema import closed
from dirge_py.providers.assets import Asset, Assets, assets_for
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.history import Sendable, sendable
from dirge_py.providers.shown import Entry, Shown, result_texts, with_shown
from dirge_py.providers.thinking import budget, effort
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    StreamOptions,
    SystemText,
    ThinkingBudgets,
    ThinkingLevel,
    ToolChoice,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

_LEAST_BUDGET = 1024
_REPLY_TOKENS = 32_000
_UNKNOWN_MODEL_REPLY_TOKENS = 8192
# What other services seal is no base64, and would be refused.
_SIGNATURE = re.compile(r"[A-Za-z0-9+/=_-]+")


def messages_request(
    context: LlmContext,
    options: StreamOptions,
    *,
    model: str,
    card: ModelCard,
    max_output_tokens: int | None,
    cache_ttl: str | None = None,
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for the cache.

    `cache_ttl` is `5m` or `1h`; None leaves it to the service.
    """
    history = sendable([_readable(message) for message in context.messages])
    choice = _choice(options.tool_choice, card) if context.tools else None
    is_forced = choice is not None and choice["type"] in {"any", "tool"}
    level = options.thinking_level
    if is_forced or (not card.adaptive_thinking and not _can_think(history)):
        level = "off"
    elif level == "off" and card.thinks_always:
        # As little as it lets itself be told to; and what it thinks is heard.
        level = "minimal"
    body: dict[str, Any] = {"model": model, "stream": True}
    reply_tokens = max_output_tokens or _reply_tokens(card)
    body |= _thinking(level, options.thinking_budgets, card, reply_tokens)
    tools = _tools(context.tools)
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    system = _system(context)
    if system:
        body["system"] = system
    assets = assets_for(card, context.asset_dir)
    thinks = body.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    written = _Messages(assets, with_thinking=thinks)
    body["messages"] = written.of(history)
    mark(tools=tools, system=system, messages=written.stable, cache_ttl=cache_ttl)
    if options.response_schema is not None:
        shape = {"type": "json_schema", "schema": closed(options.response_schema.schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": shape}
    user_id = options.metadata.get("user_id")
    if isinstance(user_id, str):
        body["metadata"] = {"user_id": user_id}
    return body


def _choice(choice: ToolChoice, card: ModelCard) -> dict[str, Any] | None:
    """None where nothing is said: the model decides, also if it thinks whatever it is told."""
    if choice == "none":
        return {"type": "none"}
    if choice == "auto" or card.thinks_always:
        return None
    return (
        {"type": "tool", "name": choice.name} if isinstance(choice, NamedTool) else {"type": "any"}
    )


def _system(context: LlmContext) -> list[dict[str, Any]]:
    """In two parts where the first outlives the second: each is cached by itself."""
    prompt = context.system_prompt
    stable = prompt.stable_chars if isinstance(prompt, SystemText) else 0
    parts = (prompt[:stable], prompt[stable:])
    return [_text(part) for part in parts if part.strip()]


def _reply_tokens(card: ModelCard) -> int:
    if card.max_output_tokens is None:
        return _UNKNOWN_MODEL_REPLY_TOKENS
    return min(card.max_output_tokens, _REPLY_TOKENS)


def _thinking(
    level: ThinkingLevel, budgets: ThinkingBudgets, card: ModelCard, reply_tokens: int
) -> dict[str, Any]:
    """`max_tokens` and what goes with it. Thinking counts, so room for it is put on top."""
    if level == "off" or not card.thinking:
        # Unasked, newer models think.
        unasked = {"thinking": {"type": "disabled"}} if card.adaptive_thinking else {}
        return {"max_tokens": reply_tokens, **unasked}
    tokens = max(_LEAST_BUDGET, budget(level, budgets))
    max_tokens = tokens + reply_tokens
    if card.max_output_tokens is not None and max_tokens > card.max_output_tokens:
        max_tokens = card.max_output_tokens
        tokens = max(_LEAST_BUDGET, min(tokens, max_tokens // 2))
    if card.adaptive_thinking:
        # Without `display` these models think silently: minutes of nothing on the screen.
        thinking: dict[str, Any] = {"type": "adaptive", "display": "summarized"}
        if card.binds_thinking:
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        word = effort(level, card.efforts)
        asked = {"output_config": {"effort": word}} if word is not None else {}
        return {"max_tokens": max_tokens, "thinking": thinking, **asked}
    if tokens >= max_tokens:
        return {"max_tokens": reply_tokens}
    return {"max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": tokens}}


def _readable(message: Message) -> Message:
    """The message without what this service did not sign or fold."""
    if not isinstance(message, AssistantMessage):
        return message
    content = tuple(block for block in message.content if not _is_foreign(block))
    return message if content == message.content else replace(message, content=content)


def _is_foreign(block: AssistantBlock) -> bool:
    if isinstance(block, CompactionBlock):
        return "content" not in block.data
    if not isinstance(block, ThinkingBlock):
        return False
    return not _SIGNATURE.fullmatch(block.redacted or block.signature or "")


def _can_think(history: Sequence[Sendable]) -> bool:
    """Whether the turn under way may go on with thinking.

    Inside a tool loop the service insists on the thinking that led to its first calls; behind their
    results these models think no more. A loop that began without it (another model, another level)
    goes on without it.
    """
    answers = (m for m in reversed(history) if isinstance(m, AssistantMessage))
    loop = list(takewhile(lambda answer: bool(answer.calls), answers))
    if not loop:
        return True
    blocks = (block for block in loop[-1].content if not isinstance(block, CompactionBlock))
    return isinstance(next(blocks), ThinkingBlock)


def _tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in tools
    ]


class _Messages:
    """History written down. Roles alternate: results and user messages that follow are one message.

    What results show stands behind the last of them: the service wants all results first.
    """

    def __init__(self, assets: Assets, *, with_thinking: bool) -> None:
        self._assets = assets
        self._with_thinking = with_thinking
        self._written: list[dict[str, Any]] = []
        self.stable: list[Blocks] = []
        """What user messages hold that the next request will hold as well."""

    def of(self, history: Sequence[Sendable]) -> list[dict[str, Any]]:
        """The messages of a request."""
        last = _last_stable(history)
        stable = {id(message) for message in history[: last + 1]}
        for entry in with_shown(history):
            role = "assistant" if isinstance(entry, AssistantMessage) else "user"
            is_stable = isinstance(entry, Shown) or id(entry) in stable
            self._append(role, self._content(entry), is_stable=is_stable)
        if self._written and self._written[0]["role"] == "assistant":
            beginning = {"role": "user", "content": [_text("[The beginning is left out.]")]}
            self._written.insert(0, beginning)
        return self._written

    def _append(self, role: str, content: Blocks, *, is_stable: bool) -> None:
        is_new = not self._written or self._written[-1]["role"] != role
        if is_new:
            self._written.append({"role": role, "content": []})
        self._written[-1]["content"] += content
        if role == "user" and is_stable:
            if is_new:
                self.stable.append([])
            self.stable[-1] += content

    def _content(self, entry: Entry) -> Blocks:
        match entry:
            case UserMessage():
                return _parts(entry.content, self._assets)
            case Shown():
                return _parts(entry.assets, self._assets)
            case ToolResultMessage():
                return [_result(entry)]
            case AssistantMessage():
                return [
                    _block(block)
                    for block in entry.content
                    if self._with_thinking or not isinstance(block, ThinkingBlock)
                ]


def _last_stable(history: Sequence[Sendable]) -> int:
    """The position of the last message that the next request will hold as well.

    What the harness says at the very end may be for this call only: a reminder is in no history.
    """
    end = len(history)
    while end and _is_harness(history[end - 1]):
        end -= 1
    return end - 1 if end else len(history) - 1


def _is_harness(message: Sendable) -> bool:
    return isinstance(message, UserMessage) and message.origin == "harness"


def _result(message: ToolResultMessage) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": [_text(text) for text in result_texts(message)],
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
