"""Ollama's own interface, on this machine, a server or in its cloud: requests, answers and errors.

Calls have whole arguments, and images stand beside the text. An answer has one JSON object per
line, and the last line has the counts.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from dirge_py.config.services import SERVICE_OF
from dirge_py.lib.lazy import late_pattern
from dirge_py.providers.adapter import (
    ApiFormat,
    Asset,
    AssetEncoder,
    ModelCall,
    asset_encoder,
    call_arguments,
    encode_messages,
    function_tools,
    make_stream_fn,
    own_blocks,
    result_texts,
    retry_without,
    with_options,
)
from dirge_py.providers.catalog import thinking_effort
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.registry import Provider
from dirge_py.providers.request_cache import SendableMessage
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.providers.stream_parser import (
    NdjsonDecoder,
    ServiceError,
    StreamParser,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.history import WireFormat
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    ThinkingEnd,
    closing,
)
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    joined_text,
)

_WIRE = WireFormat(unsigned_thinking=True)
_SECONDS = late_pattern(r"-?\d+")


def chat_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON.

    `truncate` and `shift` make the server refuse a prompt that doesn't fit and end an answer that
    doesn't fit. By default it drops the oldest messages silently. Older servers ignore both.
    """
    options = call.options
    assets = replace(asset_encoder(call.profile, call.context.asset_dir), reads_documents=False)
    history = call.sendable(own_blocks(call.settings.alias), wire=_WIRE)
    with_pictures = partial(_with_pictures, assets=assets)
    encode_turn = partial(encode_messages, encode=_message, encode_user=with_pictures)
    messages = call.encoded(history, encode_turn, key=assets)
    if call.context.system_prompt.strip():
        messages.insert(0, {"role": "system", "content": call.context.system_prompt})
    body: dict[str, Any] = {"model": call.model, "messages": messages}
    # This interface can't force a call, but fewer tools can be offered.
    tools = call.tools(function_tools)
    if isinstance(options.tool_choice, NamedTool):
        tools = [tool for tool in tools if tool["function"]["name"] == options.tool_choice.name]
    elif options.tool_choice == "none":
        tools = []
    if tools:
        body["tools"] = tools
    body |= {"stream": True, "truncate": False, "shift": False}
    # A model thinks by default, and `false` hurts none. gpt-oss has levels, and always thinks.
    if "gpt-oss" not in call.model.lower():
        body["think"] = options.thinking_level != "off"
    elif options.thinking_level != "off":
        body["think"] = thinking_effort(options.thinking_level)
    if options.response_schema is not None:
        body["format"] = dict(options.response_schema.schema)
    keep_alive = call.settings.keep_alive
    if keep_alive is not None:
        # The server takes seconds as a number; a string needs a unit, except `0`.
        is_number = _SECONDS.fullmatch(keep_alive) and keep_alive != "0"
        body["keep_alive"] = int(keep_alive) if is_number else keep_alive
    # By default the server uses a few thousand tokens. An unknown window is not guessed: one that
    # is too large would not fit into memory.
    limits = {"num_ctx": call.profile.window_tokens, "num_predict": call.max_output_tokens}
    if set(limits.values()) != {None}:
        body["options"] = {name: value for name, value in limits.items() if value is not None}
    return body


def _message(message: SendableMessage) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            content = message.content
            encoded: dict[str, Any] = {"role": "assistant", "content": joined_text(content)}
            thinking = "".join(b.text for b in content if isinstance(b, ThinkingBlock))
            if thinking:
                encoded["thinking"] = thinking
            if message.calls:
                encoded["tool_calls"] = [
                    {
                        "id": call.id,
                        "function": {"name": call.name, "arguments": call_arguments(call)},
                    }
                    for call in message.calls
                ]
            return encoded
        case ToolResultMessage():
            # Pictures come behind the turn's last result: not every model looks here.
            return {
                "role": "tool",
                "tool_name": message.tool_name,
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(result_texts(message)),
            }


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


_NOTHING_SAID = frozenset({"load", "unload"})


