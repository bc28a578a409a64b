"""Ollama's own interface: models on this machine, on one of one's own, or in its cloud."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace

from dirge_py.abort import AbortSignal
from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.base import Provider, ProviderSettings, model_id
from dirge_py.providers.client import HttpClient
from dirge_py.providers.headers import bearer
from dirge_py.providers.ollama_answer import OllamaAnswer
from dirge_py.providers.ollama_failures import explained, refuses_thinking
from dirge_py.providers.ollama_request import chat_request
from dirge_py.streams import LlmContext, StreamError, StreamEvent, StreamFn, StreamOptions

BASE_URL = "http://127.0.0.1:11434"
KEY_ENV = ("OLLAMA_API_KEY",)


def _headers(call: Call) -> Mapping[str, str]:
    return {"accept": "application/x-ndjson", **bearer(call.key)}


def _answer(call: Call) -> OllamaAnswer:
    return OllamaAnswer(call.used_ids(), secrets.token_hex(6))


_WIRE = Wire(
    # There is an address, but none at which a key is due (see `_make`).
    default_base_url="",
    path=lambda call: "/api/chat",
    framing="lines",
    key_env=KEY_ENV,
    headers=_headers,
    body=chat_request,
    translator=_answer,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    at = settings if settings.base_url else replace(settings, base_url=BASE_URL)
    return _coping(stream_fn(_WIRE, at, http), is_at_home=at.base_url.rstrip("/") == BASE_URL)


def _coping(inner: StreamFn, *, is_at_home: bool) -> StreamFn:
    """`inner` for models of which nothing is known, with errors that say what to do.

    A model that refuses to think is asked again without, and from then on.
    """
    unthinking: set[str] = set()

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if options.model in unthinking:
            options = replace(options, thinking_level="off")
        async with aclosing(inner(context, options, signal)) as events:  # type: ignore[type-var]
            async for event in events:
                if not isinstance(event, StreamError):
                    yield event
                    continue
                if options.thinking_level != "off" and refuses_thinking(event.error):
                    unthinking.add(options.model)
                    break
                model = model_id(options.model)
                yield StreamError(explained(event.error, model=model, is_at_home=is_at_home))
                return
            else:
                return
        async for event in stream(context, options, signal):
            yield event

    return stream


PROVIDER = Provider(
    name="ollama",
    make=_make,
    default_base_url=BASE_URL,
    base_url_env="OLLAMA_HOST",
    key_env=KEY_ENV,
    needs_key=False,
)
