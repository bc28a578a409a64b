"""Texts as vectors. Off unless asked for: nothing here is used by a conversation.

    provider = make_embedding_provider("openai", settings, http)
    found = await provider.embed(EmbeddingRequest(input=["a text", "another"]))
    found.embeddings    # one vector for each text, in their order

`configured_embeddings` takes the provider from the settings, `retry_embedding` repeats a request
whose error may pass.
"""

import asyncio
import json
import math
import random as randomness
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.config.access import has_access, key_place, provider_access
from dirge_py.config.models import main_model
from dirge_py.config.schema import Config, all_entries, entry_of
from dirge_py.config.services import check_base_url, wire_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import Redactor
from dirge_py.providers import errors
from dirge_py.providers.client import HttpClient
from dirge_py.providers.errors import Endpoint, endpoint_of
from dirge_py.providers.http_types import TransportError, bearer_header, request_headers
from dirge_py.providers.ollama_stream import explain_error
from dirge_py.providers.settings import ProviderSettings, StreamTimeouts
from dirge_py.providers.stream_parser import as_object, as_objects
from dirge_py.types.errors import ConfigError, ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingFormat:
    """One way to ask. `members` are sent along; `vectors` and `tokens` read an answer.

    `tokens` are those of the prompt and all, None where they are not told. `explain_error` gets an
    error, the model and the base URL, and gives the error with what its service's owner can do.
    """

    default_base_url: str
    path: str
    default_model: str
    key_env: tuple[str, ...]
    members: Mapping[str, Any]
    vectors: Callable[[Mapping[str, Any]], Sequence[Any]]
    tokens: Callable[[Mapping[str, Any]], tuple[int | None, int | None]]
    explain_error: Callable[[ProviderError, str, str], ProviderError]


def _by_index(payload: Mapping[str, Any]) -> Sequence[Any]:
    """In the order of the texts, which is not always the order they come in."""
    rows = as_objects(payload.get("data"))
    numbers = [row.get("index") for row in rows]
    if all(isinstance(number, int) for number in numbers):
        rows = sorted(rows, key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(len(rows))):
            return []
    return [row.get("embedding") for row in rows]


def _in_order(payload: Mapping[str, Any]) -> Sequence[Any]:
    vectors = payload.get("embeddings")
    return vectors if isinstance(vectors, list) else []


def _openai_tokens(payload: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = as_object(payload.get("usage"))
    return _count(usage.get("prompt_tokens")), _count(usage.get("total_tokens"))


def _ollama_tokens(payload: Mapping[str, Any]) -> tuple[int | None, int | None]:
    tokens = _count(payload.get("prompt_eval_count"))
    return tokens, tokens


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _explain_for_ollama(error: ProviderError, model: str, base_url: str) -> ProviderError:
    return explain_error(error, model=model, is_at_home=base_url == _OLLAMA.default_base_url)


_OPENAI = EmbeddingFormat(
    default_base_url="https://api.openai.com/v1",
    path="/embeddings",
    default_model="text-embedding-3-small",
    key_env=("OPENAI_API_KEY",),
    members={"encoding_format": "float"},
    vectors=_by_index,
    tokens=_openai_tokens,
    explain_error=lambda error, model, base_url: error,
)
_OLLAMA = EmbeddingFormat(
    default_base_url="http://127.0.0.1:11434",
    path="/api/embed",
    default_model="nomic-embed-text",
    key_env=("OLLAMA_API_KEY",),
    # Unasked, the server embeds the beginning of a long text and tells nobody.
    members={"truncate": False},
    vectors=_in_order,
    tokens=_ollama_tokens,
    explain_error=_explain_for_ollama,
)
EMBEDDING_FORMATS: Mapping[str, EmbeddingFormat] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "ollama": _OLLAMA,
}
"""By the format that a service speaks."""


MAX_INPUTS = 2048
"""Texts of one request; more are sent in several."""
_MAX_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """What to embed. An empty `model` is the service's usual one; `extra` goes into the body."""

    input: Sequence[str]
    model: str = ""
    dimensions: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingUsage:
    """Tokens, None where the service does not count them."""

    prompt_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """One vector for each text, in the order of the texts, all equally long."""

    embeddings: tuple[tuple[float, ...], ...]
    model: str
    usage: EmbeddingUsage = field(default_factory=EmbeddingUsage)