class OllamaParser(StreamParser):
    """Parses an answer. Calls mostly come without an id."""

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._calls: list[tuple[str, str, str]] = []
        """The calls as the server wrote them: id, name, arguments."""

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        if payload.get("error"):
            raise ServiceError(payload)
        self._start(payload.get("model"))
        message = as_object(payload.get("message"))
        self._think(as_text(message.get("thinking")))
        self._text(as_text(message.get("content")))
        for call in as_objects(message.get("tool_calls")):
            self._end_thinking()
            self._whole_call(call)
        if payload.get("done") is True:
            self._stop = as_text(payload.get("done_reason")) or "stop"
            read, written = payload.get("prompt_eval_count"), payload.get("eval_count")
            self._usage = Usage(input=as_count(read), output=as_count(written)) or None
            self._finish()

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        if not as_object(payload.get("message")):
            raise ServiceError(payload)
        self._read("", {**payload, "done": True})

    def _end(self) -> None:
        if self._stop in _NOTHING_SAID and not self.has_content:
            # A retry finds the model loaded.
            error = f"Ollama gave no answer: it {self._stop}ed the model."
            self._fail(ProviderError(error, kind="server", hint="Ask again."))
            return
        self._end_thinking()
        self._done("length" if self._stop == "length" else "stop")

    def _end_thinking(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            self._events.append(ThinkingEnd())

    def _whole_call(self, raw: Mapping[str, Any]) -> None:
        function = as_object(raw.get("function"))
        name, given_id = as_text(function.get("name")), as_text(raw.get("id"))
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # proxies send them as text
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        written = (given_id, name, arguments)
        if given_id and written in self._calls:
            return  # the same call once more, on the last line
        key, call_id = str(len(self._calls)), self._free_id(given_id)
        self._calls.append(written)
        self._call(key, call_id, name, arguments)
        self._end_call(key, call_id)


_CASES: Mapping[str, tuple[ErrorKind, str]] = {
    r"model\b.{0,200}\bnot found": (
        "invalid_request",
        "`ollama pull {model}` downloads it; `/model` or `--model` chooses another.",
    ),
    r"requires more (?:system |gpu )?memory|out of memory|insufficient memory": (
        "invalid_request",
        'Free memory, choose a smaller model, or a smaller `window_tokens` in [models."{model}"].',
    ),
    r"does not support (?:tools|chat|completion)": (
        "invalid_request",
        "dirge needs tools: choose a model for which `ollama show` lists them.",
    ),
    r"missing data required for image input|does not support (?:images?|vision)": (
        "invalid_request",
        "Choose a model for which `ollama show` lists vision.",
    ),
    r"(?:context length|context window|context size)": (
        "context_length",
        "`/compact` shortens the conversation.",
    ),
    r"server busy|maximum pending requests|loading model|runner (?:to start|process has)|"
    r"model runner has unexpectedly stopped|model failed to load|running the model": (
        "server",
        "Try again later; the log of `ollama serve` has details.",
    ),
}
"""Words in an error, its kind, and the hint."""
# A part of the message, because the loop sets the hint once it has shortened the request.
_WINDOW = ' The window is `window_tokens` in [models."{model}"], or Ollama\'s few thousand tokens.'
_REFUSES_THINKING = late_pattern(r"does not support thinking|\bthink value\b", re.IGNORECASE)


def explain_error(error: ProviderError, *, model: str, base_url: str) -> ProviderError:
    """`error` with the kind and the hint that fit Ollama at `base_url`; empty: its usual address.

    The text decides, because servers report most errors with status 500 or inside an answer.
    """
    explained = copy(error)
    is_usual = base_url.rstrip("/") in {"", SERVICE_OF["ollama"].base_url}
    if error.status is None and "No connection to" in error.message and is_usual:
        explained.hint = "Is Ollama running? `ollama serve` starts it."
        return explained
    if error.kind in {"auth", "aborted", "rate_limit"}:
        return error
    for words, (kind, hint) in _CASES.items():
        if re.search(words, error.raw, re.IGNORECASE):
            explained.kind, explained.hint = kind, hint.format(model=model)
            if kind == "context_length":
                explained.message += _WINDOW.format(model=model)
            return explained
    if error.status == 404:
        explained.hint += " `base_url` is the server's address alone, without `/v1`."
        return explained
    return error


def _note_thinking_refusals(inner: StreamFn) -> StreamFn:
    """`inner`, which stops asking a model to think once the model refused to."""
    unthinking: set[str] = set()

    def fitted(options: StreamOptions) -> StreamOptions:
        return replace(options, thinking_level="off") if options.model in unthinking else options

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        is_refused = error.status == 400 and bool(_REFUSES_THINKING.search(error.raw))
        if not is_refused or options.thinking_level == "off":
            return False
        unthinking.add(options.model)
        return True

    return retry_without(with_options(inner, fitted), learns)


def _explain_errors(inner: StreamFn, base_url: str) -> StreamFn:
    """`inner` with errors that say what to do."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        model = model_id(options.model)
        async with closing(inner(context, options, signal)) as events:
            async for event in events:
                if isinstance(event, StreamError):
                    event = StreamError(explain_error(event.error, model=model, base_url=base_url))
                yield event

    return stream


_FORMAT = ApiFormat(
    name="ollama",
    path=lambda call: "/api/chat",
    decoder=NdjsonDecoder,
    headers=lambda call: {"accept": "application/x-ndjson", **bearer_header(call.key)},
    body=chat_request,
    sampling_in="options",
    parser=OllamaParser,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    made = _note_thinking_refusals(make_stream_fn(_FORMAT, settings, http))
    return _explain_errors(made, settings.base_url)


PROVIDER = Provider(name="ollama", make=_make)
