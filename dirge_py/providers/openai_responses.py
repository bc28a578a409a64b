"""OpenAI's Responses API, and services that speak it: requests and answers, as lists of items.

The service stores nothing, so each request holds the whole conversation. Encrypted thinking and the
phase of a message go back in their place: a `ThinkingBlock` carries such an item as JSON in its
`signature`, a `reasoning` item in its place, a `message` item without its text behind that text.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    Asset,
    AssetEncoder,
    LearnFromError,
    ModelCall,
    asset_encoder,
    call_arguments,
    function_tools,
    is_openai,
    is_text,
    make_stream_fn,
    own_blocks,
    retry_without,
)
from dirge_py.providers.catalog import thinking_effort
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.errors import declined_error
from dirge_py.providers.openai import cache_key, named_schema, tokens_with_thinking
from dirge_py.providers.registry import Provider
from dirge_py.providers.request_cache import SendableMessage, filter_blocks
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.providers.stream_parser import (
    ServiceError,
    StreamParser,
    as_count,
    as_object,
    as_objects,
    as_text,
    parse_json,
)
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    CompactionDone,
    LlmContext,
    NamedTool,
    StreamFn,
    StreamOptions,
    ThinkingEnd,
    ToolCallDelta,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    joined_text,
)

_LEAST_TOKENS = 16


@dataclass(slots=True)
class RefusedParts:
    """The parts that the service refused, so that they aren't sent again."""

    summaries: set[str] = field(default_factory=set)
    """The models for which this account gets no thinking summaries."""
    seals: set[str] = field(default_factory=set)
    """Signatures, and the JSON of compacted history, that the service can no longer decrypt."""


def responses_request(call: ModelCall, refused: RefusedParts) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options = call.context, call.options
    items = _input_items(call, refused.seals)
    body: dict[str, Any] = {"model": call.model}
    if context.system_prompt.strip():
        role = call.settings.quirks.system_role
        if role is None:
            body["instructions"] = context.system_prompt
        else:
            items.insert(0, {"role": role, "content": context.system_prompt})
    body["input"] = items
    if context.tools:
        # `strict`, the default, accepts few schemas.
        body["tools"] = call.tools(_tools)
        body["parallel_tool_calls"] = True
        choice = options.tool_choice
        if isinstance(choice, NamedTool):
            body["tool_choice"] = {"type": "function", "name": choice.name}
        elif choice != "auto":
            body["tool_choice"] = choice
    body |= _reasoning(call, with_summary=call.model not in refused.summaries)
    if call.max_output_tokens is not None:
        tokens = tokens_with_thinking(call, options.thinking_level)
        body["max_output_tokens"] = max(_LEAST_TOKENS, tokens)
    if options.response_schema is not None:
        body["text"] = {"format": {"type": "json_schema", **named_schema(options.response_schema)}}
    if is_openai(call.base_url) or call.settings.quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    return body | {"store": False, "stream": True}


def _tools(tools: Sequence[ToolSpec]) -> Iterator[dict[str, Any]]:
    for tool in function_tools(tools):
        yield {"type": "function", **tool["function"], "strict": False}


def _reasoning(call: ModelCall, *, with_summary: bool) -> dict[str, Any]:
    """The members for thinking; empty for a model that doesn't think, which would refuse them."""
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


_NO_SUMMARIES = late_pattern(r"reasoning[._ ]summar", re.IGNORECASE)
_UNREADABLE = late_pattern(
    r"invalid_encrypted_content|encrypted content\b.{0,400}\bcould not be"
    r"|items are not persisted|without its required",
    re.IGNORECASE | re.DOTALL,
)


def _note_refusals(alias: str, refused: RefusedParts) -> LearnFromError:
    """Return a function that adds to `refused` what a service did not accept.

    Accounts without a verified organization get no summaries, and can't decrypt others' items.
    """

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        if error.kind != "invalid_request" or error.phase != "establish":
            return False
        refusal = f"{error.message} {error.raw}"
        before = len(refused.summaries) + len(refused.seals)
        if options.thinking_level != "off" and _NO_SUMMARIES.search(refusal):
            refused.summaries.add(model_id(options.model))
        if _UNREADABLE.search(refusal):
            answers = filter_blocks(context.messages, own_blocks(alias))
            blocks = (b for m in answers if isinstance(m, AssistantMessage) for b in m.content)
            refused.seals.update(filter(None, map(_packed_item, blocks)))
        return len(refused.summaries) + len(refused.seals) > before

    return learns


