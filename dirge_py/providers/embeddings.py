"""Texts as vectors, for `dirge embed` and `/recall --semantic`.

    provider = EmbeddingProvider("openai", settings, http)
    answer = await provider.embed(EmbeddingRequest(input=["a text", "another"]))
    answer.embeddings    # one vector for each text, in the same order

`embed_texts` takes the provider from the settings, and retries after temporary errors.
"""

import asyncio
import json
import math
import random as randomness
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.config.access import has_access
from dirge_py.config.models import main_model
from dirge_py.config.schema import Config, all_entries, entry_of
from dirge_py.config.services import SERVICE_OF, check_base_url, wire_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import Redactor
from dirge_py.providers import errors
from dirge_py.providers.adapter import fetch_json
from dirge_py.providers.client import HttpClient, bearer_header
from dirge_py.providers.errors import Endpoint
from dirge_py.providers.models import provider_settings
from dirge_py.providers.ollama import explain_error
from dirge_py.providers.settings import ProviderSettings
from dirge_py.providers.stream_parser import as_object, as_objects
from dirge_py.types.errors import ConfigError, ProviderError

MAX_INPUTS = 2048
"""The most texts of one request; more texts take several requests."""
_MAX_BYTES = 512 * 1024 * 1024


class EmbeddingFormat(NamedTuple):
    """How services of one wire format make embeddings."""

    path: str
    """The path behind the base URL."""
    default_model: str
    """The model that is used when none is named."""
    members: Mapping[str, Any]
    """Further members of the request."""
    read: Callable[[Mapping[str, Any]], tuple[Sequence[Any], Any, Any]]
    """The vectors in an answer, the tokens of the input, and all tokens."""


def _read_openai(payload: Mapping[str, Any]) -> tuple[Sequence[Any], Any, Any]:
    """The vectors are put into the order of the texts; they don't always come in it."""
    rows = as_objects(payload.get("data"))
    if all(isinstance(row.get("index"), int) for row in rows):
        rows = sorted(rows, key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(len(rows))):
            rows = []
    usage = as_object(payload.get("usage"))
    vectors = [row.get("embedding") for row in rows]
    return vectors, usage.get("prompt_tokens"), usage.get("total_tokens")


def _read_ollama(payload: Mapping[str, Any]) -> tuple[Sequence[Any], Any, Any]:
    vectors, tokens = payload.get("embeddings"), payload.get("prompt_eval_count")
    return vectors if isinstance(vectors, list) else [], tokens, tokens


_OPENAI = EmbeddingFormat(
    "/embeddings", "text-embedding-3-small", {"encoding_format": "float"}, _read_openai
)
EMBEDDING_FORMATS: Mapping[str, EmbeddingFormat] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    # By default the server silently embeds only the beginning of a long text.
    "ollama": EmbeddingFormat("/api/embed", "nomic-embed-text", {"truncate": False}, _read_ollama),
}
"""The formats by the wire format that a service speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """The texts to embed, and how."""

    input: Sequence[str]
    """The texts."""
    model: str = ""
    """The service's id of the model; empty: the usual one."""
    dimensions: int | None = None
    """The length of the vectors; None: the model's own."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the request's body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingUsage:
    """The tokens of a request."""

    prompt_tokens: int | None = None
    """The tokens of the texts; None if the service doesn't count them."""
    total_tokens: int | None = None
    """All tokens; None if the service doesn't count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """The answer to an `EmbeddingRequest`."""

    embeddings: tuple[tuple[float, ...], ...]
    """One vector for each text, in the order of the texts, all of one length."""
    model: str
    """The model, as the service names it."""
    usage: EmbeddingUsage = field(default_factory=EmbeddingUsage)
    """The tokens of all requests."""


EmbeddingAttempt: TypeAlias = Callable[[], Awaitable[Embeddings]]
"""Makes one request; may be called again."""
RunAttempt: TypeAlias = Callable[[EmbeddingAttempt], Awaitable[Embeddings]]


class EmbeddingProvider:
    """The embeddings of a configured service, in as many requests as the texts need."""

    def __init__(
        self,
        wire: str,
        settings: ProviderSettings,
        http: HttpClient,
        *,
        run_attempt: RunAttempt = lambda attempt: attempt(),
    ) -> None:
        """`wire` has embeddings, `run_attempt` makes one request. Raises ConfigError: address."""
        self._format = EMBEDDING_FORMATS[wire]
        self._settings = settings
        self._base_url = (settings.base_url or SERVICE_OF[wire].base_url).rstrip("/")
        self._http = http
        self._run_attempt = run_attempt
        self._is_ollama = wire == "ollama"
        check_base_url(self._base_url, settings.allow_insecure)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors of `request.input`. Raises ProviderError, also if a text has no vector."""
        if not request.input:
            raise ProviderError("There is no text to embed.", kind="invalid_request")
        batches = []
        for start in range(0, len(request.input), MAX_INPUTS):
            batch = replace(request, input=request.input[start : start + MAX_INPUTS])
            batches.append(await self._run_attempt(partial(self._fetched, batch)))
        return _joined(batches)

    async def _fetched(self, request: EmbeddingRequest) -> Embeddings:
        model = request.model or self._format.default_model
        settings, url = self._settings, self._base_url + self._format.path
        at = Endpoint(settings=settings, url=url, model=model, key=settings.api_key)
        size = {} if request.dimensions is None else {"dimensions": request.dimensions}
        # Half a surrogate pair, from a file that isn't UTF-8, can't be encoded.
        texts = [text.encode("utf-8", errors="replace").decode() for text in request.input]
        body = {"model": model, **self._format.members, **size, **request.extra, "input": texts}
        try:
            payload = await fetch_json(
                self._http,
                at,
                bearer_header((settings.api_key or "").strip()),
                body,
                timeout_s=settings.timeouts.establish_s,
                max_bytes=_MAX_BYTES,
            )
        except ProviderError as error:
            if self._is_ollama:
                raise explain_error(error, model=model, base_url=self._base_url) from error
            raise
        return _parse_embeddings(self._format, at, payload, request)


