"""Which model servers run on this machine. Asked only where nothing else could be used.

What is sent is a GET without any key, to loopback addresses alone, and no redirect is followed.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from dirge_py.config.base_url import base_url_problem, is_loopback, ollama_url
from dirge_py.config.models import local_types
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES, Service
from dirge_py.config.sources import Found
from dirge_py.providers.answers import TransportFailed
from dirge_py.providers.client import HttpClient

PLACES_VARIABLE = "DIRGE_LOCAL_SERVERS"
"""Addresses to ask instead of the usual ones, blanks between them; empty: none is asked."""

LIMIT_S = 0.3
NAMED_LIMIT_S = 3.0
"""Where a person named the addresses: something is there, if slow."""

_MOST_BYTES = 1024 * 1024
_OTHER = "openai"

_BY_OWNER = {"vllm": "vllm", "llamacpp": "llamacpp", "organization_owner": "lmstudio"}
"""What a server calls the owner of its models, by which it gives itself away."""


def usual_places(environment: Mapping[str, str]) -> Sequence[str]:
    """The base URLs to ask, all of this machine: an Ollama's ends in no path, others' do."""
    if PLACES_VARIABLE in environment:
        places = environment[PLACES_VARIABLE].split()
    else:
        places = [_usual_place(service, environment) for service in SERVICES if service.local]
    return [place.rstrip("/") for place in places if _is_here(place)]


async def local_servers(
    environment: Mapping[str, str], client: HttpClient, *, limit_s: float | None = None
) -> Sequence[Found]:
    """The model servers that answer within `limit_s` seconds, all asked at once.

    By default that is `LIMIT_S`, or `NAMED_LIMIT_S` where `DIRGE_LOCAL_SERVERS` names them.

    Told apart by what they say: whatever else listens at such an address is none of them. One that
    only speaks like OpenAI is of the type `openai`.
    """
    await client.warm_up()
    if limit_s is None:
        limit_s = NAMED_LIMIT_S if environment.get(PLACES_VARIABLE) else LIMIT_S
    asked = [_look(client, place, limit_s) for place in usual_places(environment)]
    return [found for found in await asyncio.gather(*asked) if found is not None]


def look_around(config: Config, known: Mapping[str, Found] | None = None) -> Config:
    """The settings, with the local servers where a model is needed that only they could have.

    Asks them, or takes those that are `known`. May be called inside an event loop, which stands
    still meanwhile.
    """
    types = local_types(config)
    if not types:
        return config
    if known is None:
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(asyncio.run, _ask(config.origin.environment)).result()
        with_models = [each for each in found if each.models]
        known = {each.type: each for each in reversed(with_models or found)}
    usable = {name: known[name] for name in types if name in known}
    return config.with_origin(replace(config.origin, found=usable))


async def _ask(environment: Mapping[str, str]) -> Sequence[Found]:
    client = HttpClient()
    try:
        return await local_servers(environment, client)
    finally:
        await client.aclose()


def _usual_place(service: Service, environment: Mapping[str, str]) -> str:
    named, _ = service.named_url(environment)
    return ollama_url(named) if named else service.base_url or ""


def _is_here(url: str) -> bool:
    if base_url_problem(url) is not None:
        return False
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


async def _look(client: HttpClient, place: str, limit_s: float) -> Found | None:
    if not urlsplit(place).path:
        tags, running = await asyncio.gather(
            _got(client, f"{place}/api/tags", limit_s), _got(client, f"{place}/api/ps", limit_s)
        )
        return _ollama(place, tags, running)
    root = place.removesuffix("/v1")
    listed, told = await asyncio.gather(
        _got(client, f"{place}/models", limit_s), _got(client, f"{root}/api/v0/models", limit_s)
    )
    return _lm_studio(place, told) or _openai_like(place, listed)


async def _got(client: HttpClient, url: str, limit_s: float) -> Any:
    """The JSON at `url`, None if there is none."""
    try:
        got = await client.fetch(
            "GET",
            url,
            headers={"accept": "application/json", "user-agent": "dirge"},
            timeout_s=limit_s,
            max_bytes=_MOST_BYTES,
        )
        return json.loads(got.body) if got.status == 200 else None
    except (TransportFailed, TimeoutError, ValueError, RecursionError):
        return None


def _ollama(place: str, tags: Any, running: Any) -> Found | None:
    if not isinstance(tags, dict) or not isinstance(tags.get("models"), list):
        return None
    models = list(_rows(tags, "models", "name"))
    # A llama.cpp server answers here as well, with texts for sizes, and speaks something else.
    if len(models) < len(tags["models"]) or any(isinstance(m.get("size"), str) for m in models):
        return None
    loaded = {row["name"] for row in _rows(running, "models", "name")}
    names = [row["name"] for row in models if not _is_embedding(row["name"], row.get("details"))]
    return Found(type="ollama", base_url=place, models=_first(names, loaded))


def _lm_studio(place: str, told: Any) -> Found | None:
    rows = [row for row in _rows(told, "data", "id") if isinstance(row.get("state"), str)]
    if not rows:
        return None
    loaded = {row["id"] for row in rows if row["state"] == "loaded"}
    names = [row["id"] for row in rows if row.get("type") != "embeddings"]
    return Found(type="lmstudio", base_url=place, models=_first(names, loaded))


def _openai_like(place: str, listed: Any) -> Found | None:
    is_list = isinstance(listed, dict) and listed.get("object") == "list"
    kinds = ("model", None) if is_list else ("model",)
    rows = [row for row in _rows(listed, "data", "id") if row.get("object") in kinds]
    if not rows:
        return None
    kind = _BY_OWNER.get(str(rows[0].get("owned_by")), _OTHER)
    names = [row["id"] for row in rows if not _is_embedding(row["id"], None)]
    return Found(type=kind, base_url=place, models=_first(names, set()))


def _rows(body: Any, name: str, key: str) -> Iterator[dict[str, Any]]:
    """The objects of a list in an answer that have a text as their `key`."""
    rows = body.get(name) if isinstance(body, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get(key), str) and row[key].isprintable():
            yield row


def _is_embedding(name: str, details: Any) -> bool:
    family = str(details.get("family", "")) if isinstance(details, dict) else ""
    return "embed" in name.lower() or "bert" in family.lower()


def _first(names: Sequence[str], loaded: set[str]) -> tuple[str, ...]:
    """Those that are loaded first: another one would have to be loaded, and that one go."""
    unique = dict.fromkeys(names)
    return tuple(sorted(unique, key=lambda name: name not in loaded))
