"""OpenAI's Chat Completions, and every service that speaks it: the provider and its requests."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import ApiFormat, JsonCache, ModelCall, make_stream_fn
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.client import HttpClient
from dirge_py.providers.history import SendableMessage, drop_foreign_blocks, sendable_history
from dirge_py.providers.http_types import bearer_header
from dirge_py.providers.media import (
    Asset,
    AssetEncoder,
    ToolMedia,
    asset_encoder,
    result_texts,
    with_tool_media,
)
from dirge_py.providers.openai_stream import OpenAIParser, unpack_details
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, Quirks, merge_bodies
from dirge_py.providers.thinking import thinking_budget, thinking_effort
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamFn,
    StreamOptions,
    SystemText,
    ThinkingBudgets,
    ThinkingLevel,
    ToolChoice,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)

BASE_URL = "https://api.openai.com/v1"
KEY_ENV = ("OPENAI_API_KEY",)


def _body(call: ModelCall) -> Mapping[str, Any]:
    return chat_request(
        call.context,
        call.options,
        model=call.model,
        profile=call.profile,
        official=is_openai(call.base_url),
        max_output_tokens=call.max_output_tokens,
        json_cache=call.json_cache,
        quirks=call.settings.quirks,
        alias=call.settings.alias,
    )


def _parser(call: ModelCall) -> OpenAIParser:
    quirks = call.settings.quirks
    return OpenAIParser(
        call.used_ids(),
        secrets.token_hex(6),
        keeps_details=quirks.thinking_back == "reasoning_details",
        tells_cost=quirks.tells_cost,
    )


_NOT_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]+")


def is_openai(base_url: str) -> bool:
    """Whether this is OpenAI itself, which is stricter and newer than those who follow it."""
    return urlsplit(base_url).hostname == "api.openai.com"


def chat_request(
    context: LlmContext,
    options: StreamOptions,
    *,
    model: str,
    profile: ModelProfile,
    official: bool,
    max_output_tokens: int | None,
    json_cache: JsonCache,
    quirks: Quirks | None = None,
    alias: str = "",
) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches.

    `memory` gives a message that it knows the very object of the last request.

    OpenAI itself wants `max_completion_tokens`; compatible servers know the older `max_tokens`.
    What else differs between services is in `dialect`.
    """
    quirks = quirks or Quirks()
    level = _level(options, quirks)
    default_role = "developer" if official and profile.thinking else "system"
    writer = ChatMessageWriter(
        alias=alias,
        model=model,
        quirks=quirks,
        assets=asset_encoder(profile, context.asset_dir),
        json_cache=json_cache,
    )
    messages = writer.written(context, quirks.system_role or default_role)
    if options.response_schema is not None:
        messages += _in_words(options.response_schema, quirks)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if context.tools:
        body["tools"] = [_tool(tool) for tool in context.tools]
        body |= _choice(options.tool_choice)
    body["stream"] = True
    if official or quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if max_output_tokens is not None:
        default = "max_completion_tokens" if official else "max_tokens"
        tokens = _with_room(max_output_tokens, level, options.thinking_budgets, profile)
        body[quirks.max_tokens_field or default] = tokens
    if options.response_schema is not None:
        body |= _response_format(options.response_schema, quirks)
    with_tools = bool(context.tools)
    body = merge_bodies(
        body, _thinking(level, profile, quirks, official=official, tools=with_tools)
    )
    for start, members in quirks.body_of.items():
        if model.startswith(start):
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
        # These models think unasked, and refuse tools on this interface unless told not to.
        return {"reasoning_effort": "none"}
    word = thinking_effort(level, profile.efforts)
    return {} if word is None else {"reasoning_effort": word}