def _input_items(call: ModelCall, refused_seals: Collection[str]) -> list[dict[str, Any]]:
    """History as the items of a request, without seals that the service refused before."""
    # OpenAI's models that don't think refuse thinking.
    with_thinking = call.profile.thinking or not is_openai(call.base_url)
    is_own, refused = own_blocks(call.settings.alias), frozenset(refused_seals)

    def keep(message: AssistantMessage, block: AssistantBlock) -> bool:
        is_thought = isinstance(block, ThinkingBlock)
        is_accepted = (with_thinking or not is_thought) and _packed_item(block) not in refused
        return is_accepted and is_own(message, block)

    history = call.sendable(keep, key=(with_thinking, refused))
    assets = asset_encoder(call.profile, call.context.asset_dir)
    return call.encoded(history, partial(_turn_items, assets=assets), key=assets)


def _turn_items(turn: Sequence[SendableMessage], assets: AssetEncoder) -> Iterator[dict[str, Any]]:
    for message in turn:
        yield from _items(message, assets)


def _items(message: SendableMessage, assets: AssetEncoder) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": _content(message.content, assets)}]
        case ToolResultMessage():
            output = _content(message.content, assets) or "(no output)"
            call_id = message.tool_call_id
            return [{"type": "function_call_output", "call_id": call_id, "output": output}]
        case AssistantMessage():
            return list(_answer(message))


def _content(
    blocks: Sequence[TextBlock | Asset], assets: AssetEncoder
) -> str | list[dict[str, Any]]:
    if is_text(blocks):
        return joined_text(tuple(blocks))
    return [_part(b, assets) for b in blocks if not isinstance(b, TextBlock) or b.text]


def _part(block: TextBlock | Asset, assets: AssetEncoder) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "input_text", "text": block.text}
    encoded = assets.encoded(block)
    if encoded is None:
        return {"type": "input_text", "text": assets.missing(block)}
    url = f"data:{block.media_type};base64,{encoded}"
    if isinstance(block, ImageBlock):
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return {"type": "input_file", "filename": block.name or "document.pdf", "file_data": url}


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


_Part: TypeAlias = tuple[str, int]
"""The list of an item's parts, and the place in it."""
_ARGUMENTS: _Part = ("arguments", 0)
_GROWN: Mapping[str, tuple[str, str, str]] = {
    "response.output_text": ("message", "content", "text"),
    "response.refusal": ("message", "refusal", "refusal"),
    "response.reasoning_summary_text": ("reasoning", "summary", "text"),
    "response.reasoning_text": ("reasoning", "content", "text"),
    "response.function_call_arguments": ("function_call", "arguments", "arguments"),
}
"""What an event's name begins with → the kind of the item, the list of its part, and the member
that holds the whole of it in the event that ends it."""
_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})
_FAILURES = frozenset({"failed", "cancelled"})


@dataclass(slots=True)
class _Item:
    kind: str
    key: str
    raw: Mapping[str, Any]
    call_id: str = ""
    """The id of a call; empty while it has no name."""
    parts: dict[_Part, list[str]] = field(default_factory=dict)
    is_over: bool = False

    def text_of(self, part: _Part) -> str:
        return "".join(self.parts.get(part, ()))


