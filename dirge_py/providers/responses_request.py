"""A Responses request. The service keeps nothing: each one holds the whole conversation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dirge_py.providers.adapter import Call
from dirge_py.providers.assets import assets_for
from dirge_py.providers.cache_key import cache_key
from dirge_py.providers.openai_request import is_openai
from dirge_py.providers.responses_input import InputItems
from dirge_py.providers.strict_schema import fits_strict
from dirge_py.providers.thinking import budget, effort
from dirge_py.types.llm import NamedTool, ResponseSchema, ToolChoice, ToolSpec

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LEAST_TOKENS = 16


@dataclass(slots=True)
class Refused:
    """What the service would not take before, so that it is not sent again.

    `summaries` are models whose thoughts it does not tell this account; `seals` are signatures, and
    the JSON of folded history, that it cannot read any more.
    """

    summaries: set[str] = field(default_factory=set)
    seals: set[str] = field(default_factory=set)


def responses_request(call: Call, refused: Refused) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options, card = call.context, call.options, call.card
    items = InputItems(
        alias=call.settings.alias,
        assets=assets_for(card, context.asset_dir),
        memory=call.memory,
        unreadable=refused.seals,
        with_thoughts=card.thinking or not is_openai(call.base_url),
    ).written(context)
    body: dict[str, Any] = {"model": call.model}
    if context.system_prompt.strip():
        role = call.settings.dialect.system_role
        if role is None:
            body["instructions"] = context.system_prompt
        else:
            items.insert(0, {"role": role, "content": context.system_prompt})
    body["input"] = items
    if context.tools:
        body["tools"] = [_tool(tool) for tool in context.tools]
        body["parallel_tool_calls"] = True
        body |= _choice(options.tool_choice)
    body |= _reasoning(call, told=call.model not in refused.summaries)
    if call.max_output_tokens is not None:
        body["max_output_tokens"] = _with_room(call, call.max_output_tokens)
    if options.response_schema is not None:
        body["text"] = {"format": _format(options.response_schema)}
    if is_openai(call.base_url) or call.settings.dialect.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    return body | {"store": False, "stream": True}


def _reasoning(call: Call, *, told: bool) -> dict[str, Any]:
    """How much is thought, that it is told, and that it comes back sealed.

    Nothing for a model that does not think: it would refuse each of these.
    """
    level, card = call.options.thinking_level, call.card
    if not card.thinking and (level == "off" or is_openai(call.base_url)):
        return {}
    body: dict[str, Any] = {}
    word = effort(level, card.efforts)
    if word is not None:
        body["reasoning"] = {"effort": word}
        if level != "off" and told:
            body["reasoning"]["summary"] = "auto"
    return body | {"include": ["reasoning.encrypted_content"]}


def _with_room(call: Call, tokens: int) -> int:
    """The limit with room for thinking, which counts: an answer would not fit behind it else."""
    card = call.card
    if card.thinking:
        more = budget(call.options.thinking_level, call.options.thinking_budgets)
        tokens = min(tokens + more, max(tokens, card.max_output_tokens or tokens + more))
    return max(_LEAST_TOKENS, tokens)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        # The default would hold calls to schemas that few tools have.
        "strict": False,
    }


def _choice(choice: ToolChoice) -> Mapping[str, Any]:
    if choice == "auto":
        return {}
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "name": choice.name}}
    return {"tool_choice": choice}


def _format(wanted: ResponseSchema) -> Mapping[str, Any]:
    return {
        "type": "json_schema",
        "name": _NO_NAME.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": fits_strict(wanted.schema),
    }
