"""OpenAI's Chat Completions, and every service that speaks it."""

import secrets
from collections.abc import Mapping
from typing import Any

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.base import Provider, ProviderSettings
from dirge_py.providers.client import HttpClient
from dirge_py.providers.headers import bearer
from dirge_py.providers.openai_answer import ChatAnswer
from dirge_py.providers.openai_request import chat_request, is_openai
from dirge_py.types.llm import StreamFn

BASE_URL = "https://api.openai.com/v1"
KEY_ENV = ("OPENAI_API_KEY",)


def _body(call: Call) -> Mapping[str, Any]:
    return chat_request(
        call.context,
        call.options,
        model=call.model,
        card=call.card,
        official=is_openai(call.base_url),
        max_output_tokens=call.max_output_tokens,
        memory=call.memory,
        dialect=call.settings.dialect,
        alias=call.settings.alias,
    )


def _answer(call: Call) -> ChatAnswer:
    dialect = call.settings.dialect
    return ChatAnswer(
        call.used_ids(),
        secrets.token_hex(6),
        keeps_details=dialect.thinking_back == "reasoning_details",
        tells_cost=dialect.tells_cost,
    )


_WIRE = Wire(
    default_base_url=BASE_URL,
    path=lambda call: "/chat/completions",
    key_env=KEY_ENV,
    headers=lambda call: bearer(call.key),
    body=_body,
    translator=_answer,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    return stream_fn(_WIRE, settings, http)


PROVIDER = Provider(
    name="openai",
    make=_make,
    default_base_url=BASE_URL,
    base_url_env="OPENAI_BASE_URL",
    key_env=KEY_ENV,
)
