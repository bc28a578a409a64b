"""Ollama's own interface: models on this machine, on one of one's own, or in its cloud."""

import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.base import Provider, ProviderSettings, model_id
from dirge_py.providers.client import HttpClient
from dirge_py.providers.coping import asked_again
from dirge_py.providers.headers import bearer
from dirge_py.providers.ollama_answer import OllamaAnswer
from dirge_py.providers.ollama_failures import explained, refuses_thinking
from dirge_py.providers.ollama_request import chat_request
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    closing,
)

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
    made = stream_fn(_WIRE, at, http)
    return _explaining(_thinking_if_it_can(made), at_home=at.base_url.rstrip("/") == BASE_URL)


def _thinking_if_it_can(inner: StreamFn) -> StreamFn:
    """`inner` for models of which nothing is known: one that refuses to think is not asked to."""
    unthinking: set[str] = set()

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if options.model in unthinking:
            options = replace(options, thinking_level="off")
        return inner(context, options, signal)

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        is_refused = options.thinking_level != "off" and refuses_thinking(error)
        if is_refused:
            unthinking.add(options.model)
        return is_refused

    return asked_again(stream, learns)


def _explaining(inner: StreamFn, *, at_home: bool) -> StreamFn:
    """`inner` with errors that say what to do."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        model = model_id(options.model)
        async with closing(inner(context, options, signal)) as events:
            async for event in events:
                if isinstance(event, StreamError):
                    event = StreamError(explained(event.error, model=model, is_at_home=at_home))
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
