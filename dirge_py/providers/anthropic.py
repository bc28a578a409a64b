"""Anthropic's Messages API, and services that speak it: the provider and its requests.

In a request the roles alternate, thinking goes back unread, and the beginning that later requests
share is marked for the cache: at most four marks, each behind what stays as it is. A later request
finds the longest marked beginning that it shares, but looks back no further than some twenty blocks
from each of its own marks.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from dirge_py.providers.adapter import ApiFormat, ModelCall, make_stream_fn
from dirge_py.providers.anthropic_stream import AnthropicParser
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.client import HttpClient
from dirge_py.providers.history import SendableMessage, drop_foreign_blocks, sendable_history
from dirge_py.providers.media import (
    Asset,
    AssetEncoder,
    HistoryEntry,
    ToolMedia,
    asset_encoder,
    result_texts,
    with_tool_media,
)
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.providers.thinking import thinking_budget, thinking_effort
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    StreamFn,
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

Blocks = list[dict[str, Any]]
MAX_CACHE_MARKS = 4


def mark_cached(
    *, tools: Blocks, system: Blocks, messages: Sequence[Blocks], cache_ttl: str | None
) -> None:
    """Mark the last tool, every part of the system prompt, and user messages from the last one on.

    `messages` are the contents of the user messages up to the last that the next request will hold
    as well. Of them as many are marked as there are marks left: the one before the last lies where
    the last request was marked, however much the turn added.
    """
    kept = {"type": "ephemeral"} if cache_ttl in {None, "5m"} else _cache_control(cache_ttl)
    for _, block in zip(
        range(MAX_CACHE_MARKS), _cached_blocks(tools, system, messages), strict=False
    ):
        block["cache_control"] = kept


def _cache_control(cache_ttl: str | None) -> dict[str, Any]:
    return {"type": "ephemeral", "ttl": cache_ttl}


def _cached_blocks(
    tools: Blocks, system: Blocks, messages: Sequence[Blocks]
) -> Iterator[dict[str, Any]]:
    yield from tools[-1:]
    yield from system
    for content in reversed(messages[-2:]):
        yield from content[-1:]


BASE_URL = "https://api.anthropic.com"
KEY_ENV = ("ANTHROPIC_API_KEY",)
_HISTORY_EDITS: Mapping[str, str] = {
    "context-management-2025-06-27": "clear_tool_uses_20250919",
    "compact-2026-01-12": "compact_20260112",
}
"""By the beta that allows it, what the service then does to old history by itself."""


def _headers(call: ModelCall) -> Mapping[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    if call.key:
        headers["x-api-key"] = call.key
    if call.profile.binds_thinking:
        # What it allows is in the request (`block_binding`).
        headers["anthropic-beta"] = "thinking-binding-controls-2026-08-01"
    return headers


def _body(call: ModelCall) -> Mapping[str, Any]:
    messages = drop_foreign_blocks(call.context.messages, call.settings.alias)
    body = messages_request(
        replace(call.context, messages=messages),
        call.options,
        model=call.model,
        profile=call.profile,
        max_output_tokens=call.max_output_tokens,
        cache_ttl=call.settings.cache_ttl,
    )
    edits = _history_edits(call.settings.headers, call.options.headers)
    if edits:
        body["context_management"] = {"edits": edits}
    return body


def _history_edits(*headers: Mapping[str, str]) -> list[Mapping[str, str]]:
    """What the person asks the service to do to history, by naming its betas."""
    named = [
        value
        for layer in headers
        for name, value in layer.items()
        if name.lower() == "anthropic-beta"
    ]
    return [
        {"type": edit} for beta, edit in _HISTORY_EDITS.items() if any(beta in v for v in named)
    ]


def _parser(call: ModelCall) -> AnthropicParser:
    return AnthropicParser(call.used_ids(), secrets.token_hex(6))


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
    profile: ModelProfile,
    max_output_tokens: int | None,
    cache_ttl: str | None = None,
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for the cache.

    `cache_ttl` is `5m` or `1h`; None leaves it to the service.
    """
    history = sendable_history([_readable(message) for message in context.messages])
    choice = _choice(options.tool_choice, profile) if context.tools else None
    is_forced = choice is not None and choice["type"] in {"any", "tool"}
    level = options.thinking_level
    if is_forced or (not profile.adaptive_thinking and not _can_think(history)):
        level = "off"
    elif level == "off" and profile.thinks_always:
        # As little as it lets itself be told to; and what it thinks is heard.
        level = "minimal"
    body: dict[str, Any] = {"model": model, "stream": True}
    reply_tokens = max_output_tokens or _reply_tokens(profile)
    body |= _thinking(level, options.thinking_budgets, profile, reply_tokens)
    tools = _tools(context.tools)
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    system = _system(context)
    if system:
        body["system"] = system
    assets = asset_encoder(profile, context.asset_dir)
    thinks = body.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    written = _Messages(assets, with_thinking=thinks)
    body["messages"] = written.of(history)
    mark_cached(tools=tools, system=system, messages=written.stable, cache_ttl=cache_ttl)
    if options.response_schema is not None:
        shape = {"type": "json_schema", "schema": close_objects(options.response_schema.schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": shape}
    user_id = options.metadata.get("user_id")
    if isinstance(user_id, str):
        body["metadata"] = {"user_id": user_id}
    return body


def _choice(choice: ToolChoice, profile: ModelProfile) -> dict[str, Any] | None:
    """None where nothing is said: the model decides, also if it thinks whatever it is told."""
    if choice == "none":
        return {"type": "none"}
    if choice == "auto" or profile.thinks_always:
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


def _reply_tokens(profile: ModelProfile) -> int:
    if profile.max_output_tokens is None:
        return _UNKNOWN_MODEL_REPLY_TOKENS
    return min(profile.max_output_tokens, _REPLY_TOKENS)


def _thinking(
    level: ThinkingLevel, budgets: ThinkingBudgets, profile: ModelProfile, reply_tokens: int
) -> dict[str, Any]:
    """`max_tokens` and what goes with it. Thinking counts, so room for it is put on top."""
    if level == "off" or not profile.thinking:
        # Unasked, newer models think.
        unasked = {"thinking": {"type": "disabled"}} if profile.adaptive_thinking else {}
        return {"max_tokens": reply_tokens, **unasked}
    tokens = max(_LEAST_BUDGET, thinking_budget(level, budgets))
    max_tokens = tokens + reply_tokens
    if profile.max_output_tokens is not None and max_tokens > profile.max_output_tokens:
        max_tokens = profile.max_output_tokens
        tokens = max(_LEAST_BUDGET, min(tokens, max_tokens // 2))
    if profile.adaptive_thinking:
        # Without `display` these models think silently: minutes of nothing on the screen.
        thinking: dict[str, Any] = {"type": "adaptive", "display": "summarized"}
        if profile.binds_thinking:
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        word = thinking_effort(level, profile.efforts)
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


def _can_think(history: Sequence[SendableMessage]) -> bool:
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

    def __init__(self, assets: AssetEncoder, *, with_thinking: bool) -> None:
        self._assets = assets
        self._with_thinking = with_thinking
        self._written: list[dict[str, Any]] = []
        self.stable: list[Blocks] = []
        """What user messages hold that the next request will hold as well."""

    def of(self, history: Sequence[SendableMessage]) -> list[dict[str, Any]]:
        """The messages of a request."""
        last = _last_stable(history)
        stable = {id(message) for message in history[: last + 1]}
        for entry in with_tool_media(history):
            role = "assistant" if isinstance(entry, AssistantMessage) else "user"
            is_stable = isinstance(entry, ToolMedia) or id(entry) in stable
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

    def _content(self, entry: HistoryEntry) -> Blocks:
        match entry:
            case UserMessage():
                return _parts(entry.content, self._assets)
            case ToolMedia():
                return _parts(entry.assets, self._assets)
            case ToolResultMessage():
                return [_result(entry)]
            case AssistantMessage():
                return [
                    _block(block)
                    for block in entry.content
                    if self._with_thinking or not isinstance(block, ThinkingBlock)
                ]


def _last_stable(history: Sequence[SendableMessage]) -> int:
    """The position of the last message that the next request will hold as well.

    What the harness says at the very end may be for this call only: a reminder is in no history.
    """
    end = len(history)
    while end and _is_harness(history[end - 1]):
        end -= 1
    return end - 1 if end else len(history) - 1


def _is_harness(message: SendableMessage) -> bool:
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


def _parts(blocks: Sequence[TextBlock | Asset], assets: AssetEncoder) -> list[dict[str, Any]]:
    return [
        _part(block, assets)
        for block in blocks
        if not isinstance(block, TextBlock) or block.text.strip()
    ]


def _part(block: TextBlock | Asset, assets: AssetEncoder) -> dict[str, Any]:
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


_SCHEMA_KEYWORDS = frozenset({"type", "enum", "const", "$ref", "title", "description", "required"})
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def close_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` without what would be refused. What is left out, the caller has to look at itself.

    Objects are closed: the service fills in no member that is not described.
    """
    kept: dict[str, Any] = {name: schema[name] for name in schema if name in _SCHEMA_KEYWORDS}
    for name in _NAMED_SCHEMAS:
        if isinstance(schema.get(name), Mapping):
            kept[name] = {key: _close_if_schema(each) for key, each in schema[name].items()}
    for name, written in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if isinstance(schema.get(name), list) and written not in kept:
            kept[written] = [_close_if_schema(each) for each in schema[name]]
    if "items" in schema:
        kept["items"] = _close_if_schema(schema["items"])
    if schema.get("format") in _FORMATS:
        kept["format"] = schema["format"]
    if schema.get("minItems") in {0, 1}:
        kept["minItems"] = schema["minItems"]
    if schema.get("type") == "object" or "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def _close_if_schema(schema: Any) -> Any:
    return close_objects(schema) if isinstance(schema, Mapping) else schema


_FORMAT = ApiFormat(
    default_base_url=BASE_URL,
    path=lambda call: "/v1/messages",
    key_env=KEY_ENV,
    headers=_headers,
    body=_body,
    parser=_parser,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    return make_stream_fn(_FORMAT, settings, http)


PROVIDER = Provider(
    name="anthropic",
    make=_make,
    default_base_url=BASE_URL,
)
