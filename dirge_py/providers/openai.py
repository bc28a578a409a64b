"""OpenAI's Chat Completions, and every service that speaks it: the provider and its requests."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from dirge_py.providers.adapter import (
    ApiFormat,
    ModelCall,
    SendableMessage,
    call_arguments,
    function_tool,
    make_stream_fn,
    sendable_history,
)
from dirge_py.providers.catalog import ModelProfile, thinking_budget, thinking_effort
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.media import (
    Asset,
    AssetEncoder,
    ToolMedia,
    asset_encoder,
    is_text,
    result_texts,
    with_tool_media,
)
from dirge_py.providers.openai_stream import OpenAIParser, unpack_details
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, Quirks, merge_bodies
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamFn,
    StreamOptions,
    SystemText,
    ThinkingLevel,
    ToolChoice,
)
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)

_NOT_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]+")


def is_openai(base_url: str) -> bool:
    """Whether this is OpenAI itself, which is stricter and newer than compatible services."""
    return urlsplit(base_url).hostname == "api.openai.com"


def chat_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches.

    OpenAI itself wants `max_completion_tokens`; compatible servers know the older `max_tokens`.
    Other differences between services are in `Quirks`.
    """
    context, options, profile = call.context, call.options, call.profile
    quirks, official = call.settings.quirks, is_openai(call.base_url)
    level = _level(options, quirks)
    default_role = "developer" if official and profile.thinking else "system"
    messages = _messages(call, quirks.system_role or default_role)
    if options.response_schema is not None:
        messages += _schema_message(options.response_schema, quirks)
    body: dict[str, Any] = {"model": call.model, "messages": messages}
    if context.tools:
        body["tools"] = [function_tool(tool) for tool in context.tools]
        body |= _choice(options.tool_choice)
    body["stream"] = True
    if official or quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if call.max_output_tokens is not None:
        default = "max_completion_tokens" if official else "max_tokens"
        body[quirks.max_tokens_field or default] = tokens_with_thinking(call, level)
    if options.response_schema is not None:
        body |= _response_format(options.response_schema, quirks)
    with_tools = bool(context.tools)
    body = merge_bodies(
        body, _thinking(level, profile, quirks, official=official, tools=with_tools)
    )
    for start, members in quirks.body_of.items():
        if call.model.startswith(start):
            body = merge_bodies(body, members)
    return body


def _level(options: StreamOptions, quirks: Quirks) -> ThinkingLevel:
    forced = options.tool_choice not in {"auto", "none"}
    return "off" if forced and not quirks.thinks_when_forced else options.thinking_level


def _thinking(
    level: ThinkingLevel, profile: ModelProfile, quirks: Quirks, *, official: bool, tools: bool
) -> Mapping[str, Any]:
    if quirks.thinking is not None:
        return quirks.thinking.get(level, {})
    if official and not profile.thinking:
        return {}
    if official and tools and not profile.effort_with_tools:
        # These models think by default, and then refuse tools on this interface.
        return {"reasoning_effort": "none"}
    word = thinking_effort(level, profile.efforts)
    return {} if word is None else {"reasoning_effort": word}


def tokens_with_thinking(call: ModelCall, level: ThinkingLevel) -> int:
    """The limit of the answer plus the thinking budget, as services count both together."""
    tokens = call.max_output_tokens or 0
    if not call.profile.thinking:
        return tokens
    with_thinking = tokens + thinking_budget(level, call.options.thinking_budgets)
    return min(with_thinking, max(tokens, call.profile.max_output_tokens or with_thinking))


def _schema_message(wanted: ResponseSchema, quirks: Quirks) -> list[dict[str, Any]]:
    """The schema as a message behind history, for a service that takes no schema."""
    if quirks.structured in (None, "json_schema"):
        return []
    words = "Answer with one JSON object that follows this JSON Schema, and with nothing else:"
    schema = json.dumps(wanted.schema, ensure_ascii=False)
    return [{"role": "user", "content": f"{words}\n{schema}"}]


def _choice(choice: ToolChoice) -> dict[str, Any]:
    if choice == "auto":
        return {}
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
    return {"tool_choice": choice}


def _response_format(wanted: ResponseSchema, quirks: Quirks) -> dict[str, Any]:
    match quirks.structured:
        case "none":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
    schema = named_schema(wanted)
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def named_schema(wanted: ResponseSchema) -> dict[str, Any]:
    """The schema of the answer as OpenAI's interfaces describe it."""
    return {
        "name": _NOT_NAME_CHARS.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": fits_strict(wanted.schema),
    }


