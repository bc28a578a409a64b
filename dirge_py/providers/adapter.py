"""What all HTTP providers do alike: choose the key, build the request, stream the answer."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.base import ProviderSettings, check_base_url, model_id
from dirge_py.providers.catalog import ModelCard
from dirge_py.providers.client import HttpClient
from dirge_py.providers.endpoint import Endpoint, endpoint
from dirge_py.providers.exchange import Framing, Request, streamed
from dirge_py.providers.headers import request_headers
from dirge_py.providers.memory import Memory
from dirge_py.providers.translator import Translator
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ProviderError
from dirge_py.types.llm import LlmContext, StreamError, StreamEvent, StreamFn, StreamOptions
from dirge_py.types.messages import AssistantMessage, CustomMessage

_USUAL: Mapping[str, str] = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # Compression would hold events back until a block is full.
    "accept-encoding": "identity",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One model call as a wire format sees it. `memory` lasts from one call to the next."""

    context: LlmContext
    options: StreamOptions
    settings: ProviderSettings
    base_url: str
    model: str
    memory: Memory

    @property
    def card(self) -> ModelCard:
        """What is known of the model."""
        return self.settings.card(self.model)

    @property
    def key(self) -> str | None:
        """The key of this call, else the provider's."""
        return (self.options.api_key or self.settings.api_key or "").strip() or None

    @property
    def max_output_tokens(self) -> int | None:
        """What the call asks for, else what the settings do."""
        return self.options.max_output_tokens or self.settings.max_output_tokens

    def used_ids(self) -> frozenset[str]:
        """The ids of every tool call in history."""
        return frozenset(
            call.id
            for message in self.context.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What is particular to one service: its addresses, headers, requests and answers.

    `path` is what follows the base URL. `headers` holds the key, if there is one. `history` names
    the list of the body that holds the messages: what was written of them for the last request is
    not written again. `framing`: server-sent events, or a JSON object a line.
    """

    default_base_url: str
    path: Callable[[Call], str]
    history: str = "messages"
    framing: Framing = "events"
    key_env: tuple[str, ...]
    headers: Callable[[Call], Mapping[str, str]]
    body: Callable[[Call], Mapping[str, Any]]
    translator: Callable[[Call], Translator]


def stream_fn(wire: Wire, settings: ProviderSettings, http: HttpClient) -> StreamFn:
    """The stream function of one configured service.

    Raises:
        ConfigError: its address would not do.
    """
    base_url = (settings.base_url or wire.default_base_url).rstrip("/")
    check_base_url(base_url, settings.allow_insecure)
    memory = Memory()

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        call = Call(
            context=context,
            options=options,
            settings=settings,
            base_url=base_url,
            model=model_id(options.model),
            memory=memory,
        )
        try:
            request = _request(wire, call)
            translator = wire.translator(call)
        except DirgeError as error:
            yield StreamError(_as_provider_error(error))
            return
        except Exception as error:
            # A stream never raises: what cannot be written down ends the turn, not the program.
            words = f"The request to {settings.alias} cannot be built: {error!r}."
            yield StreamError(ProviderError(words, kind="invalid_request"))
            return
        async for event in streamed(http, request, translator, signal):
            yield event

    return stream


def _request(wire: Wire, call: Call) -> Request:
    settings, options = call.settings, call.options
    if all(isinstance(message, CustomMessage) for message in call.context.messages):
        raise ProviderError("There is no message to send.", kind="invalid_request")
    url = call.base_url + wire.path(call)
    at = endpoint(settings, url=url, model=call.model, key=call.key, key_env=wire.key_env)
    if call.key is None and call.base_url == wire.default_base_url:
        raise _no_key(at)
    call.memory.begin_request()
    return Request(
        endpoint=at,
        headers=request_headers(_USUAL, wire.headers(call), settings.headers, options.headers),
        body=_written(wire.body(call), wire.history, call.memory),
        framing=wire.framing,
        timeouts=settings.timeouts.silent_for(options.chunk_timeout_s),
        total_s=options.request_timeout_s,
    )


def _written(body: Mapping[str, Any], history: str, memory: Memory) -> bytes:
    """The request's JSON. Messages that come again, the same objects, are not written again."""
    messages = "[" + ",".join(memory.of(each, _json) for each in body[history]) + "]"
    members = (
        f"{_json(name)}:{messages if name == history else _json(value)}"
        for name, value in body.items()
    )
    # Half of a surrogate pair, from a file with odd bytes, is no UTF-8: it becomes a question mark.
    return ("{" + ",".join(members) + "}").encode("utf-8", errors="replace")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _no_key(at: Endpoint) -> ProviderError:
    return ProviderError(f"There is no API key for {at.alias}.", kind="auth", hint=at.key_hint)


def _as_provider_error(error: DirgeError) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    return ProviderError(error.message, kind="invalid_request", hint=error.hint)
