"""Ollama's own interface, at home, on a server or in its cloud: the provider and its requests.

Calls have whole arguments, pictures stand beside the text.
"""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.providers.adapter import ApiFormat, ModelCall, make_stream_fn, retry_without
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
from dirge_py.providers.ollama_stream import OllamaParser, explain_error, is_thinking_refusal
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.providers.thinking import thinking_effort
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    ThinkingLevel,
    ToolSpec,
    closing,
)
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)

_SECONDS = re.compile(r"-?\d+")


def chat_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON.

    A prompt that does not fit is to be refused (`truncate`), and an answer that does not fit is to
    end (`shift`): unasked, the server drops what is oldest and tells nobody. Servers older than
    these two members read over them.
    """
    options = call.options
    assets = replace(asset_encoder(call.profile, call.context.asset_dir), reads_documents=False)
    body: dict[str, Any] = {"model": call.model, "messages": _messages(call, assets)}
    tools = _offered(call.context.tools, options)
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body |= {"stream": True, "truncate": False, "shift": False}
    body |= _think(options.thinking_level, call.model)
    if options.response_schema is not None:
        body["format"] = dict(options.response_schema.schema)
    if call.settings.keep_alive is not None:
        body["keep_alive"] = _duration(call.settings.keep_alive)
    limits = _limits(call)
    if limits:
        body["options"] = limits
    return body


def _offered(tools: Sequence[ToolSpec], options: StreamOptions) -> Sequence[ToolSpec]:
    """The tools to send: this interface can force no call, but it can offer fewer tools."""
    match options.tool_choice:
        case "none":
            return ()
        case NamedTool(name):
            return [tool for tool in tools if tool.name == name]
        case _:
            return tools


def _think(level: ThinkingLevel, model: str) -> Mapping[str, Any]:
    """Whether to think. Unasked, a model that can think does; to be told not to hurts none.

    gpt-oss alone knows more than yes and no, and cannot leave it.
    """
    if "gpt-oss" in model.lower():
        return {} if level == "off" else {"think": thinking_effort(level)}
    return {"think": level != "off"}


def _limits(call: ModelCall) -> Mapping[str, int]:
    """How much may go in and come out. The server serves a few thousand tokens where none says.

    A window that nobody told of is not made up: one too large would not fit into memory.
    """
    limits = {}
    if call.profile.window_tokens is not None:
        limits["num_ctx"] = call.profile.window_tokens
    if call.max_output_tokens is not None:
        limits["num_predict"] = call.max_output_tokens
    return limits


def _duration(keep_alive: str) -> str | int:
    """Seconds are a number to the server; in a string it wants a unit, except behind 0."""
    is_number = _SECONDS.fullmatch(keep_alive) and keep_alive != "0"
    return int(keep_alive) if is_number else keep_alive


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def _messages(call: ModelCall, assets: AssetEncoder) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if call.context.system_prompt.strip():
        messages.append({"role": "system", "content": call.context.system_prompt})
    history = drop_foreign_blocks(call.context.messages, call.settings.alias)
    for entry in with_tool_media(sendable_history(history, unsigned=True)):
        match entry:
            case AssistantMessage() if not (entry.text or entry.calls):
                pass  # nothing but what another service folded
            case ToolMedia():
                messages.append(_with_pictures([entry.title, *entry.assets], assets))
            case UserMessage() if not _is_text(entry):
                # Read anew: an asset's file may be gone by now, and is too large to keep.
                messages.append(_with_pictures(entry.content, assets))
            case _:
                messages.append(call.json_cache.of(entry, _message))
    return messages


def _is_text(message: UserMessage) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _message(message: SendableMessage) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            # Pictures come behind the turn's last result: not every model looks here.
            return {
                "role": "tool",
                "tool_name": message.tool_name,
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(result_texts(message)),
            }


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant", "content": joined_text(message.content)}
    thinking = "".join(b.text for b in message.content if isinstance(b, ThinkingBlock))
    if thinking:
        written["thinking"] = thinking
    calls = [_call(call) for call in message.calls]
    if calls:
        written["tool_calls"] = calls
    return written


def _call(call: ToolCallBlock) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {"unparsed": call.arguments}
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _with_pictures(blocks: Sequence[TextBlock | Asset], assets: AssetEncoder) -> dict[str, Any]:
    """A user's message: its text, and all pictures in their order."""
    texts, pictures = [], []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif (encoded := assets.encoded(block)) is not None:
            pictures.append(encoded)
        else:
            texts.append(assets.missing(block))
    written: dict[str, Any] = {"role": "user", "content": "\n".join(t for t in texts if t)}
    if pictures:
        written["images"] = pictures
    return written


BASE_URL = "http://127.0.0.1:11434"
KEY_ENV = ("OLLAMA_API_KEY",)


def _headers(call: ModelCall) -> Mapping[str, str]:
    return {"accept": "application/x-ndjson", **bearer_header(call.key)}


def _parser(call: ModelCall) -> OllamaParser:
    return OllamaParser(call.used_ids(), secrets.token_hex(6))


def _note_thinking_refusals(inner: StreamFn) -> StreamFn:
    """`inner` for models of which nothing is known: one that refuses to think is not asked to."""
    unthinking: set[str] = set()

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if options.model in unthinking:
            options = replace(options, thinking_level="off")
        return inner(context, options, signal)

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        is_refused = options.thinking_level != "off" and is_thinking_refusal(error)
        if is_refused:
            unthinking.add(options.model)
        return is_refused

    return retry_without(stream, learns)


def _explain_errors(inner: StreamFn, *, at_home: bool) -> StreamFn:
    """`inner` with errors that say what to do."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        model = model_id(options.model)
        async with closing(inner(context, options, signal)) as events:
            async for event in events:
                if isinstance(event, StreamError):
                    event = StreamError(explain_error(event.error, model=model, is_at_home=at_home))
                yield event

    return stream


_FORMAT = ApiFormat(
    # There is an address, but none at which a key is due (see `_make`).
    default_base_url="",
    path=lambda call: "/api/chat",
    framing="lines",
    key_env=KEY_ENV,
    headers=_headers,
    body=chat_request,
    parser=_parser,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    at = settings if settings.base_url else replace(settings, base_url=BASE_URL)
    made = make_stream_fn(_FORMAT, at, http)
    return _explain_errors(
        _note_thinking_refusals(made), at_home=at.base_url.rstrip("/") == BASE_URL
    )


PROVIDER = Provider(
    name="ollama",
    make=_make,
    default_base_url=BASE_URL,
)
