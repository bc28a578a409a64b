"""OpenAI's Chat Completions, and every service that speaks it: requests and answers.

OpenRouter's `reasoning_details` hold the thinking in the form that the model's maker wants back.
They come in pieces and go back whole, in order, with every member as it came.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    Asset,
    AssetEncoder,
    ModelCall,
    asset_encoder,
    call_arguments,
    encode_messages,
    function_tools,
    is_openai,
    make_stream_fn,
    own_blocks,
    result_texts,
)
from dirge_py.providers.catalog import thinking_budget, thinking_effort
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.errors import declined_error
from dirge_py.providers.registry import Provider
from dirge_py.providers.request_cache import SendableMessage
from dirge_py.providers.settings import ProviderSettings, merge_bodies
from dirge_py.providers.stream_parser import (
    ServiceError,
    StreamParser,
    as_amount,
    as_count,
    as_object,
    as_objects,
    as_text,
    parse_json,
)
from dirge_py.types.errors import ProviderError
from dirge_py.types.history import WireFormat
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamFn,
    SystemText,
    ThinkingEnd,
    ThinkingLevel,
    ToolCallDelta,
)
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    joined_text,
)

_SCHEMA_WORDS = "Answer with one JSON object that follows this JSON Schema, and with nothing else:"
_NOT_NAME_CHARS = late_pattern(r"[^A-Za-z0-9_-]+")


def chat_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches.

    OpenAI itself wants `max_completion_tokens`; compatible servers know the older `max_tokens`.
    Other differences between services are in `Quirks`.
    """
    context, options, profile = call.context, call.options, call.profile
    quirks, official = call.settings.quirks, is_openai(call.base_url)
    is_forced = options.tool_choice not in {"auto", "none"}
    level = options.thinking_level
    if is_forced and not quirks.thinks_when_forced:
        level = "off"
    default_role = "developer" if official and profile.thinking else "system"
    messages = _messages(call, quirks.system_role or default_role)
    if options.response_schema is not None and quirks.structured not in (None, "json_schema"):
        schema = json.dumps(options.response_schema.schema, ensure_ascii=False)
        messages.append({"role": "user", "content": f"{_SCHEMA_WORDS}\n{schema}"})
    body: dict[str, Any] = {"model": call.model, "messages": messages}
    if context.tools:
        body["tools"] = call.tools(function_tools)
        choice = options.tool_choice
        if isinstance(choice, NamedTool):
            body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice != "auto":
            body["tool_choice"] = choice
    body["stream"] = True
    if official or quirks.cache_key:
        body["prompt_cache_key"] = cache_key(context)
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if call.max_output_tokens is not None:
        default = "max_completion_tokens" if official else "max_tokens"
        body[quirks.max_tokens_field or default] = tokens_with_thinking(call, level)
    if options.response_schema is not None and quirks.structured != "none":
        body["response_format"] = {"type": quirks.structured or "json_schema"}
        if quirks.structured != "json_object":
            body["response_format"]["json_schema"] = named_schema(options.response_schema)
    body = merge_bodies(body, _thinking(call, level))
    for start, members in quirks.body_of.items():
        if call.model.startswith(start):
            body = merge_bodies(body, members)
    return body


def _thinking(call: ModelCall, level: ThinkingLevel) -> Mapping[str, Any]:
    """The members that ask for thinking."""
    profile, quirks, official = call.profile, call.settings.quirks, is_openai(call.base_url)
    if quirks.thinking is not None:
        return quirks.thinking.get(level, {})
    if official and not profile.thinking:
        return {}
    if official and call.context.tools and not profile.effort_with_tools:
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


def named_schema(wanted: ResponseSchema) -> dict[str, Any]:
    """The schema of the answer as OpenAI's interfaces describe it."""
    is_object = wanted.schema.get("type") == "object" and "anyOf" not in wanted.schema
    return {
        "name": _NOT_NAME_CHARS.sub("_", wanted.name)[:64] or "answer",
        "schema": dict(wanted.schema),
        "strict": is_object and _fits_strict(wanted.schema),
    }


def _messages(call: ModelCall, system_role: str) -> list[dict[str, Any]]:
    """The messages; those of the last request are the same objects as then."""
    context, back = call.context, call.settings.quirks.thinking_back
    # Reasoning details are valid only for the model that wrote them.
    model = call.model if back == "reasoning_details" else ""
    wire = WireFormat(
        unsigned_thinking=back in {"reasoning_content", "reasoning"},
        call_id_chars=call.settings.quirks.call_id_chars,
    )
    if back:
        history = call.sendable(own_blocks(call.settings.alias, model), key=model, wire=wire)
    else:
        history = call.sendable(wire=wire)
    assets = asset_encoder(call.profile, context.asset_dir)

    def of_user(blocks: Sequence[TextBlock | Asset]) -> dict[str, Any]:
        parts = [_part(b, assets) for b in blocks if not isinstance(b, TextBlock) or b.text]
        return {"role": "user", "content": parts}

    encode = partial(_message, thinking_back=back)
    encode_turn = partial(encode_messages, encode=encode, encode_user=of_user)
    messages = call.encoded(history, encode_turn, key=assets)
    if context.system_prompt.strip():
        messages.insert(0, {"role": system_role, "content": context.system_prompt})
    return messages


