"""Anthropic's Messages API, and services that speak it: requests and answers.

In a request the roles alternate, thinking goes back unchanged, and the prefix that later requests
share is marked for the cache: at most four marks, each behind content that doesn't change. A later
request looks back only about twenty blocks from each of its own marks for a marked prefix.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from dirge_py.lib.lazy import late_pattern
from dirge_py.providers.adapter import (
    ApiFormat,
    Asset,
    AssetEncoder,
    HistoryEntry,
    ModelCall,
    ToolMedia,
    asset_encoder,
    call_arguments,
    make_stream_fn,
    own_blocks,
    result_texts,
    with_tool_media,
)
from dirge_py.providers.catalog import ModelProfile, thinking_budget, thinking_effort
from dirge_py.providers.errors import declined_error
from dirge_py.providers.registry import Provider
from dirge_py.providers.request_cache import SendableMessage
from dirge_py.providers.stream_parser import (
    ServiceError,
    StreamParser,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.llm import (
    CompactionDone,
    NamedTool,
    SystemText,
    ThinkingBudgets,
    ThinkingEnd,
    ThinkingLevel,
    ToolCallDelta,
    ToolChoice,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

Blocks = list[dict[str, Any]]
_MAX_CACHE_MARKS = 4


def _marked(block: Mapping[str, Any], cache_ttl: str | None) -> dict[str, Any]:
    ttl = {} if cache_ttl in {None, "5m"} else {"ttl": cache_ttl}
    return {**block, "cache_control": {"type": "ephemeral", **ttl}}


def _mark_messages(
    messages: list[dict[str, Any]], unstable_blocks: int, cache_ttl: str | None, *, marks: int
) -> None:
    """Mark the last two stable user messages, the last one first, with at most `marks` marks.

    The last `unstable_blocks` blocks may be for this request only. The one before the last is where
    the last request was marked, however much the turn added.
    """
    marks = min(marks, 2)
    for position in reversed(range(len(messages))):
        if not marks:
            return
        content = messages[position]["content"]
        last = len(content) - 1 - unstable_blocks
        unstable_blocks = 0
        if messages[position]["role"] == "user" and last >= 0:
            marked = [*content[:last], _marked(content[last], cache_ttl), *content[last + 1 :]]
            # A copy, as the message itself serves later requests, which mark others.
            messages[position] = {"role": "user", "content": marked}
            marks -= 1


_HISTORY_EDITS: Mapping[str, str] = {
    "context-management-2025-06-27": "clear_tool_uses_20250919",
    "compact-2026-01-12": "compact_20260112",
}
"""The edits of old history that the service makes itself, by the beta that enables each."""


def _headers(call: ModelCall) -> Mapping[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    if call.key:
        headers["x-api-key"] = call.key
    if call.profile.binds_thinking:
        # The request says how it is used (`block_binding`).
        headers["anthropic-beta"] = "thinking-binding-controls-2026-08-01"
    return headers


_LEAST_BUDGET = 1024
_REPLY_TOKENS = 32_000
_UNKNOWN_MODEL_REPLY_TOKENS = 8192
# Signatures of other services aren't base64, and would be refused.
_SIGNATURE = late_pattern(r"[A-Za-z0-9+/=_-]+")


def messages_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for the cache."""
    context, options, profile = call.context, call.options, call.profile
    is_own = own_blocks(call.settings.alias)
    history = call.sendable(lambda message, block: _is_readable(block) and is_own(message, block))
    choice = _choice(options.tool_choice, profile) if context.tools else None
    is_forced = choice is not None and choice["type"] in {"any", "tool"}
    level = options.thinking_level
    if is_forced or (not profile.adaptive_thinking and not _can_think(history)):
        level = "off"
    elif level == "off" and profile.thinks_always:
        # Thinking can't be turned off, so ask for as little as possible, but show it.
        level = "minimal"
    body: dict[str, Any] = {"model": call.model, "stream": True}
    usual_tokens = min(profile.max_output_tokens or _UNKNOWN_MODEL_REPLY_TOKENS, _REPLY_TOKENS)
    reply_tokens = call.max_output_tokens or usual_tokens
    body |= _thinking(level, options.thinking_budgets, profile, reply_tokens)
    cache_ttl = call.settings.cache_ttl
    tools = call.tools(_tools)
    if tools:
        body["tools"] = [*tools[:-1], _marked(tools[-1], cache_ttl)]
    if choice is not None:
        body["tool_choice"] = choice
    prompt = context.system_prompt
    cut = prompt.stable_chars if isinstance(prompt, SystemText) else 0
    # Two parts if the first stays longer than the second: each is cached by itself.
    parts = [part for part in (prompt[:cut], prompt[cut:]) if part.strip()]
    system = [_marked(_text(part), cache_ttl) for part in parts]
    if system:
        body["system"] = system
    assets = asset_encoder(profile, context.asset_dir)
    thinks = body.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    encode_turn = partial(_encode_turn, assets=assets, with_thinking=thinks)
    messages = call.encoded(history, encode_turn, key=(assets, thinks))
    unstable = sum(len(_content(m, assets, with_thinking=thinks)) for m in _reminders(history))
    marks = _MAX_CACHE_MARKS - len(tools[-1:]) - len(system)
    _mark_messages(messages, unstable, cache_ttl, marks=marks)
    if messages and messages[0]["role"] == "assistant":
        beginning = {"role": "user", "content": [_text("[The beginning is left out.]")]}
        messages.insert(0, beginning)
    body["messages"] = messages
    if options.response_schema is not None:
        shape = {"type": "json_schema", "schema": close_objects(options.response_schema.schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": shape}
    user_id = options.metadata.get("user_id")
    if isinstance(user_id, str):
        body["metadata"] = {"user_id": user_id}
    # The user asks the service to edit history by naming its betas in a header.
    headers = [*call.settings.headers.items(), *options.headers.items()]
    betas = [value for name, value in headers if name.lower() == "anthropic-beta"]
    edits = [{"type": e} for beta, e in _HISTORY_EDITS.items() if any(beta in v for v in betas)]
    if edits:
        body["context_management"] = {"edits": edits}
    return body


def _tools(tools: Sequence[ToolSpec]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        described = {"name": tool.name, "description": tool.description}
        yield {**described, "input_schema": dict(tool.parameters)}


def _choice(choice: ToolChoice, profile: ModelProfile) -> dict[str, Any] | None:
    """The `tool_choice`; None lets the model decide, also if it can't be forced."""
    if choice == "none":
        return {"type": "none"}
    if choice == "auto" or profile.thinks_always:
        return None
    if isinstance(choice, NamedTool):
        return {"type": "tool", "name": choice.name}
    return {"type": "any"}


def _thinking(
    level: ThinkingLevel, budgets: ThinkingBudgets, profile: ModelProfile, reply_tokens: int
) -> dict[str, Any]:
    """`max_tokens` and the thinking members. Thinking counts, so its budget is added."""
    if level == "off" or not profile.thinking:
        # Newer models think by default.
        unasked = {"thinking": {"type": "disabled"}} if profile.adaptive_thinking else {}
        return {"max_tokens": reply_tokens, **unasked}
    tokens = max(_LEAST_BUDGET, thinking_budget(level, budgets))
    max_tokens = tokens + reply_tokens
    if profile.max_output_tokens is not None and max_tokens > profile.max_output_tokens:
        max_tokens = profile.max_output_tokens
        tokens = max(_LEAST_BUDGET, min(tokens, max_tokens // 2))
    if profile.adaptive_thinking:
        # Without `display` these models send nothing while they think, for minutes.
        thinking: dict[str, Any] = {"type": "adaptive", "display": "summarized"}
        if profile.binds_thinking:
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        word = thinking_effort(level, profile.efforts)
        asked = {"output_config": {"effort": word}} if word is not None else {}
        return {"max_tokens": max_tokens, "thinking": thinking, **asked}
    if tokens >= max_tokens:
        return {"max_tokens": reply_tokens}
    return {"max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": tokens}}


def _is_readable(block: AssistantBlock) -> bool:
    """Whether this service signed or compacted the block, or it is neither."""
    if isinstance(block, CompactionBlock):
        return "content" in block.data
    if not isinstance(block, ThinkingBlock):
        return True
    return bool(_SIGNATURE.fullmatch(block.redacted or block.signature or ""))


def _can_think(history: Sequence[SendableMessage]) -> bool:
    """Whether the current turn may continue with thinking.

    Inside a tool loop the service requires the thinking that led to the first calls, so a loop that
    began without it (with another model or level) continues without it.
    """
    answers = (m for m in reversed(history) if isinstance(m, AssistantMessage))
    loop = list(takewhile(lambda answer: bool(answer.calls), answers))
    if not loop:
        return True
    blocks = (block for block in loop[-1].content if not isinstance(block, CompactionBlock))
    return isinstance(next(blocks), ThinkingBlock)


def _reminders(history: Sequence[SendableMessage]) -> Sequence[SendableMessage]:
    """The messages of the harness at the end, which may be for this request only."""
    end = len(history)
    while end and isinstance(m := history[end - 1], UserMessage) and m.origin == "harness":
        end -= 1
    return history[end:] if end else ()


def _encode_turn(
    turn: Sequence[SendableMessage], assets: AssetEncoder, *, with_thinking: bool
) -> list[dict[str, Any]]:
    """The messages of a turn.

    Results and the user messages behind them are one message, as roles alternate. The assets of
    results come behind the last result: the service wants all results first.
    """
    messages: list[dict[str, Any]] = []
    for entry in with_tool_media(turn):
        role = "assistant" if isinstance(entry, AssistantMessage) else "user"
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"] += _content(entry, assets, with_thinking=with_thinking)
    return messages


def _content(entry: HistoryEntry, assets: AssetEncoder, *, with_thinking: bool) -> Blocks:
    match entry:
        case UserMessage(content=parts) | ToolMedia(assets=parts):
            shown = (p for p in parts if not isinstance(p, TextBlock) or p.text.strip())
            return [_part(part, assets) for part in shown]
        case ToolResultMessage():
            content = [_text(text) for text in result_texts(entry)]
            result = {"type": "tool_result", "tool_use_id": entry.tool_call_id, "content": content}
            return [{**result, "is_error": True} if entry.is_error else result]
        case AssistantMessage(content=blocks):
            return [_block(b) for b in blocks if with_thinking or not isinstance(b, ThinkingBlock)]


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
            arguments = call_arguments(block)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


_SCHEMA_KEYWORDS = frozenset({"type", "enum", "const", "$ref", "title", "description", "required"})
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def close_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with closed objects, without keywords that would be refused; callers check those."""
    closed: dict[str, Any] = {name: schema[name] for name in schema if name in _SCHEMA_KEYWORDS}
    for name in _NAMED_SCHEMAS:
        if isinstance(schema.get(name), Mapping):
            closed[name] = {key: _close_if_schema(value) for key, value in schema[name].items()}
    for name, written in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if isinstance(schema.get(name), list) and written not in closed:
            closed[written] = [_close_if_schema(value) for value in schema[name]]
    if "items" in schema:
        closed["items"] = _close_if_schema(schema["items"])
    if schema.get("format") in _FORMATS:
        closed["format"] = schema["format"]
    if schema.get("minItems") in {0, 1}:
        closed["minItems"] = schema["minItems"]
    if schema.get("type") == "object" or "properties" in closed:
        closed["additionalProperties"] = False
    return closed


def _close_if_schema(schema: Any) -> Any:
    return close_objects(schema) if isinstance(schema, Mapping) else schema


_STOP_REASONS: Mapping[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "compaction": "compaction",
    "pause_turn": "pause_turn",
}


class AnthropicParser(StreamParser):
    """Parses an answer. The `type` in the JSON tells events apart: not all services send names."""

    id_prefix = "toolu_"

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._blocks: dict[Any, dict[str, Any]] = {}
        """The open blocks as they began, and what came later but isn't emitted yet."""
        self._stop_details: Mapping[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._thought = 0
        self._iterations: list[Mapping[str, Any]] = []

    @property
    def call_is_open(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self._blocks.values())

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        index = payload.get("index")
        match as_text(payload.get("type")) or name:
            case "content_block_delta":
                self._grow(index, as_object(payload.get("delta")))
            case "content_block_start":
                self._open(index, as_object(payload.get("content_block")))
            case "content_block_stop":
                self._close(index)
            case "message_start":
                message = as_object(payload.get("message"))
                self._count(message.get("usage"))
                self._start(message.get("model"))
            case "message_delta":
                self._count(payload.get("usage"))
                self._stop_with(as_object(payload.get("delta")))
            case "message_stop":
                self._stop = self._stop or "end_turn"
                self._finish()
            case kind if kind == "error" or payload.get("error"):
                raise ServiceError(payload)

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        if payload.get("type") != "message":
            raise ServiceError(payload)
        self._read("message_start", {"message": payload})
        for index, block in enumerate(as_objects(payload.get("content"))):
            self._open(index, block)
            self._close(index)
        self._stop_with(payload)
        self._stop = self._stop or "end_turn"

    def _stop_with(self, values: Mapping[str, Any]) -> None:
        self._stop = as_text(values.get("stop_reason")) or self._stop
        self._stop_details = as_object(values.get("stop_details")) or self._stop_details

    def _end(self) -> None:
        for index in list(self._blocks):
            self._close(index)
        if self._stop == "refusal":
            self._fail(declined_error(as_text(self._stop_details.get("explanation"))))
            return
        # A service that compacted on the way called its model several times. Its own sum leaves
        # the compaction out, which costs money as well.
        if self._counts:
            usage = sum(map(_usage, self._iterations or [self._counts]), Usage())
            self._usage = replace(usage, reasoning=min(self._thought, usage.output))
        self._done(_STOP_REASONS.get(self._stop, "stop"))

    def _open(self, index: Any, raw: Mapping[str, Any]) -> None:
        self._blocks[index] = dict(raw)
        match raw.get("type"):
            case "text":
                self._text(as_text(raw.get("text")))
            case "thinking":
                self._think(as_text(raw.get("thinking")))
            case "tool_use":
                call_id = self._free_id(as_text(raw.get("id")))
                self._call(str(index), call_id, as_text(raw.get("name")))

    def _grow(self, index: Any, delta: Mapping[str, Any]) -> None:
        block = self._blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                self._text(as_text(delta.get("text")))
            case "thinking_delta":
                self._think(as_text(delta.get("thinking")))
            case "input_json_delta" if block is not None and block.get("type") == "tool_use":
                # Tools that the service runs itself stream their input as well.
                if piece := as_text(delta.get("partial_json")):
                    block["input"] = None
                    self._events.append(ToolCallDelta(key=str(index), arguments=piece))
            case "signature_delta" if block is not None:
                block["signature"] = delta.get("signature")
            case "compaction_delta" if block is not None:
                summary, more = block.get("content"), delta.get("content")
                block |= {name: delta[name] for name in delta if name != "type"}
                if isinstance(summary, str) and isinstance(more, str):
                    block["content"] = summary + more

    def _close(self, index: Any) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        match block.get("type"):
            case "thinking":
                self._events.append(ThinkingEnd(signature=as_text(block.get("signature")) or None))
            case "redacted_thinking":
                self._events.append(ThinkingEnd(redacted=as_text(block.get("data")) or None))
            case "compaction":
                text = as_text(block.get("content"))
                self._events.append(CompactionDone(data=block, text=text))
            case "tool_use":
                # Services that don't stream it send it whole; after pieces it is None.
                whole = block.get("input", {})
                self._end_call(str(index), "", None if whole is None else as_object(whole))

    def _count(self, usage: Any) -> None:
        """Store the newest counts: later events repeat, correct or omit them."""
        counted = as_object(usage)
        present = (name for name in _COUNTS if counted.get(name) is not None)
        self._counts |= {name: as_count(counted[name]) for name in present}
        details = as_object(counted.get("output_tokens_details"))
        self._thought = as_count(details.get("thinking_tokens")) or self._thought
        self._iterations = as_objects(counted.get("iterations")) or self._iterations


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def _usage(counted: Mapping[str, Any]) -> Usage:
    fresh, output, read, write = (as_count(counted.get(name)) for name in _COUNTS)
    return Usage(input=fresh + read + write, output=output, cache_read=read, cache_write=write)


_FORMAT = ApiFormat(
    name="anthropic",
    path=lambda call: "/v1/messages",
    headers=_headers,
    body=messages_request,
    sampling=("temperature", "top_p", "stop_sequences"),
    parser=AnthropicParser,
)
PROVIDER = Provider(name="anthropic", make=partial(make_stream_fn, _FORMAT))
