"""Google's Gemini, through the interface of its API keys (`generateContent`)."""

import secrets
from collections.abc import Mapping
from urllib.parse import quote

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.base import Provider, ProviderSettings
from dirge_py.providers.client import HttpClient
from dirge_py.providers.gemini_answer import ContentAnswer
from dirge_py.providers.gemini_request import content_request
from dirge_py.types.llm import StreamFn

BASE_URL = "https://generativelanguage.googleapis.com"
KEY_ENV = ("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY")

_COLLECTIONS = ("models", "tunedModels")
_VERSIONS = ("/v1beta", "/v1", "/v1alpha")


def _path(call: Call) -> str:
    # People copy either: the host, or the address with the version behind it.
    version = "" if call.base_url.endswith(_VERSIONS) else "/v1beta"
    collection, _, name = call.model.partition("/")
    if collection not in _COLLECTIONS or not name:
        collection, name = "models", call.model
    return f"{version}/{collection}/{quote(name, safe='')}:streamGenerateContent?alt=sse"


def _headers(call: Call) -> Mapping[str, str]:
    return {"x-goog-api-key": call.key} if call.key else {}


def _answer(call: Call) -> ContentAnswer:
    return ContentAnswer(call.used_ids(), secrets.token_hex(6))


_WIRE = Wire(
    default_base_url=BASE_URL,
    path=_path,
    history="contents",
    key_env=KEY_ENV,
    headers=_headers,
    body=content_request,
    translator=_answer,
)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    return stream_fn(_WIRE, settings, http)


PROVIDER = Provider(
    name="gemini",
    make=_make,
    default_base_url=BASE_URL,
    base_url_env="GOOGLE_GEMINI_BASE_URL",
    key_env=KEY_ENV,
)
