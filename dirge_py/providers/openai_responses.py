"""OpenAI's Responses API, and services that speak it: the provider and its requests.

The service keeps nothing: each request holds the whole conversation, as a list of items.
"""

import dataclasses
import json
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    JsonCache,
    LearnFromError,
    ModelCall,
    make_stream_fn,
    retry_without,
)
from dirge_py.providers.client import HttpClient
from dirge_py.providers.history import SendableMessage, drop_foreign_blocks, sendable_history
from dirge_py.providers.http_types import bearer_header
from dirge_py.providers.media import Asset, AssetEncoder, asset_encoder
from dirge_py.providers.openai import cache_key, fits_strict, is_openai
from dirge_py.providers.openai_responses_stream import (
    ResponsesParser,
    pack_item,
    reasoning_input,
    unpack_item,
)
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.providers.thinking import thinking_budget, thinking_effort
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamFn,
    StreamOptions,
    ToolChoice,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)

_NOT_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]+")
_LEAST_TOKENS = 16


@dataclasses.dataclass(slots=True)
class RefusedParts:
    """What the service would not take before, so that it is not sent again.

    `summaries` are models whose thoughts it does not tell this account; `seals` are signatures, and
    the JSON of folded history, that it cannot read any more.
    """

    summaries: set[str] = field(default_factory=set)
    seals: set[str] = field(default_factory=set)


def responses_request(call: ModelCall, refused: RefusedParts) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options, profile = call.context, call.options, call.profile
    items = InputItemWriter(
        alias=call.settings.alias,
        assets=asset_encoder(profile, context.asset_dir),
        json_cache=call.json_cache,
        unreadable=refused.seals,
        with_thoughts=profile.thinking or not is_openai(call.base_url),
    ).written(context)
    body: dict[str, Any] = {"model": call.model}
    if context.system_prompt.strip():
        role = call.settings.quirks.system_role
        if role is None:
            body["instructions"] = context.system_prompt
        else:
            items.insert(0, {"role": role, "content": context.system_prompt})
    body["input"] = items
    if context.tools:
        body["tools"] = [_tool(tool) for tool in context.tools]
        body["parallel_tool_calls"] = True
        body |= _choice(options.tool_choice)
    body |= _reasoning(call, with_summary=call.model not in refused.summaries)
    if call.max_output_tokens is not None:
        body["max_output_tokens"] = _with_room(call, call.max_output_tokens)
    if options.response_schema is not None:
        body["text"] = {"format": _format(options.response_schema)}
    if is_openai(call.base_url) or call.settings.quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    return body | {"store": False, "stream": True}


def _reasoning(call: ModelCall, *, with_summary: bool) -> dict[str, Any]:
    """How much is thought, that it is told, and that it comes back sealed.

    Nothing for a model that does not think: it would refuse each of these.
    """
    level, profile = call.options.thinking_level, call.profile
    if not profile.thinking and (level == "off" or is_openai(call.base_url)):
        return {}
    body: dict[str, Any] = {}
    word = thinking_effort(level, profile.efforts)
    if word is not None:
        body["reasoning"] = {"effort": word}
        if level != "off" and with_summary:
            body["reasoning"]["summary"] = "auto"
    return body | {"include": ["reasoning.encrypted_content"]}


def _with_room(call: ModelCall, tokens: int) -> int:
    """The limit with room for thinking, which counts: an answer would not fit behind it else."""
    profile = call.profile
    if profile.thinking:
        more = thinking_budget(call.options.thinking_level, call.options.thinking_budgets)
        tokens = min(tokens + more, max(tokens, profile.max_output_tokens or tokens + more))
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
        "name": _NOT_NAME_CHARS.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": fits_strict(wanted.schema),
    }


BASE_URL = "https://api.openai.com/v1"
KEY_ENV = ("OPENAI_API_KEY",)
_NO_SUMMARIES = re.compile(r"reasoning[._ ]summar", re.IGNORECASE)
_UNREADABLE = re.compile(
    r"invalid_encrypted_content|encrypted content\b.{0,400}\bcould not be"
    r"|items are not persisted|without its required",
    re.IGNORECASE | re.DOTALL,
)


def _parser(call: ModelCall) -> ResponsesParser:
    return ResponsesParser(call.used_ids(), secrets.token_hex(6))


def _note_refusals(alias: str, refused: RefusedParts) -> LearnFromError:
    """Notes in `refused` what a service did not take, so that no session ends at it.

    Accounts that did not prove who they are get no summaries of thoughts, and what one account's
    models thought cannot be read under the key of another.
    """

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        if error.kind != "invalid_request" or error.phase != "establish":
            return False
        refusal = f"{error.message} {error.raw}"
        before = len(refused.summaries) + len(refused.seals)
        if options.thinking_level != "off" and _NO_SUMMARIES.search(refusal):
            refused.summaries.add(model_id(options.model))
        if _UNREADABLE.search(refusal):
            refused.seals.update(packed_items(context.messages, alias))
        return len(refused.summaries) + len(refused.seals) > before

    return learns