class ResponsesParser(StreamParser):
    """Parses an answer. The `type` in the JSON tells events apart: not all services send names.

    The same text comes as pieces, as a whole part, as a whole item, and in the whole answer, and
    servers leave out any of these. Each time only the new text is emitted.
    """

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._items: list[_Item] = []
        self._at_index: dict[int | str, _Item] = {}
        self._why_incomplete = ""
        self._refusal = ""

    @property
    def call_is_open(self) -> bool:
        return any(item.kind == "function_call" and not item.is_over for item in self._items)

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        kind = as_text(payload.get("type")) or name
        subject, _, step = kind.rpartition(".")
        response = as_object(payload.get("response"))
        if (response or subject) and kind != "response.failed":
            self._start(response.get("model"))
        if subject in _GROWN:
            self._grow(subject, step, payload)
        elif subject == "response.output_item":
            raw = as_object(payload.get("item"))
            item = self._item(as_text(raw.get("type")), payload, raw)
            if step == "done":
                self._close(item, raw)
            elif not item.is_over:
                self._announce(item, raw)
        elif kind in _ENDS:
            self._complete_answer(response)
        elif kind == "response.failed":
            self._report(as_object(response.get("error")))
        elif kind == "error" or payload.get("error"):
            self._report(as_object(payload.get("error")) or payload)

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        if payload.get("error") or not isinstance(payload.get("output"), list):
            raise ServiceError(payload)
        self._start(payload.get("model"))
        self._complete_answer(payload)

    def _is_whole(self) -> bool:
        return self.is_settled or (self.has_content and not self.call_is_open)

    def _end(self) -> None:
        for item in self._items:
            self._close(item, item.raw)
        if self._refusal or self._why_incomplete == "content_filter":
            self._fail(declined_error(self._refusal))
        else:
            self._done("length" if self._stop == "incomplete" else "stop")

    def _complete_answer(self, response: Mapping[str, Any]) -> None:
        self._stop = as_text(response.get("status")) or "completed"
        if self._stop in _FAILURES:
            self._report(as_object(response.get("error")))
            return
        details = as_object(response.get("incomplete_details"))
        self._why_incomplete = as_text(details.get("reason"))
        self._usage = _usage(as_object(response.get("usage")))
        for place, raw in enumerate(as_objects(response.get("output"))):
            self._close(self._known(place, raw) or self._new(place, raw), raw)
        self._finish()

    def _report(self, error: Mapping[str, Any]) -> None:
        """End with a refusal. Raises ServiceError for any other error."""
        if error.get("code") not in _POLICY:
            raise ServiceError(_failure_body(error))
        self._stop = "failed"
        self._refusal = as_text(error.get("message")) or as_text(error.get("code"))
        self._finish()

    def _item(self, kind: str, payload: Mapping[str, Any], raw: Mapping[str, Any]) -> _Item:
        """The item of an event, which may be a new one.

        Some services give each event another id, others number every item 0. So the number counts
        first, unless it belongs to an item that has ended, or of another kind.
        """
        item_id = as_text(payload.get("item_id")) or as_text(raw.get("id"))
        index = payload.get("output_index")
        place = index if isinstance(index, int) else item_id
        item = self._at_index.get(place)
        is_other = item is not None and item.is_over and item_id not in ("", item.raw.get("id"))
        if item is not None and item.kind == kind and not is_other:
            return item
        same_kind = (i for i in self._items if i.kind == kind and item_id)
        same_id = (i for i in same_kind if i.raw.get("id") == item_id)
        return next(same_id, None) or self._new(place, {"id": item_id, "type": kind, **raw})

    def _known(self, place: int, raw: Mapping[str, Any]) -> _Item | None:
        """The item at `place` of the whole answer, if a part of it came before."""
        kind = as_text(raw.get("type"))
        for name in ("id", "call_id"):
            value = as_text(raw.get(name))
            for item in self._items:
                if value and item.kind == kind and item.raw.get(name) == value:
                    return item
        item_there = self._at_index.get(place)
        return item_there if item_there is not None and item_there.kind == kind else None

    def _new(self, place: int | str, raw: Mapping[str, Any]) -> _Item:
        item = _Item(as_text(raw.get("type")), str(len(self._items)), raw)
        self._items.append(item)
        self._at_index[place] = item
        return item

    def _announce(self, item: _Item, raw: Mapping[str, Any]) -> None:
        """Update an item; a call begins once it has a name."""
        item.raw = {**item.raw, **raw}
        name = as_text(item.raw.get("name"))
        if item.kind == "function_call" and not item.call_id and name:
            item.call_id = self._free_id(as_text(item.raw.get("call_id")))
            self._call(item.key, item.call_id, name, item.text_of(_ARGUMENTS))

    def _close(self, item: _Item, raw: Mapping[str, Any]) -> None:
        if item.is_over:
            return
        self._announce(item, raw)
        item.is_over = True
        match item.kind:
            case "message":
                self._complete_parts(item, "content")
                phase = as_text(item.raw.get("phase"))
                if phase and item.parts:
                    seal = pack_item({"type": "message", "phase": phase})
                    self._events.append(ThinkingEnd(signature=seal))
            case "reasoning":
                self._complete_parts(item, "summary")
                self._complete_parts(item, "content")
                is_sealed = reasoning_input(item.raw) is not None
                if is_sealed or item.parts:
                    signature = pack_item(item.raw) if is_sealed else None
                    self._events.append(ThinkingEnd(signature=signature))
            case "function_call" if item.call_id:
                self._close_call(item)
            case "compaction":
                self._events.append(CompactionDone(data=dict(item.raw)))

    def _close_call(self, item: _Item) -> None:
        value = item.raw.get("arguments")
        whole = json.dumps(value) if isinstance(value, dict) else as_text(value)
        self._complete(item, _ARGUMENTS, whole)
        # The whole counts if the pieces differ from it.
        replaced = parse_json(whole) if whole and item.text_of(_ARGUMENTS) != whole else None
        arguments = replaced if isinstance(replaced, dict) else None
        self._end_call(item.key, item.call_id, arguments)

    def _grow(self, subject: str, step: str, payload: Mapping[str, Any]) -> None:
        kind, listed, member = _GROWN[subject]
        item = self._item(kind, payload, {})
        if item.is_over:
            return
        place = payload.get("summary_index" if listed == "summary" else "content_index")
        part = (listed, place if isinstance(place, int) else 0)
        if step == "delta":
            self._add_text(item, part, as_text(payload.get("delta")))
        elif step == "done":
            self._complete(item, part, as_text(payload.get(member)))

    def _complete_parts(self, item: _Item, listed: str) -> None:
        for place, part in enumerate(as_objects(item.raw.get(listed))):
            if refusal := as_text(part.get("refusal")):
                self._complete(item, ("refusal", place), refusal)
            else:
                self._complete(item, (listed, place), as_text(part.get("text")))

    def _complete(self, item: _Item, part: _Part, whole: str) -> None:
        """Emit the text of `whole` behind the pieces that came before."""
        known = item.text_of(part)
        if whole.startswith(known):
            self._add_text(item, part, whole[len(known) :])

    def _add_text(self, item: _Item, part: _Part, text: str) -> None:
        if not text:
            return
        if item.kind == "reasoning" and item.parts and part not in item.parts:
            if part[0] not in {listed for listed, _ in item.parts}:
                return  # a summary behind the thinking itself, or the other way round
            self._think("\n\n")
        item.parts.setdefault(part, []).append(text)
        match item.kind:
            case "message":
                self._refusal += text if part[0] == "refusal" else ""
                self._text(text)
            case "reasoning":
                self._think(text)
            case "function_call" if item.call_id:
                self._events.append(ToolCallDelta(key=item.key, arguments=text))


