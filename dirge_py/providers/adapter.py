"""What all HTTP providers share: choosing the key, encoding the request, streaming the answer.

A wire format is an `ApiFormat`; `make_stream_fn` makes it a `StreamFn`. `JsonCache` keeps what was
encoded for the last request, `retry_without` repeats a call without what a service refused.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from dirge_py.config.services import check_base_url
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.client import HttpClient
from dirge_py.providers.errors import Endpoint, endpoint_of
from dirge_py.providers.http_stream import Framing, StreamRequest, stream_response
from dirge_py.providers.http_types import request_headers
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.providers.stream_parser import StreamParser
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    closing,
)
from dirge_py.types.messages import AssistantMessage, CustomMessage

V = TypeVar("V")
R = TypeVar("R")


class JsonCache:
    """Results by the object they were made of, kept from one request to the next.

    Objects are told apart by identity, so they must be ones that never change. A history that is
    sent again, and a little longer, is what this is for; what is not asked for again is forgotten.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[object, Any]] = {}
        self._now: dict[int, tuple[object, Any]] = {}

    def begin_request(self) -> None:
        """Forget what the last request did not ask for."""
        self._before, self._now = self._now, {}

    def of(self, value: V, make: Callable[[V], R]) -> R:
        """`make(value)`, as it was made for the last request if it was."""
        key = id(value)
        kept = self._before.get(key)
        # An id names one object only while that lives: so both are kept, and looked at.
        entry = kept if kept is not None and kept[0] is value else (value, make(value))
        self._now[key] = entry
        result: R = entry[1]
        return result


_DEFAULT_HEADERS: Mapping[str, str] = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # Compression would hold events back until a block is full.
    "accept-encoding": "identity",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One model call as a wire format sees it."""

    context: LlmContext
    """The system prompt, the messages and the tools."""
    options: StreamOptions
    """The model, the limits and the headers of this call."""
    settings: ProviderSettings
    """Those of the provider."""
    base_url: str
    """Without a slash at its end."""
    model: str
    """The service's own id of the model."""
    json_cache: JsonCache
    """What was encoded for the last request; lasts from one call to the next."""

    @property
    def profile(self) -> ModelProfile:
        """What is known of the model."""
        return self.settings.profile(self.model)

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
class ApiFormat:
    """One wire format: its addresses, headers, requests and answers."""

    default_base_url: str
    """Where the format's own service is."""
    path: Callable[[ModelCall], str]
    """What follows the base URL."""
    history: str = "messages"
    """The member of the body with the messages: what was sent before is not encoded again."""
    framing: Framing = "events"
    """Server-sent events, or a JSON object a line."""
    key_env: tuple[str, ...]
    """The variables that may hold the key, best first."""
    headers: Callable[[ModelCall], Mapping[str, str]]
    """Those of the format; they hold the key, if there is one."""
    body: Callable[[ModelCall], Mapping[str, Any]]
    """The JSON of the request."""
    parser: Callable[[ModelCall], StreamParser]
    """A new parser for the answer."""


def make_stream_fn(api_format: ApiFormat, settings: ProviderSettings, http: HttpClient) -> StreamFn:
    """The stream function of one configured service.

    Raises:
        ConfigError: its address would not do.
    """
    base_url = (settings.base_url or api_format.default_base_url).rstrip("/")
    check_base_url(base_url, settings.allow_insecure)
    json_cache = JsonCache()

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        call = ModelCall(
            context=context,
            options=options,
            settings=settings,
            base_url=base_url,
            model=model_id(options.model),
            json_cache=json_cache,
        )
        try:
            request = _stream_request(api_format, call)
            parser = api_format.parser(call)
        except DirgeError as error:
            yield StreamError(_as_provider_error(error))
            return
        except Exception as error:
            # A stream never raises: what cannot be written down ends the turn, not the program.
            words = f"The request to {settings.alias} cannot be built: {error!r}."
            yield StreamError(ProviderError(words, kind="invalid_request"))
            return
        async for event in stream_response(http, request, parser, signal):
            yield event

    return stream


def _stream_request(api_format: ApiFormat, call: ModelCall) -> StreamRequest:
    settings, options = call.settings, call.options
    if all(isinstance(message, CustomMessage) for message in call.context.messages):
        raise ProviderError("There is no message to send.", kind="invalid_request")
    url = call.base_url + api_format.path(call)
    at = endpoint_of(settings, url=url, model=call.model, key=call.key, key_env=api_format.key_env)
    if call.key is None and call.base_url == api_format.default_base_url:
        raise _missing_key_error(at)
    call.json_cache.begin_request()
    return StreamRequest(
        endpoint=at,
        headers=request_headers(
            _DEFAULT_HEADERS, api_format.headers(call), settings.headers, options.headers
        ),
        body=_encode_body(api_format.body(call), api_format.history, call.json_cache),
        framing=api_format.framing,
        timeouts=settings.timeouts.silent_for(options.chunk_timeout_s),
        total_s=options.request_timeout_s,
    )


def _encode_body(body: Mapping[str, Any], history: str, json_cache: JsonCache) -> bytes:
    """The request's JSON. Messages that come again, the same objects, are not written again."""
    messages = "[" + ",".join(json_cache.of(each, _json) for each in body[history]) + "]"
    members = (
        f"{_json(name)}:{messages if name == history else _json(value)}"
        for name, value in body.items()
    )
    # Half of a surrogate pair, from a file with odd bytes, is no UTF-8: it becomes a question mark.
    return ("{" + ",".join(members) + "}").encode("utf-8", errors="replace")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _missing_key_error(at: Endpoint) -> ProviderError:
    return ProviderError(f"There is no API key for {at.alias}.", kind="auth", hint=at.key_hint)


def _as_provider_error(error: DirgeError) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    return ProviderError(error.message, kind="invalid_request", hint=error.hint)


LearnFromError: TypeAlias = Callable[[ProviderError, LlmContext, StreamOptions], bool]
"""Whether an error names something that was sent, need not be, and is left out from now on."""


_MAX_RETRIES = 2


def retry_without(inner: StreamFn, learn: LearnFromError) -> StreamFn:
    """`inner`, called once more when its error teaches something, a few times at most."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        for retries_left in reversed(range(_MAX_RETRIES + 1)):
            should_retry = False
            async with closing(inner(context, options, signal)) as events:
                async for event in events:
                    should_retry = (
                        retries_left > 0
                        and isinstance(event, StreamError)
                        and learn(event.error, context, options)
                    )
                    if should_retry:
                        break
                    yield event
            if not should_retry:
                return

    return stream