def _parse_embeddings(
    api_format: EmbeddingFormat, at: Endpoint, payload: Any, request: EmbeddingRequest
) -> Embeddings:
    raw = json.dumps(payload)[:500]
    if not isinstance(payload, dict):
        raise errors.unreadable_error(at, "it is not a JSON object", raw, "establish")
    if payload.get("error"):
        raise errors.body_error(at, payload, "establish")
    vectors, *counts = api_format.read(payload)
    wrong = _invalid_answer(vectors, request)
    if wrong:
        raise ProviderError(
            f"{at.alias}: the embeddings of {at.model} cannot be used: {wrong}.",
            kind="invalid_request",
            raw=at.redacted(raw),
            hint="Is it an embedding model, and does it know `dimensions`?",
        )
    prompt_tokens, total_tokens = (n if isinstance(n, int) else None for n in counts)
    model = payload.get("model")
    return Embeddings(
        embeddings=tuple(tuple(map(float, vector)) for vector in vectors),
        model=model if isinstance(model, str) and model else at.model,
        usage=EmbeddingUsage(prompt_tokens=prompt_tokens, total_tokens=total_tokens),
    )


def _invalid_answer(vectors: Sequence[Any], request: EmbeddingRequest) -> str:
    """What is wrong with the vectors; empty if nothing is."""
    if len(vectors) != len(request.input):
        return f"{len(vectors)} came for {len(request.input)} texts"
    if not all(isinstance(vector, list) and vector for vector in vectors):
        return "one of them is not a list of numbers"
    if not all(map(_is_number, chain.from_iterable(vectors))):
        return "one of them contains something other than numbers"
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        return f"they are of different lengths ({lengths[0]} and {lengths[-1]})"
    if request.dimensions not in (None, lengths[0]):
        return f"they have {lengths[0]} dimensions, not the {request.dimensions} asked for"
    return ""


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def _joined(batches: Sequence[Embeddings]) -> Embeddings:
    sums: dict[str, int | None] = {}
    for name in ("prompt_tokens", "total_tokens"):
        counts = [getattr(batch.usage, name) for batch in batches]
        sums[name] = None if None in counts else sum(counts)
    vectors = tuple(vector for batch in batches for vector in batch.embeddings)
    return Embeddings(embeddings=vectors, model=batches[0].model, usage=EmbeddingUsage(**sums))


RETRY_POLICY = RecoveryPolicy()


async def embed_texts(
    config: Config,
    http: HttpClient,
    texts: Sequence[str],
    *,
    alias: str | None = None,
    model: str = "",
    dimensions: int | None = None,
    notice: Callable[[str], None],
) -> Embeddings:
    """The vectors of `texts` by `model`, `[alias/]id` if there is no `alias`; "": the usual one.

    The default provider is that of the main model. `notice` gets a message for each retry. Raises
    ConfigError: the provider has no embeddings; ProviderError: it refused.
    """
    if alias is None:
        alias, model = split_model_name(config, model)
    provider = _configured(config, http, alias, partial(retry_embedding, notice=notice))
    return await provider.embed(EmbeddingRequest(input=texts, model=model, dimensions=dimensions))


def _configured(
    config: Config, http: HttpClient, alias: str | None, run_attempt: RunAttempt
) -> EmbeddingProvider:
    chosen = alias or main_model(config).alias
    wire = wire_of(entry_of(config, chosen).type)
    if wire not in EMBEDDING_FORMATS:
        entries = all_entries(config).items()
        speaking = (name for name, entry in entries if wire_of(entry.type) in EMBEDDING_FORMATS)
        able = [name for name in speaking if has_access(config, name)]
        hint = f"Configure a provider of type {' or '.join(EMBEDDING_FORMATS)}."
        hint = f"Choose one with `--provider`: {', '.join(able)}." if able else hint
        problem = f"Provider `{chosen}` ({entry_of(config, chosen).type}) has no embeddings."
        raise ConfigError(problem, hint=hint)
    # `--base-url` and the key's flags are for the main provider only.
    is_main = chosen == config.origin.chosen.provider or chosen == main_model(config).alias
    settings = provider_settings(config, chosen, Redactor(), is_main=is_main)
    return EmbeddingProvider(wire, settings, http, run_attempt=run_attempt)


def split_model_name(config: Config, model: str) -> tuple[str | None, str]:
    """`alias/id` in two parts if there is such a provider; else None and `model`."""
    alias, _, model_id = model.partition("/")
    is_known = alias in config.providers or (
        alias in all_entries(config) and has_access(config, alias)
    )
    return (alias, model_id) if model_id and is_known else (None, model)


async def retry_embedding(
    attempt: EmbeddingAttempt,
    *,
    notice: Callable[[str], None],
    policy: RecoveryPolicy | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> Embeddings:
    """The result of `attempt`, retried as model calls are, with notices. Raises ProviderError."""
    rules = policy or RETRY_POLICY
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderError as error:
            judged = rules.judged(error)
            if not judged.is_retryable or retry == rules.max_retries:
                raise judged from error
            delay_s = rules.delay_s(retry, judged, random)
        retry += 1
        notice(f"{judged.message} Trying again in {delay_s:.0f} s.")
        await sleep(delay_s)