def _usage(counted: Mapping[str, Any]) -> Usage | None:
    details = as_object(counted.get("input_tokens_details"))
    written = as_count(counted.get("output_tokens"))
    thought = as_count(as_object(counted.get("output_tokens_details")).get("reasoning_tokens"))
    used = Usage(
        input=as_count(counted.get("input_tokens")),
        output=written,
        cache_read=as_count(details.get("cached_tokens")),
        cache_write=as_count(details.get("cache_write_tokens")),
        reasoning=min(thought, written),
    )
    return used or None


_POLICY = frozenset(
    {
        *("bio_policy", "cyber_policy", "content_policy_violation"),
        *("misalignment_policy_violation", "image_content_policy_violation"),
    }
)
"""The codes of refusals, which a retry does not change."""


def _failure_body(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of a `ServiceError`, with a type where the code doesn't say whose fault it was."""
    members = {name: value for name, value in error.items() if value is not None}
    code = as_text(members.get("code"))
    if not members:
        members = {"type": "server_error", "message": "the answer failed, and no reason was given"}
    elif code.startswith("invalid_") or "image" in code or code == "data_residency_mismatch":
        members["type"] = "invalid_request_error"
    return {"error": members}


_PACKED_TYPES = frozenset({"reasoning", "message"})
# Some backends give out longer ids, but refuse them.
_MAX_ID_CHARS = 64


def pack_item(item: Mapping[str, Any]) -> str:
    """The `ThinkingBlock.signature` that holds `item`, with every member as it came."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))


def unpack_item(signature: str | None) -> Mapping[str, Any] | None:
    """The item that `pack_item` packed; None for another service's signature."""
    item = parse_json(signature) if signature and signature.startswith("{") else None
    return item if isinstance(item, dict) and item.get("type") in _PACKED_TYPES else None


def reasoning_input(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A `reasoning` item as input; None without content, as the service doesn't store items."""
    encrypted, content = as_text(item.get("encrypted_content")), as_objects(item.get("content"))
    if not (encrypted or content):
        return None
    item_id = as_text(item.get("id"))
    written: dict[str, Any] = {"type": "reasoning"}
    if item_id and len(item_id) <= _MAX_ID_CHARS:
        written["id"] = item_id
    written["summary"] = as_objects(item.get("summary"))
    # Servers of open models take readable thinking; OpenAI refuses it beside its encrypted form.
    return written | ({"encrypted_content": encrypted} if encrypted else {"content": content})


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    refused = RefusedParts()
    responses_format = ApiFormat(
        name="openai-responses",
        path=lambda call: "/responses",
        headers=lambda call: bearer_header(call.key),
        body=partial(responses_request, refused=refused),
        sampling=("temperature", "top_p", ""),
        parser=ResponsesParser,
    )
    return retry_without(
        make_stream_fn(responses_format, settings, http), _note_refusals(settings.alias, refused)
    )


PROVIDER = Provider(name="openai-responses", make=_make)