@dataclass(frozen=True, slots=True, kw_only=True)
class InputItemWriter:
    """Writes history for the service `alias`. `unreadable` are seals that it refused before.

    Without `with_thoughts` what models thought stays away: one that does not think refuses it.
    """

    alias: str
    assets: AssetEncoder
    json_cache: JsonCache
    unreadable: Collection[str] = ()
    with_thoughts: bool = True

    def written(self, context: LlmContext) -> list[dict[str, Any]]:
        """What `memory` knows of the last request are the very objects they were then."""
        items: list[dict[str, Any]] = []
        history = drop_foreign_blocks(context.messages, self.alias)
        if self.unreadable or not self.with_thoughts:
            history = [self._readable(message) for message in history]
        for message in sendable_history(history):
            if isinstance(message, AssistantMessage) or _is_text(message.content):
                items += self.json_cache.of(message, self._items)
            else:
                # Read anew: an asset's file may be gone by now, and is too large to keep.
                items += self._items(message)
        return items

    def _readable(self, message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        content = tuple(
            block
            for block in message.content
            if _packed_item(block) not in self.unreadable
            and (self.with_thoughts or not isinstance(block, ThinkingBlock))
        )
        return message if content == message.content else replace(message, content=content)

    def _items(self, message: SendableMessage) -> list[dict[str, Any]]:
        match message:
            case UserMessage():
                return [{"role": "user", "content": self._content(message.content)}]
            case ToolResultMessage():
                output = self._content(message.content) or "(no output)"
                return [
                    {
                        "type": "function_call_output",
                        "call_id": message.tool_call_id,
                        "output": output,
                    }
                ]
            case AssistantMessage():
                return list(_answer(message))

    def _content(self, blocks: Sequence[TextBlock | Asset]) -> str | list[dict[str, Any]]:
        if _is_text(blocks):
            return joined_text(tuple(blocks))
        return [self._part(b) for b in blocks if not isinstance(b, TextBlock) or b.text]

    def _part(self, block: TextBlock | Asset) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "input_text", "text": block.text}
        encoded = self.assets.encoded(block)
        if encoded is None:
            return {"type": "input_text", "text": self.assets.missing(block)}
        url = f"data:{block.media_type};base64,{encoded}"
        if isinstance(block, ImageBlock):
            return {"type": "input_image", "detail": "auto", "image_url": url}
        return {
            "type": "input_file",
            "filename": block.name or "document.pdf",
            "file_data": url,
        }


def packed_items(messages: Sequence[Message], alias: str) -> Iterator[str]:
    """Every seal that a request with `messages` carries to the service `alias`."""
    for message in drop_foreign_blocks(messages, alias):
        if isinstance(message, AssistantMessage):
            yield from filter(None, map(_packed_item, message.content))


def _packed_item(block: object) -> str | None:
    if isinstance(block, CompactionBlock):
        return pack_item(block.data)
    return block.signature if isinstance(block, ThinkingBlock) else None


def _answer(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    """The items of one answer. What was thought goes only before what it led to."""
    thoughts: list[dict[str, Any]] = []
    for block, behind in zip(message.content, (*message.content[1:], None), strict=True):
        match block:
            case ThinkingBlock():
                item = unpack_item(block.signature)
                thought = reasoning_input(item) if item else None
                if item and thought and item["type"] == "reasoning":
                    thoughts.append(thought)
                continue
            case TextBlock():
                written = {"role": "assistant", "content": block.text, **_phase(behind)}
            case ToolCallBlock():
                written = _call(block)
            case CompactionBlock():
                if not block.data.get("encrypted_content") or "content" in block.data:
                    continue  # folded by a service that speaks another format
                written = dict(block.data)
        yield from thoughts
        thoughts = []
        yield written


def _phase(behind: object) -> dict[str, Any]:
    item = unpack_item(behind.signature) if isinstance(behind, ThinkingBlock) else None
    return {"phase": item["phase"]} if item and item.get("phase") else {}


def _call(call: ToolCallBlock) -> dict[str, Any]:
    # What did not parse is wrapped: only an object is accepted here.
    arguments = call.arguments if isinstance(call.arguments, dict) else {"unparsed": call.arguments}
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }


def _is_text(blocks: Sequence[TextBlock | Asset]) -> bool:
    return all(isinstance(block, TextBlock) for block in blocks)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    refused = RefusedParts()
    wire = ApiFormat(
        default_base_url=BASE_URL,
        path=lambda call: "/responses",
        history="input",
        key_env=KEY_ENV,
        headers=lambda call: bearer_header(call.key),
        body=partial(responses_request, refused=refused),
        parser=_parser,
    )
    return retry_without(
        make_stream_fn(wire, settings, http), _note_refusals(settings.alias, refused)
    )


PROVIDER = Provider(
    name="openai-responses",
    make=_make,
    default_base_url=BASE_URL,
)