def _with_room(
    tokens: int, level: ThinkingLevel, budgets: ThinkingBudgets, profile: ModelProfile
) -> int:
    """The limit with room for thinking, which counts: an answer would not fit behind it else."""
    if not profile.thinking:
        return tokens
    with_thinking = tokens + thinking_budget(level, budgets)
    return min(with_thinking, max(tokens, profile.max_output_tokens or with_thinking))


def _in_words(wanted: ResponseSchema, quirks: Quirks) -> list[dict[str, Any]]:
    """The schema for a service that takes none: behind history, where it costs no cache."""
    if quirks.structured in (None, "json_schema"):
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


def _response_format(wanted: ResponseSchema, quirks: Quirks) -> dict[str, Any]:
    match quirks.structured:
        case "none":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
    schema = {
        "name": _NOT_NAME_CHARS.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": fits_strict(wanted.schema),
    }
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessageWriter:
    """Writes history for `model` of the service `alias`, whose service has these `quirks`."""

    alias: str
    model: str
    quirks: Quirks
    assets: AssetEncoder
    json_cache: JsonCache

    def written(self, context: LlmContext, system_role: str) -> list[dict[str, Any]]:
        """What `json_cache` knows of the last request is the very object it was then."""
        messages: list[dict[str, Any]] = []
        if context.system_prompt.strip():
            messages.append({"role": system_role, "content": context.system_prompt})
        for entry in with_tool_media(self._history(context)):
            match entry:
                case AssistantMessage() if not (entry.text or entry.calls):
                    pass  # nothing but what another service folded
                case ToolMedia():
                    messages.append(self._seen([entry.title, *entry.assets]))
                case UserMessage() if not _is_text(entry):
                    # Read anew: an asset's file may be gone by now, and is too large to keep.
                    messages.append(self._seen(entry.content))
                case _:
                    messages.append(self.json_cache.of(entry, self._message))
        return messages

    def _seen(self, blocks: Sequence[TextBlock | Asset]) -> dict[str, Any]:
        parts = [_part(b, self.assets) for b in blocks if not isinstance(b, TextBlock) or b.text]
        return {"role": "user", "content": parts}

    def _history(self, context: LlmContext) -> list[SendableMessage]:
        back = self.quirks.thinking_back
        # Details are sealed by whoever made the model.
        model = self.model if back == "reasoning_details" else ""
        return sendable_history(
            drop_foreign_blocks(context.messages, self.alias, model) if back else context.messages,
            unsigned=back in {"reasoning_content", "reasoning"},
            call_id_chars=self.quirks.call_id_chars,
        )

    def _message(self, message: SendableMessage) -> dict[str, Any]:
        match message:
            case UserMessage():
                return {"role": "user", "content": message.text}
            case AssistantMessage():
                return self._assistant(message)
            case ToolResultMessage():
                return {
                    "role": "tool",
                    "tool_call_id": message.tool_call_id,
                    "content": "\n".join(result_texts(message)),
                }

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        text = joined_text(message.content) or None
        written: dict[str, Any] = {"role": "assistant", "content": text}
        thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
        match self.quirks.thinking_back:
            case "reasoning_content" | "reasoning" as name:
                thinking = "".join(thought.text for thought in thoughts)
                # DeepSeek asks for it in every message, also where it is empty.
                if thinking or name == "reasoning_content":
                    written[name] = thinking
            case "reasoning_details" as name:
                details = [one for thought in thoughts for one in unpack_details(thought.signature)]
                if details:
                    written[name] = details
        calls = [_call(call) for call in message.calls]
        if calls:
            written["tool_calls"] = calls
        return written


def _is_text(message: UserMessage) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


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


_FORMAT = ApiFormat(
    default_base_url=BASE_URL,
    path=lambda call: "/chat/completions",
    key_env=KEY_ENV,
    headers=lambda call: bearer_header(call.key),
    body=_body,
    parser=_parser,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    return make_stream_fn(_FORMAT, settings, http)


PROVIDER = Provider(
    name="openai",
    make=_make,
    default_base_url=BASE_URL,
)