def _message(message: SendableMessage, *, thinking_back: str) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message, thinking_back)
        case ToolResultMessage():
            content = "\n".join(result_texts(message))
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}


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
    if message.calls:
        arguments = (json.dumps(call_arguments(c), ensure_ascii=False) for c in message.calls)
        written["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": text}}
            for c, text in zip(message.calls, arguments, strict=True)
        ]
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


def _fits_strict(schema: Any) -> bool:
    """Whether `schema` can be `strict`: all objects are closed and require all properties."""
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
    return all(map(_fits_strict, inner))


def cache_key(context: LlmContext) -> str:
    """The cache key of the stable prefix: the same for a conversation until it is folded."""
    prompt = context.system_prompt
    stable = prompt.stable_chars if isinstance(prompt, SystemText) else len(prompt)
    asked = (message.text for message in context.messages if isinstance(message, UserMessage))
    first = next(asked, "")
    beginning = f"{prompt[:stable]}\0{first}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(beginning).hexdigest()[:32]


_STOP_REASONS: Mapping[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_REFUSED = frozenset({"content_filter", "refusal", "sensitive"})
_FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})


@dataclass(slots=True)
class _OpenCall:
    key: str
    id: str
    given_id: str
    """As the service wrote it."""
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    whole: Any = None


class OpenAIParser(StreamParser):
    """Parses an answer of Chat Completions."""

    def __init__(
        self,
        taken: frozenset[str] = frozenset(),
        new_id: str = "",
        *,
        keeps_details: bool = False,
        tells_cost: bool = False,
    ) -> None:
        """`keeps_details` stores `reasoning_details` as signatures; `tells_cost` as in `Quirks`."""
        super().__init__(taken, new_id)
        self._details: list[_ReasoningDetail] = []
        self._keeps_details = keeps_details
        self._tells_cost = tells_cost
        self._refusal = ""
        self._calls: list[_OpenCall] = []
        self._at_index: dict[Any, _OpenCall] = {}

    @property
    def call_is_open(self) -> bool:
        return self._has_calls and not self._stop

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        if not self._is_started:
            self._start(payload.get("model"))
        choices = payload.get("choices")
        choice = as_object(choices[0]) if isinstance(choices, list) and choices else {}
        # Services put the counts in different places.
        counts = payload.get("usage") or choice.get("usage")
        if "x_groq" in payload:
            counts = counts or as_object(payload["x_groq"]).get("usage")
        if counts and (usage := as_object(counts)):
            charged_usd = _charged_usd(usage) if self._tells_cost else None
            self._usage = replace(_usage(usage), charged_usd=charged_usd)
        if choice:
            if choice.get("error"):
                raise ServiceError(choice)
            self._delta(as_object(choice.get("delta")))
            if "message" in choice:
                self._message(as_object(choice["message"]))
            if reason := choice.get("finish_reason"):
                self._stop = as_text(reason) or self._stop

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        if not as_objects(payload.get("choices")):
            raise ServiceError(payload)
        self._read("", payload)
        self._stop = self._stop or "stop"

    def _is_whole(self) -> bool:
        return bool(self._stop or self.has_content)

    def _end(self) -> None:
        if self._stop in _REFUSED or self._refusal:
            self._fail(declined_error(self._refusal))
        elif self._stop in _FAILED:
            error = "The model stopped with an error."
            self._fail(ProviderError(error, kind="server", phase="stream"))
        else:
            self._end_thinking()
            for call in self._calls:
                self._end_call(call.key, call.id, call.whole)
            self._done(_STOP_REASONS.get(self._stop, "stop"))

    def _delta(self, delta: Mapping[str, Any]) -> None:
        text = delta.get("content")
        if text and isinstance(text, str):
            self._text(text)
            if len(delta) == 1:
                return
        details = as_objects(delta.get("reasoning_details"))
        # The name differs between services, and some send the same text under two names.
        thinking = as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning"))
        readable = (as_text(part.get("text")) or as_text(part.get("summary")) for part in details)
        self._think(thinking or "".join(readable))
        for piece in details if self._keeps_details else ():
            if self._details and self._details[-1].is_continued_by(piece):
                self._details[-1].grow(piece)
            else:
                self._details.append(_ReasoningDetail(piece))
        for part in as_objects(text):
            self._part(part)
        refusal = as_text(delta.get("refusal"))
        self._refusal += refusal
        self._text(refusal)
        for position, call in enumerate(as_objects(delta.get("tool_calls"))):
            self._end_thinking()
            self._grow_call(call, position)

    def _part(self, part: Mapping[str, Any]) -> None:
        """Emit a part of a list of content; Mistral's models send their thinking in such parts."""
        if part.get("type") != "thinking":
            self._text(as_text(part.get("text")))
            return
        inner = part.get("thinking")
        listed = "".join(as_text(item.get("text")) for item in as_objects(inner))
        self._think(as_text(inner) or listed)

    def _message(self, message: Mapping[str, Any]) -> None:
        """Emit a whole message: the answer, or its repetition behind the deltas."""
        calls = as_objects(message.get("tool_calls"))
        new = {"refusal": message.get("refusal")} if self.has_content else message
        self._delta({**new, "tool_calls": None})
        for position, call in enumerate(calls):
            self._grow_call({"index": position, **call}, position)

    def _end_thinking(self) -> None:
        if self._is_thinking or self._details:
            details = [detail.joined() for detail in self._details]
            signature = json.dumps(details, ensure_ascii=False) if details else None
            self._is_thinking, self._details = False, []
            self._events.append(ThinkingEnd(signature=signature))

    def _grow_call(self, raw: Mapping[str, Any], position: int) -> None:
        function = as_object(raw.get("function"))
        name, given_id = as_text(function.get("name")), as_text(raw.get("id"))
        arguments = function.get("arguments")
        call = self._known(raw.get("index"), given_id, name)
        if call is None:
            call = _OpenCall(str(len(self._calls)), self._free_id(given_id), given_id)
            self._calls.append(call)
            self._at_index[raw.get("index", position)] = call
            self._call(call.key, call.id, name)
        elif name and not call.pieces:
            self._events.append(ToolCallDelta(key=call.key, name=name))
        if isinstance(arguments, dict):
            call.whole = arguments
        elif isinstance(arguments, str) and arguments:
            is_as_long = len(arguments) == call.chars
            if is_as_long and "".join(call.pieces) == arguments and _is_whole(call):
                return  # it repeats the whole call behind its pieces
            call.pieces.append(arguments)
            call.chars += len(arguments)
            self._events.append(ToolCallDelta(key=call.key, arguments=arguments))

    def _known(self, index: Any, given_id: str, name: str) -> _OpenCall | None:
        """The call that a piece belongs to; None for a new call.

        Most services number their calls; some number all of them 0 and use ids, some do neither.
        """
        at_index = self._at_index.get(index) if index is not None else None
        if at_index is not None:
            is_other = given_id and name and at_index.pieces and given_id != at_index.given_id
            return None if is_other and _is_whole(at_index) else at_index
        by_id = next((call for call in self._calls if given_id and call.given_id == given_id), None)
        if by_id is not None and (index is None or not _is_whole(by_id)):
            return by_id
        if index is None and not given_id and not name and self._calls:
            return self._calls[-1]
        return None


