"""Anthropic's Messages, and services that speak it."""

from collections.abc import Mapping
from typing import Any

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.anthropic_answer import MessagesAnswer
from dirge_py.providers.anthropic_request import messages_request
from dirge_py.providers.base import Provider, ProviderSettings
from dirge_py.providers.catalog import lookup
from dirge_py.providers.client import HttpClient
from dirge_py.streams import StreamFn

BASE_URL = "https://api.anthropic.com"
KEY_ENV = ("ANTHROPIC_API_KEY",)


def _headers(key: str | None) -> Mapping[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    return {**headers, "x-api-key": key} if key else headers


def _body(call: Call) -> Mapping[str, Any]:
    return messages_request(
        call.context,
        call.options,
        model=call.model,
        card=lookup("anthropic", call.model),
        max_output_tokens=call.max_output_tokens,
    )


def _answer(call: Call) -> MessagesAnswer:
    return MessagesAnswer()


_WIRE = Wire(
    default_base_url=BASE_URL,
    path="/v1/messages",
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
