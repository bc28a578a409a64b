"""Model servers on this machine, and the models that a service lists.

dirge looks for servers only if no other model can be used: with a GET without a key, at loopback
addresses only, and without following redirects.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from dirge_py.config.models import local_types
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES, base_url_problem, check_base_url, is_local, wire_of
from dirge_py.config.sources import LocalServer
from dirge_py.providers.adapter import fetch_json
from dirge_py.providers.client import HttpClient, HttpRequest, TransportError, bearer_header
from dirge_py.providers.errors import Endpoint, unreadable_error
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ConfigError, ProviderError

ADDRESSES_VARIABLE = "DIRGE_LOCAL_SERVERS"
"""Names addresses to ask instead of the usual ones, separated by blanks; empty: none is asked."""
LIMIT_S = 0.3
NAMED_LIMIT_S = 3.0
"""The limit for addresses that the user named, which may be slow."""
_MAX_PROBE_BYTES = 1024 * 1024
_OTHER = "openai"
_BY_OWNER = {"vllm": "vllm", "llamacpp": "llamacpp", "organization_owner": "lmstudio"}
"""The type of a server by the owner of its models."""


def usual_addresses(environment: Mapping[str, str]) -> Sequence[str]:
    """The base URLs to ask, all of this machine; that of an Ollama has no path."""
    if ADDRESSES_VARIABLE in environment:
        addresses = environment[ADDRESSES_VARIABLE].split()
    else:
        services = (row for row in SERVICES if row.local)
        addresses = [row.named_url(environment)[0] or row.base_url for row in services]
    plain = (url for url in addresses if base_url_problem(url) is None)
    local = (url for url in plain if urlsplit(url).scheme == "http" and is_local(url))
    return [url.rstrip("/") for url in local]


async def find_local_servers(
    environment: Mapping[str, str], client: HttpClient, *, limit_s: float | None = None
) -> Sequence[LocalServer]:
    """The model servers that answer within `limit_s` seconds; all are asked at once.

    The default limit is `LIMIT_S`, or `NAMED_LIMIT_S` if `DIRGE_LOCAL_SERVERS` names addresses. A
    server that is none of the known ones has the type `openai`.
    """
    await client.warm_up()
    if limit_s is None:
        limit_s = NAMED_LIMIT_S if environment.get(ADDRESSES_VARIABLE) else LIMIT_S
    probes = [_probe(client, address, limit_s) for address in usual_addresses(environment)]
    return [server for server in await asyncio.gather(*probes) if server is not None]


def with_local_servers(config: Config, known: Mapping[str, LocalServer] | None = None) -> Config:
    """`config` with the local servers, if no other provider has a model. Blocks without `known`."""
    types = local_types(config)
    if not types:
        return config
    if known is None:
        with ThreadPoolExecutor(1) as thread:
            servers = thread.submit(asyncio.run, _find_servers(config.origin.environment)).result()
        with_models = [server for server in servers if server.models]
        known = {server.type: server for server in reversed(with_models or servers)}
    usable = {name: known[name] for name in types if name in known}
    return config.with_origin(replace(config.origin, found=usable))


async def _find_servers(environment: Mapping[str, str]) -> Sequence[LocalServer]:
    async with aclosing(HttpClient()) as client:
        return await find_local_servers(environment, client)


async def _probe(client: HttpClient, place: str, limit_s: float) -> LocalServer | None:
    is_ollama = not urlsplit(place).path
    urls = [f"{place}/models", f"{place.removesuffix('/v1')}/api/v0/models"]
    if is_ollama:
        urls = [f"{place}/api/tags", f"{place}/api/ps"]
    first, second = await asyncio.gather(*(_fetch_json(client, url, limit_s) for url in urls))
    if is_ollama:
        return _ollama(place, first, second)
    return _lm_studio(place, second) or _openai_like(place, first)


async def _fetch_json(client: HttpClient, url: str, limit_s: float) -> Any:
    """The JSON at `url`; None if there is none."""
    try:
        headers = {"accept": "application/json", "user-agent": "dirge"}
        response = await client.fetch(
            HttpRequest("GET", url, headers), timeout_s=limit_s, max_bytes=_MAX_PROBE_BYTES
        )
        return json.loads(response.body) if response.status == 200 else None
    except (TransportError, TimeoutError, ValueError, RecursionError):
        return None


def _ollama(place: str, tags: Any, running: Any) -> LocalServer | None:
    if not isinstance(tags, dict) or not isinstance(tags.get("models"), list):
        return None
    models = list(_rows(tags, "models", "name"))
    # A llama.cpp server answers here as well, with texts for sizes, and speaks something else.
    if len(models) < len(tags["models"]) or any(isinstance(m.get("size"), str) for m in models):
        return None
    loaded = {row["name"] for row in _rows(running, "models", "name")}
    names = [row["name"] for row in models if not _is_embedding(row["name"], row.get("details"))]
    return LocalServer(type="ollama", base_url=place, models=_loaded_first(names, loaded))


def _lm_studio(place: str, native: Any) -> LocalServer | None:
    rows = [row for row in _rows(native, "data", "id") if isinstance(row.get("state"), str)]
    if not rows:
        return None
    loaded = {row["id"] for row in rows if row["state"] == "loaded"}
    names = [row["id"] for row in rows if row.get("type") != "embeddings"]
    return LocalServer(type="lmstudio", base_url=place, models=_loaded_first(names, loaded))


def _openai_like(place: str, listed: Any) -> LocalServer | None:
    is_list = isinstance(listed, dict) and listed.get("object") == "list"
    kinds = ("model", None) if is_list else ("model",)
    rows = [row for row in _rows(listed, "data", "id") if row.get("object") in kinds]
    if not rows:
        return None
    kind = _BY_OWNER.get(str(rows[0].get("owned_by")), _OTHER)
    names = [row["id"] for row in rows if not _is_embedding(row["id"], None)]
    return LocalServer(type=kind, base_url=place, models=_loaded_first(names, set()))


def _rows(body: Any, name: str, key: str) -> Iterator[dict[str, Any]]:
    """The objects of a list in an answer that have a text as their `key`."""
    rows = body.get(name) if isinstance(body, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get(key), str) and row[key].isprintable():
            yield row


def _is_embedding(name: str, details: Any) -> bool:
    family = str(details.get("family", "")) if isinstance(details, dict) else ""
    return "embed" in name.lower() or "bert" in family.lower()


def _loaded_first(names: Sequence[str], loaded: set[str]) -> tuple[str, ...]:
    """`names` without repetitions, loaded models first: loading another takes time and memory."""
    unique = dict.fromkeys(names)
    return tuple(sorted(unique, key=lambda name: name not in loaded))


_MAX_LIST_BYTES = 8 * 1024 * 1024
_MAX_MODELS = 5000
_MAX_ID_CHARS = 256


async def list_models(
    settings: ProviderSettings, client: HttpClient, *, limit_s: float
) -> Sequence[str]:
    """The ids the service lists. Raises ConfigError, ProviderError (404 or 405: it has no list)."""
    wire = wire_of(settings.type)
    if wire not in _MODEL_LISTS:
        hint = f"Name a model: `-m {settings.alias}/…`."
        raise ConfigError(f"Provider `{settings.alias}` has no list of models.", hint=hint)
    check_base_url(settings.base_url, settings.allow_insecure)
    path, key_headers, _ = _MODEL_LISTS[wire]
    base_url = settings.base_url.rstrip("/")
    # A base URL may hold the version, or not.
    version = base_url.rpartition("/")[2]
    url = base_url + (path.removeprefix(f"/{version}") if wire == "gemini" else path)
    key = (settings.api_key or "").strip()
    at = Endpoint(settings=settings, url=url, key=key)
    try:
        body = await fetch_json(
            client,
            at,
            key_headers(key) if key else {},
            timeout_s=limit_s,
            max_bytes=_MAX_LIST_BYTES,
            awaited="list of models",
        )
        return parse_model_ids(body, wire=wire)
    except ValueError as error:
        raise unreadable_error(at, str(error), json.dumps(body), "establish") from error
    except ProviderError as error:
        if error.status not in (404, 405):
            raise
        raise ProviderError(
            f"{at.alias} has no list of models at {at.url} ({error.status}).",
            kind="invalid_request",
            status=error.status,
            raw=error.raw,
            hint="Check `base_url`.",
        ) from error


def parse_model_ids(body: Any, *, wire: str) -> Sequence[str]:
    """The ids in a list of models, as parsed JSON. Raises ValueError if it isn't such a list."""
    try:
        ids = list(_MODEL_LISTS[wire][2](body))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a list of models ({error!r})") from error
    if not all(isinstance(name, str) for name in ids):
        raise ValueError("not a list of models (an id is not text)")
    usable = (name for name in ids if 0 < len(name) <= _MAX_ID_CHARS and name.isprintable())
    return list(dict.fromkeys(usable))[:_MAX_MODELS]


_KeyHeaders: TypeAlias = Callable[[str], Mapping[str, str]]


def _openai_ids(body: Any) -> Iterator[Any]:
    rows = body if isinstance(body, list) else body["data"]
    return (row["id"] for row in rows)


def _gemini_ids(body: Any) -> Iterator[Any]:
    for row in body["models"]:
        if "generateContent" in row.get("supportedGenerationMethods", ["generateContent"]):
            yield row["name"].removeprefix("models/")


_OPENAI_LIST = ("/models", bearer_header, _openai_ids)
_MODEL_LISTS: Mapping[str, tuple[str, _KeyHeaders, Callable[[Any], Iterator[Any]]]] = {
    "openai": _OPENAI_LIST,
    "openai-responses": _OPENAI_LIST,
    "anthropic": (
        "/v1/models?limit=1000",
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        _openai_ids,
    ),
    "gemini": ("/v1beta/models?pageSize=1000", lambda key: {"x-goog-api-key": key}, _gemini_ids),
    "ollama": ("/api/tags", bearer_header, lambda body: (row["name"] for row in body["models"])),
}
"""By wire format: the path behind the base URL, the headers of a key, the ids in an answer."""