def _is_whole(call: _OpenCall) -> bool:
    if call.whole is not None:
        return True
    # A cheap check first: parsing all of it for each of thousands of pieces would take minutes.
    if not (call.pieces and call.pieces[-1].rstrip().endswith("}")):
        return False
    return isinstance(parse_json("".join(call.pieces)), dict)


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = as_object(usage.get("prompt_tokens_details"))
    read, written = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
    thought = as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if thought and as_count(usage.get("total_tokens")) == read + written + thought:
        # Most services count thinking as a part of the answer, some beside it.
        written += thought
    return Usage(
        input=read,
        output=written,
        cache_read=as_count(details.get("cached_tokens"))
        or as_count(usage.get("prompt_cache_hit_tokens")),
        cache_write=as_count(details.get("cache_write_tokens")),
        reasoning=min(thought, written),
    )


def _charged_usd(usage: Mapping[str, Any]) -> float | None:
    """The price of the call. With the user's own key the model's maker charges for it as well."""
    charged = as_amount(usage.get("cost"))
    if charged is None or usage.get("is_byok") is not True:
        return charged
    made = as_amount(as_object(usage.get("cost_details")).get("upstream_inference_cost"))
    return None if made is None else charged + made


_GROWING = ("text", "summary", "data")


class _ReasoningDetail:
    """A reasoning detail, put together from its pieces."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._members = dict(first)
        self._texts = {
            name: [text] for name in _GROWING if isinstance(text := first.get(name), str)
        }

    def is_continued_by(self, piece: Mapping[str, Any]) -> bool:
        # Encrypted details come whole, and several may follow each other.
        here = self._members
        if piece.get("type") != here.get("type") or "data" in piece:
            return False
        same_id = piece.get("id") is None or piece.get("id") == here.get("id")
        return piece.get("index") == here.get("index") and same_id and not here.get("signature")

    def grow(self, piece: Mapping[str, Any]) -> None:
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value is not None:
                self._members[name] = value
            else:
                self._members.setdefault(name, None)

    def joined(self) -> dict[str, Any]:
        return self._members | {name: "".join(pieces) for name, pieces in self._texts.items()}


def unpack_details(signature: str | None) -> list[Mapping[str, Any]]:
    """The reasoning details in a signature of `OpenAIParser`; none in any other signature."""
    return as_objects(parse_json(signature)) if signature and signature.startswith("[") else []


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
