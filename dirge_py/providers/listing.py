"""Which models a service says that it has: one GET, the key going where requests would go."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.answers import Fetched, TransportFailed
from dirge_py.providers.base import ProviderSettings, check_base_url
from dirge_py.providers.classify import HTML_PAGE
from dirge_py.providers.client import HttpClient
from dirge_py.providers.endpoint import Endpoint, endpoint
from dirge_py.providers.failures import (
    from_status,
    from_transport,
    unreadable,
    web_page,
)
from dirge_py.providers.headers import bearer, request_headers
from dirge_py.types.errors import ProviderError

_MOST_BYTES = 8 * 1024 * 1024
_MOST_MODELS = 5000
_LONGEST_ID = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """Where a format has its list, how it takes the key, and how it writes the list down."""

    path: str
    headers: Callable[[str], Mapping[str, str]]
    ids: Callable[[Any], Iterator[Any]]


async def list_models(
    settings: ProviderSettings, client: HttpClient, *, wire: str, limit_s: float
) -> Sequence[str]:
    """The ids of the service's models, as it lists them; `wire` is the format that it speaks.

    Raises:
        ConfigError: its address is not acceptable.
        ProviderError: it cannot be reached, refused, or gave no list. `status` 404 or 405: it
            answers, and has no list to give.
    """
    check_base_url(settings.base_url, settings.allow_insecure)
    listing = _LISTINGS[wire]
    base_url = settings.base_url.rstrip("/")
    # People copy either: the host, or the address with the version behind it.
    version = base_url.rpartition("/")[2]
    path = listing.path.removeprefix(f"/{version}") if wire == "gemini" else listing.path
    url = base_url + path
    key = (settings.api_key or "").strip()
    at = endpoint(settings, url=url, model="", key=key, key_env=())
    headers = request_headers(
        {"accept": "application/json"}, listing.headers(key) if key else {}, settings.headers
    )
    try:
        got = await client.fetch(
            "GET", url, headers=headers, timeout_s=limit_s, max_bytes=_MOST_BYTES
        )
    except TransportFailed as failed:
        raise from_transport(at, failed.trouble, failed.detail) from failed
    except TimeoutError:
        raise ProviderError(
            f"{at.alias} ({at.host}) gave no list of models within {limit_s:g} s.",
            kind="network",
            hint="Look whether it runs, and whether the address is right.",
        ) from None
    return _read(at, got, wire)


def model_ids(body: bytes, *, wire: str) -> Sequence[str]:
    """The ids in a list of models. Raises ValueError: it is none."""
    try:
        found = list(_LISTINGS[wire].ids(json.loads(body)))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no list of models ({error!r})") from error
    if not all(isinstance(each, str) for each in found):
        raise ValueError("no list of models (an id is no text)")
    usable = (each for each in found if 0 < len(each) <= _LONGEST_ID and each.isprintable())
    return list(dict.fromkeys(usable))[:_MOST_MODELS]


def _read(at: Endpoint, got: Fetched, wire: str) -> Sequence[str]:
    text = got.body.decode("utf-8", errors="replace")
    if got.status in (404, 405):
        raise ProviderError(
            f"{at.alias} has no list of models at {at.url} ({got.status}).",
            kind="invalid_request",
            status=got.status,
            raw=at.told(text),
            hint="Look whether `base_url` is right.",
        )
    if got.status != 200:
        raise from_status(at, got.status, got.headers, text)
    try:
        return model_ids(got.body, wire=wire)
    except ValueError as error:
        if HTML_PAGE.search(text[:4096]):
            raise web_page(at, text) from error
        raise unreadable(at, str(error), text, "establish") from error


def _of_data(body: Any) -> Iterator[Any]:
    for each in body if isinstance(body, list) else body["data"]:
        yield each["id"]


def _of_gemini(body: Any) -> Iterator[Any]:
    for each in body["models"]:
        if "generateContent" in each.get("supportedGenerationMethods", ["generateContent"]):
            yield each["name"].removeprefix("models/")


def _of_ollama(body: Any) -> Iterator[Any]:
    for each in body["models"]:
        yield each["name"]


_OPENAI = _Listing(path="/models", headers=bearer, ids=_of_data)
_LISTINGS: Mapping[str, _Listing] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _Listing(
        path="/v1/models?limit=1000",
        headers=lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        ids=_of_data,
    ),
    "gemini": _Listing(
        path="/v1beta/models?pageSize=1000",
        headers=lambda key: {"x-goog-api-key": key},
        ids=_of_gemini,
    ),
    "ollama": _Listing(path="/api/tags", headers=bearer, ids=_of_ollama),
}
