"""OpenAI's Responses API, and services that speak it: the provider and its requests.

The service stores nothing: each request holds the whole conversation, as a list of items.
"""

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    JsonCache,
    LearnFromError,
    ModelCall,
    SendableMessage,
    call_arguments,
    drop_foreign_blocks,
    filter_blocks,
    make_stream_fn,
    retry_without,
    sendable_history,
)
from dirge_py.providers.catalog import thinking_effort
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.media import Asset, AssetEncoder, asset_encoder, is_text
from dirge_py.providers.openai import cache_key, is_openai, named_schema, tokens_with_thinking
from dirge_py.providers.openai_responses_stream import (
    ResponsesParser,
    pack_item,
    reasoning_input,
    unpack_item,
)
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
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

_LEAST_TOKENS = 16


@dataclasses.dataclass(slots=True)
class RefusedParts:
    """What the service refused before, so that it isn't sent again."""

    summaries: set[str] = field(default_factory=set)
    """The models for which this account gets no thinking summaries."""
    seals: set[str] = field(default_factory=set)
    """Signatures, and the JSON of compacted history, that the service can no longer decrypt."""


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
        tokens = tokens_with_thinking(call, options.thinking_level)
        body["max_output_tokens"] = max(_LEAST_TOKENS, tokens)
    if options.response_schema is not None:
        body["text"] = {"format": {"type": "json_schema", **named_schema(options.response_schema)}}
    if is_openai(call.base_url) or call.settings.quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    return body | {"store": False, "stream": True}


def _reasoning(call: ModelCall, *, with_summary: bool) -> dict[str, Any]:
    """The members for thinking: how much, whether it is shown, and that it comes back encrypted.

    Empty for a model that doesn't think, which would refuse each of them.
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


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        # Strict, the default, accepts few schemas.
        "strict": False,
    }


def _choice(choice: ToolChoice) -> Mapping[str, Any]:
    if choice == "auto":
        return {}
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "name": choice.name}}
    return {"tool_choice": choice}


_NO_SUMMARIES = re.compile(r"reasoning[._ ]summar", re.IGNORECASE)
_UNREADABLE = re.compile(
    r"invalid_encrypted_content|encrypted content\b.{0,400}\bcould not be"
    r"|items are not persisted|without its required",
    re.IGNORECASE | re.DOTALL,
)


def _note_refusals(alias: str, refused: RefusedParts) -> LearnFromError:
    """Records in `refused` what a service did not accept, so that the session can continue.

    Accounts without a verified organization get no thinking summaries, and one account can't
    decrypt the thinking of another.
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
    """Writes history as the input items of a request."""

    alias: str
    """The service, by its name in the settings."""
    assets: AssetEncoder
    """Encodes images and documents."""
    json_cache: JsonCache
    """Items of the last request, which are used again as the same objects."""
    unreadable: Collection[str] = ()
    """Seals that the service refused before."""
    with_thoughts: bool = True
    """Whether thinking is sent; a model that doesn't think refuses it."""

    def written(self, context: LlmContext) -> list[dict[str, Any]]:
        """The items of all messages."""
        items: list[dict[str, Any]] = []
        history = drop_foreign_blocks(context.messages, self.alias)
        if self.unreadable or not self.with_thoughts:
            history = filter_blocks(
                history,
                lambda block: (
                    _packed_item(block) not in self.unreadable
                    and (self.with_thoughts or not isinstance(block, ThinkingBlock))
                ),
            )
        for message in sendable_history(history):
            if isinstance(message, AssistantMessage) or is_text(message.content):
                items += self.json_cache.of(message, self._items)
            else:
                # Not cached: an asset's file may be gone by now, and is too large to keep.
                items += self._items(message)
        return items

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
        if is_text(blocks):
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
    """The seals in `messages` that a request sends to the service `alias`."""
    for message in drop_foreign_blocks(messages, alias):
        if isinstance(message, AssistantMessage):
            yield from filter(None, map(_packed_item, message.content))


def _packed_item(block: object) -> str | None:
    if isinstance(block, CompactionBlock):
        return pack_item(block.data)
    return block.signature if isinstance(block, ThinkingBlock) else None


def _answer(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    """The items of one answer. Thinking is sent only before the item that it led to."""
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
                written = {
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": json.dumps(call_arguments(block), ensure_ascii=False),
                }
            case CompactionBlock():
                if not block.data.get("encrypted_content") or "content" in block.data:
                    continue  # compacted by a service with another format
                written = dict(block.data)
        yield from thoughts
        thoughts = []
        yield written


def _phase(behind: object) -> dict[str, Any]:
    item = unpack_item(behind.signature) if isinstance(behind, ThinkingBlock) else None
    return {"phase": item["phase"]} if item and item.get("phase") else {}


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    refused = RefusedParts()
    responses_format = ApiFormat(
        name="openai-responses",
        path=lambda call: "/responses",
        history="input",
        headers=lambda call: bearer_header(call.key),
        body=partial(responses_request, refused=refused),
        parser=ResponsesParser,
    )
    return retry_without(
        make_stream_fn(responses_format, settings, http), _note_refusals(settings.alias, refused)
    )


PROVIDER = Provider(name="openai-responses", make=_make)
