"""A Chat Completions request, as OpenAI and everything compatible with it reads it."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from dirge_py.providers.assets import assets_for
from dirge_py.providers.cache_key import cache_key
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.dialect import Dialect, merged
from dirge_py.providers.memory import Memory
from dirge_py.providers.openai_messages import ChatMessages
from dirge_py.providers.strict_schema import fits_strict
from dirge_py.providers.thinking import budget, effort
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamOptions,
    ThinkingBudgets,
    ThinkingLevel,
    ToolChoice,
    ToolSpec,
)

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


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
    dialect: Dialect | None = None,
    alias: str = "",
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches.

    `memory` gives a message that it knows the very object of the last request.

    OpenAI itself wants `max_completion_tokens`; compatible servers know the older `max_tokens`.
    What else differs between services is in `dialect`.
    """
    dialect = dialect or Dialect()
    level = _level(options, dialect)
    default_role = "developer" if official and card.thinking else "system"
    writer = ChatMessages(
        alias=alias,
        model=model,
        dialect=dialect,
        assets=assets_for(card, context.asset_dir),
        memory=memory,
    )
    messages = writer.written(context, dialect.system_role or default_role)
    if options.response_schema is not None:
        messages += _in_words(options.response_schema, dialect)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if context.tools:
        body["tools"] = [_tool(tool) for tool in context.tools]
        body |= _choice(options.tool_choice)
    body["stream"] = True
    if official or dialect.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if max_output_tokens is not None:
        default = "max_completion_tokens" if official else "max_tokens"
        tokens = _with_room(max_output_tokens, level, options.thinking_budgets, card)
        body[dialect.max_tokens_field or default] = tokens
    if options.response_schema is not None:
        body |= _response_format(options.response_schema, dialect)
    with_tools = bool(context.tools)
    body = merged(body, _thinking(level, card, dialect, official=official, tools=with_tools))
    for start, members in dialect.body_of.items():
        if model.startswith(start):
            body = merged(body, members)
    return body


def _level(options: StreamOptions, dialect: Dialect) -> ThinkingLevel:
    forced = options.tool_choice not in {"auto", "none"}
    return "off" if forced and not dialect.thinks_when_forced else options.thinking_level


def _thinking(
    level: ThinkingLevel, card: ModelCard, dialect: Dialect, *, official: bool, tools: bool
) -> Mapping[str, Any]:
    if dialect.thinking is not None:
        return dialect.thinking.get(level, {})
    if official and not card.thinking:
        return {}
    if official and tools and not card.effort_with_tools:
        # These models think unasked, and refuse tools on this interface unless told not to.
        return {"reasoning_effort": "none"}
    word = effort(level, card.efforts)
    return {} if word is None else {"reasoning_effort": word}


def _with_room(tokens: int, level: ThinkingLevel, budgets: ThinkingBudgets, card: ModelCard) -> int:
    """The limit with room for thinking, which counts: an answer would not fit behind it else."""
    if not card.thinking:
        return tokens
    with_thinking = tokens + budget(level, budgets)
    return min(with_thinking, max(tokens, card.max_output_tokens or with_thinking))


def _in_words(wanted: ResponseSchema, dialect: Dialect) -> list[dict[str, Any]]:
    """The schema for a service that takes none: behind history, where it costs no cache."""
    if dialect.structured in (None, "json_schema"):
        return []
    words = "Answer with one JSON object that follows this JSON Schema, and with nothing else:"
    schema = json.dumps(wanted.schema, ensure_ascii=False)
    return [{"role": "user", "content": f"{words}\n{schema}"}]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def _choice(choice: ToolChoice) -> dict[str, Any]:
    if choice == "auto":
        return {}
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
    return {"tool_choice": choice}


def _response_format(wanted: ResponseSchema, dialect: Dialect) -> dict[str, Any]:
    match dialect.structured:
        case "none":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
    schema = {
        "name": _NO_NAME.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": fits_strict(wanted.schema),
    }
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
