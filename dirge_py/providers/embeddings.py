"""Texts as vectors. Off unless asked for: nothing here is used by a conversation.

provider = embedder("openai", settings, http)
found = await provider.embed(EmbeddingRequest(input=["a text", "another"]))
found.embeddings    # one vector for each text, in their order
"""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import failures
from dirge_py.providers.base import ProviderSettings, check_base_url
from dirge_py.providers.client import HttpClient
from dirge_py.providers.embedding_wires import EMBEDDING_WIRES, EmbeddingWire
from dirge_py.providers.endpoint import Endpoint, endpoint
from dirge_py.providers.headers import bearer, request_headers
from dirge_py.types.errors import ConfigError, ProviderError

MOST_INPUTS = 2048
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


Attempt: TypeAlias = Callable[[], Awaitable[Embeddings]]
"""One exchange with the service; may be made again."""


async def _once(attempt: Attempt) -> Embeddings:
    return await attempt()


def embedder(
    wire: str,
    settings: ProviderSettings,
    http: HttpClient,
    *,
    each: Callable[[Attempt], Awaitable[Embeddings]] = _once,
) -> EmbeddingProvider:
    """The embeddings of a configured service that speaks `wire`. `each` makes one exchange.

    Raises:
        ConfigError: services that speak this have none, or its address would not do.
    """
    known = EMBEDDING_WIRES.get(wire)
    if known is None:
        raise ConfigError(
            f"`{settings.alias}` ({settings.type}) has no embeddings.",
            hint=f"Services that speak {' or '.join(EMBEDDING_WIRES)} have.",
        )
    base_url = (settings.base_url or known.default_base_url).rstrip("/")
    check_base_url(base_url, settings.allow_insecure)
    return _HttpEmbeddings(known, settings, base_url, http, each)


class _HttpEmbeddings:
    """An `EmbeddingProvider`, in as many requests as the texts need."""

    def __init__(
        self,
        wire: EmbeddingWire,
        settings: ProviderSettings,
        base_url: str,
        http: HttpClient,
        each: Callable[[Attempt], Awaitable[Embeddings]],
    ) -> None:
        self._wire = wire
        self._settings = settings
        self._base_url = base_url
        self._http = http
        self._each = each

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        if not request.input:
            raise ProviderError("There is no text to embed.", kind="invalid_request")
        batches = []
        for start in range(0, len(request.input), MOST_INPUTS):
            batch = replace(request, input=request.input[start : start + MOST_INPUTS])
            batches.append(await self._each(partial(self._fetched, batch)))
        return _joined(batches)

    async def _fetched(self, request: EmbeddingRequest) -> Embeddings:
        model = request.model or self._wire.default_model
        at = endpoint(
            self._settings,
            url=self._base_url + self._wire.path,
            model=model,
            key=self._settings.api_key,
            key_env=self._wire.key_env,
        )
        try:
            answer = await self._http.fetch(
                "POST",
                at.url,
                headers=request_headers(
                    {"content-type": "application/json"},
                    bearer((self._settings.api_key or "").strip()),
                    self._settings.headers,
                ),
                body=json.dumps(self._body(request, model)).encode(),
                timeout_s=self._settings.timeouts.establish_s,
                max_bytes=_MAX_BYTES,
            )
        except TimeoutError:
            waited = f"no answer within {self._settings.timeouts.establish_s:g} s"
            raise failures.timed_out(at, waited, "establish") from None
        except Exception as error:
            # `TransportFailed`, told by its shape: its module is heavy and loaded only when used.
            trouble = getattr(error, "trouble", None)
            if trouble is None:
                raise
            told = failures.from_transport(at, trouble, str(error))
            raise self._wire.explained(told, model, self._base_url) from error
        text = answer.body.decode("utf-8-sig", errors="replace")
        if answer.status != 200:
            refused = failures.from_status(at, answer.status, answer.headers, text)
            raise self._wire.explained(refused, model, self._base_url)
        return _read(self._wire, at, text, request)

    def _body(self, request: EmbeddingRequest, model: str) -> Mapping[str, Any]:
        body = {"model": model, **self._wire.members}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        # Half of a surrogate pair, from a file with odd bytes, is no UTF-8.
        texts = [text.encode("utf-8", errors="replace").decode() for text in request.input]
        return {**body, **request.extra, "input": texts}


def _read(wire: EmbeddingWire, at: Endpoint, text: str, request: EmbeddingRequest) -> Embeddings:
    if text.lstrip().startswith("<"):
        raise failures.web_page(at, text)
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise failures.unreadable(at, "it is no JSON", text[:500], "establish") from error
    if not isinstance(payload, dict):
        raise failures.unreadable(at, "it is no JSON object", text[:500], "establish")
    if payload.get("error"):
        raise failures.from_body(at, payload, "establish")
    vectors = wire.vectors(payload)
    wrong = _wrong(vectors, request)
    if wrong:
        raise ProviderError(
            f"{at.alias}: the embeddings of {at.model} cannot be used: {wrong}.",
            kind="invalid_request",
            raw=at.told(text[:500]),
            hint="Is it an embedding model, and does it know `dimensions`?",
        )
    prompt_tokens, total_tokens = wire.tokens(payload)
    model = payload.get("model")
    return Embeddings(
        embeddings=tuple(tuple(map(float, vector)) for vector in vectors),
        model=model if isinstance(model, str) and model else at.model,
        usage=EmbeddingUsage(prompt_tokens=prompt_tokens, total_tokens=total_tokens),
    )


def _wrong(vectors: Sequence[Any], request: EmbeddingRequest) -> str:
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