class EmbeddingProvider(Protocol):
    """Whatever turns texts into vectors."""

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors of `request.input`.

        Raises:
            ProviderError: there is nothing to embed, the service refused (see `is_retryable`), or
                what it sent is not one vector for each text.
        """


EmbeddingAttempt: TypeAlias = Callable[[], Awaitable[Embeddings]]
"""One exchange with the service; may be made again."""


async def _once(attempt: EmbeddingAttempt) -> Embeddings:
    return await attempt()


def make_embedding_provider(
    wire: str,
    settings: ProviderSettings,
    http: HttpClient,
    *,
    each: Callable[[EmbeddingAttempt], Awaitable[Embeddings]] = _once,
) -> EmbeddingProvider:
    """The embeddings of a configured service that speaks `wire`. `each` makes one exchange.

    Raises:
        ConfigError: services that speak this have none, or its address would not do.
    """
    known = EMBEDDING_FORMATS.get(wire)
    if known is None:
        raise ConfigError(
            f"`{settings.alias}` ({settings.type}) has no embeddings.",
            hint=f"Services that speak {' or '.join(EMBEDDING_FORMATS)} have.",
        )
    base_url = (settings.base_url or known.default_base_url).rstrip("/")
    check_base_url(base_url, settings.allow_insecure)
    return _HttpEmbeddings(known, settings, base_url, http, each)


class _HttpEmbeddings:
    """An `EmbeddingProvider`, in as many requests as the texts need."""

    def __init__(
        self,
        api_format: EmbeddingFormat,
        settings: ProviderSettings,
        base_url: str,
        http: HttpClient,
        each: Callable[[EmbeddingAttempt], Awaitable[Embeddings]],
    ) -> None:
        self._format = api_format
        self._settings = settings
        self._base_url = base_url
        self._http = http
        self._each = each

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        if not request.input:
            raise ProviderError("There is no text to embed.", kind="invalid_request")
        batches = []
        for start in range(0, len(request.input), MAX_INPUTS):
            batch = replace(request, input=request.input[start : start + MAX_INPUTS])
            batches.append(await self._each(partial(self._fetched, batch)))
        return _joined(batches)

    async def _fetched(self, request: EmbeddingRequest) -> Embeddings:
        model = request.model or self._format.default_model
        at = endpoint_of(
            self._settings,
            url=self._base_url + self._format.path,
            model=model,
            key=self._settings.api_key,
            key_env=self._format.key_env,
        )
        try:
            answer = await self._http.fetch(
                "POST",
                at.url,
                headers=request_headers(
                    {"content-type": "application/json"},
                    bearer_header((self._settings.api_key or "").strip()),
                    self._settings.headers,
                ),
                body=json.dumps(self._body(request, model)).encode(),
                timeout_s=self._settings.timeouts.establish_s,
                max_bytes=_MAX_BYTES,
            )
        except TimeoutError:
            waited = f"no answer within {self._settings.timeouts.establish_s:g} s"
            raise errors.timeout_error(at, waited, "establish") from None
        except TransportError as error:
            failed = errors.connection_error(at, error.kind, str(error))
            raise self._format.explain_error(failed, model, self._base_url) from error
        text = answer.body.decode("utf-8-sig", errors="replace")
        if answer.status != 200:
            refused = errors.status_error(at, answer.status, answer.headers, text)
            raise self._format.explain_error(refused, model, self._base_url)
        return _parse_embeddings(self._format, at, text, request)

    def _body(self, request: EmbeddingRequest, model: str) -> Mapping[str, Any]:
        body = {"model": model, **self._format.members}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        # Half of a surrogate pair, from a file with odd bytes, is no UTF-8.
        texts = [text.encode("utf-8", errors="replace").decode() for text in request.input]
        return {**body, **request.extra, "input": texts}


def _parse_embeddings(
    api_format: EmbeddingFormat, at: Endpoint, text: str, request: EmbeddingRequest
) -> Embeddings:
    if text.lstrip().startswith("<"):
        raise errors.web_page_error(at, text)
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.unreadable_error(at, "it is no JSON", text[:500], "establish") from error
    if not isinstance(payload, dict):
        raise errors.unreadable_error(at, "it is no JSON object", text[:500], "establish")
    if payload.get("error"):
        raise errors.body_error(at, payload, "establish")
    vectors = api_format.vectors(payload)
    wrong = _invalid_answer(vectors, request)
    if wrong:
        raise ProviderError(
            f"{at.alias}: the embeddings of {at.model} cannot be used: {wrong}.",
            kind="invalid_request",
            raw=at.redacted(text[:500]),
            hint="Is it an embedding model, and does it know `dimensions`?",
        )
    prompt_tokens, total_tokens = api_format.tokens(payload)
    model = payload.get("model")
    return Embeddings(
        embeddings=tuple(tuple(map(float, vector)) for vector in vectors),
        model=model if isinstance(model, str) and model else at.model,
        usage=EmbeddingUsage(prompt_tokens=prompt_tokens, total_tokens=total_tokens),
    )


def _invalid_answer(vectors: Sequence[Any], request: EmbeddingRequest) -> str:
    """Why these are not the vectors that were asked for; empty if they are."""
    if len(vectors) != len(request.input):
        return f"{len(vectors)} came for {len(request.input)} texts"
    if not all(isinstance(vector, list) and vector for vector in vectors):
        return "one of them is no list of numbers"
    if not all(_is_number(number) for vector in vectors for number in vector):
        return "one of them holds something else than numbers"
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        return f"they are of different lengths ({lengths[0]} and {lengths[-1]})"
    if request.dimensions not in (None, lengths[0]):
        return f"they have {lengths[0]} dimensions, not the {request.dimensions} asked for"
    return ""


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _joined(batches: Sequence[Embeddings]) -> Embeddings:
    return Embeddings(
        embeddings=tuple(vector for batch in batches for vector in batch.embeddings),
        model=batches[0].model,
        usage=EmbeddingUsage(
            prompt_tokens=_sum([batch.usage.prompt_tokens for batch in batches]),
            total_tokens=_sum([batch.usage.total_tokens for batch in batches]),
        ),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


RETRY_POLICY = RecoveryPolicy()


def configured_embeddings(
    config: Config,
    http: HttpClient,
    *,
    alias: str | None = None,
    each: Callable[[EmbeddingAttempt], Awaitable[Embeddings]],
) -> EmbeddingProvider:
    """The embeddings of the provider `alias`; None: of the one that does the work.

    Raises:
        ConfigError: there is no such provider, or it has none; the hint names those that have.
    """
    chosen = alias or main_model(config).alias
    wire = wire_of(entry_of(config, chosen).type)
    if wire not in EMBEDDING_FORMATS:
        able = _providers_with_embeddings(config)
        raise ConfigError(
            f"Provider `{chosen}` ({entry_of(config, chosen).type}) has no embeddings.",
            hint=f"Ask one with `--provider`: {', '.join(able)}."
            if able
            else f"Configure one that speaks {', '.join(EMBEDDING_FORMATS)}.",
        )
    return make_embedding_provider(wire, _settings(config, chosen), http, each=each)


def split_model_name(config: Config, model: str) -> tuple[str | None, str]:
    """`alias/id` as the two of them, where there is such a provider; else no alias, and the id."""
    alias, _, model_id = model.partition("/")
    is_known = alias in config.providers or (
        alias in all_entries(config) and has_access(config, alias)
    )
    return (alias, model_id) if model_id and is_known else (None, model)


def _providers_with_embeddings(config: Config) -> list[str]:
    return [
        alias
        for alias, entry in all_entries(config).items()
        if wire_of(entry.type) in EMBEDDING_FORMATS and has_access(config, alias)
    ]


def _settings(config: Config, alias: str) -> ProviderSettings:
    access = provider_access(config, alias, is_main=True)
    redactor = Redactor()
    redactor.add(access.api_key)
    return ProviderSettings(
        alias=alias,
        type=access.type,
        base_url=access.base_url or "",
        api_key=access.api_key,
        key_place=key_place(config, alias),
        headers=access.headers,
        allow_insecure=access.allow_insecure,
        timeouts=StreamTimeouts(establish_s=config.timeouts.establish_s),
        redact=redactor.redact,
    )


async def retry_embedding(
    attempt: EmbeddingAttempt,
    *,
    notice: Callable[[str], None],
    policy: RecoveryPolicy | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> Embeddings:
    """`attempt`, made again after an error that may pass, as model calls are; `notice` is told.

    Raises:
        ProviderError: the last one, or one that does not pass.
    """
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
