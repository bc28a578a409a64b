"""Anthropic's Messages, and services that speak it."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.anthropic_answer import MessagesAnswer
from dirge_py.providers.anthropic_request import messages_request
from dirge_py.providers.base import Provider, ProviderSettings
from dirge_py.providers.client import HttpClient
from dirge_py.providers.history import own
from dirge_py.types.llm import StreamFn

BASE_URL = "https://api.anthropic.com"
KEY_ENV = ("ANTHROPIC_API_KEY",)

_EDITS: Mapping[str, str] = {
    "context-management-2025-06-27": "clear_tool_uses_20250919",
    "compact-2026-01-12": "compact_20260112",
}
"""By the beta that allows it, what the service then does to old history by itself."""


def _headers(call: Call) -> Mapping[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    if call.key:
        headers["x-api-key"] = call.key
    if call.card.binds_thinking:
        # What it allows is in the request (`block_binding`).
        headers["anthropic-beta"] = "thinking-binding-controls-2026-08-01"
    return headers


def _body(call: Call) -> Mapping[str, Any]:
    messages = own(call.context.messages, call.settings.alias)
    body = messages_request(
        replace(call.context, messages=messages),
        call.options,
        model=call.model,
        card=call.card,
        max_output_tokens=call.max_output_tokens,
        cache_ttl=call.settings.cache_ttl,
    )
    edits = _edits(call.settings.headers, call.options.headers)
    if edits:
        body["context_management"] = {"edits": edits}
    return body


def _edits(*headers: Mapping[str, str]) -> list[Mapping[str, str]]:
    """What the person asks the service to do to history, by naming its betas."""
    named = [
        value
        for layer in headers
        for name, value in layer.items()
        if name.lower() == "anthropic-beta"
    ]
    return [{"type": edit} for beta, edit in _EDITS.items() if any(beta in v for v in named)]


def _answer(call: Call) -> MessagesAnswer:
    return MessagesAnswer(call.used_ids(), secrets.token_hex(6))


_WIRE = Wire(
    default_base_url=BASE_URL,
    path=lambda call: "/v1/messages",
    key_env=KEY_ENV,
    headers=_headers,
    body=_body,
    translator=_answer,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    return stream_fn(_WIRE, settings, http)


PROVIDER = Provider(
    name="anthropic",
    make=_make,
    default_base_url=BASE_URL,
    base_url_env="ANTHROPIC_BASE_URL",
    key_env=KEY_ENV,
)