def _messages(call: ModelCall, system_role: str) -> list[dict[str, Any]]:
    """The messages; those of the last request are the same objects as then."""
    context, back = call.context, call.settings.quirks.thinking_back
    assets = asset_encoder(call.profile, context.asset_dir)
    # Details are sealed by the maker of the model.
    history = sendable_history(
        call.own_messages(call.model if back == "reasoning_details" else "")
        if back
        else context.messages,
        unsigned=back in {"reasoning_content", "reasoning"},
        call_id_chars=call.settings.quirks.call_id_chars,
    )
    messages: list[dict[str, Any]] = []
    if context.system_prompt.strip():
        messages.append({"role": system_role, "content": context.system_prompt})
    for entry in with_tool_media(history):
        match entry:
            case AssistantMessage() if not (entry.text or entry.calls):
                pass  # it holds nothing but what another service compacted
            case ToolMedia():
                messages.append(_user_parts([entry.title, *entry.assets], assets))
            case UserMessage() if not is_text(entry.content):
                # Not cached: an asset's file may be gone by now, and is too large to keep.
                messages.append(_user_parts(entry.content, assets))
            case _:
                write = partial(_message, thinking_back=back)
                messages.append(call.json_cache.of(entry, write))
    return messages


def _user_parts(blocks: Sequence[TextBlock | Asset], assets: AssetEncoder) -> dict[str, Any]:
    parts = [_part(b, assets) for b in blocks if not isinstance(b, TextBlock) or b.text]
    return {"role": "user", "content": parts}


def _message(message: SendableMessage, *, thinking_back: str) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message, thinking_back)
        case ToolResultMessage():
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(result_texts(message)),
            }


def _assistant(message: AssistantMessage, thinking_back: str) -> dict[str, Any]:
    text = joined_text(message.content) or None
    written: dict[str, Any] = {"role": "assistant", "content": text}
    thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
    if thinking_back in {"reasoning_content", "reasoning"}:
        thinking = "".join(thought.text for thought in thoughts)
        # DeepSeek asks for it in every message, also where it is empty.
        if thinking or thinking_back == "reasoning_content":
            written[thinking_back] = thinking
    elif thinking_back == "reasoning_details":
        details = [part for thought in thoughts for part in unpack_details(thought.signature)]
        if details:
            written[thinking_back] = details
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call_arguments(call), ensure_ascii=False),
            },
        }
        for call in message.calls
    ]
    if calls:
        written["tool_calls"] = calls
    return written


def _part(block: TextBlock | Asset, assets: AssetEncoder) -> dict[str, Any]:
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


_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "minItems"),
        *("maxItems", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "title"),
        *("description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "pattern", "format"),
    }
)


def fits_strict(schema: Mapping[str, Any]) -> bool:
    """Whether `strict` may be asked for: any other schema would be refused with an error.

    Every object must be closed and require all of its properties, and the top must be an object.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _fits(schema)


def _fits(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEYWORDS:
        return False
    if not ({"type", "anyOf", "$ref", "enum", "const"} & schema.keys()):
        return False
    properties = schema.get("properties", {})
    of_type = schema.get("type")
    if of_type == "object" or (isinstance(of_type, list) and "object" in of_type) or properties:
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties):
            return False
    named = [*properties.values()]
    for name in ("$defs", "definitions"):
        named += schema.get(name, {}).values()
    inner = [*named, *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(map(_fits, inner))


def cache_key(context: LlmContext) -> str:
    """Of the beginning that stays: the same for a whole conversation, until it is folded."""
    prompt = context.system_prompt
    stable = prompt.stable_chars if isinstance(prompt, SystemText) else len(prompt)
    asked = (message.text for message in context.messages if isinstance(message, UserMessage))
    first = next(asked, "")
    beginning = f"{prompt[:stable]}\0{first}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(beginning).hexdigest()[:32]


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    chat_format = ApiFormat(
        name="openai",
        path=lambda call: "/chat/completions",
        headers=lambda call: bearer_header(call.key),
        body=chat_request,
        parser=partial(
            OpenAIParser,
            keeps_details=settings.quirks.thinking_back == "reasoning_details",
            tells_cost=settings.quirks.tells_cost,
        ),
    )
    return make_stream_fn(chat_format, settings, http)


PROVIDER = Provider(name="openai", make=_make)
