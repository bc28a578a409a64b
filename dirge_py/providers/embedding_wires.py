"""How services are asked for embeddings: OpenAI and those who follow it, and Ollama."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.ollama_failures import explained
from dirge_py.providers.translator import as_object, as_objects
from dirge_py.types.errors import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingWire:
    """One way to ask. `members` are sent along; `vectors` and `tokens` read an answer.

    `tokens` are those of the prompt and all, None where they are not told. `explained` gets an
    error, the model and the base URL, and gives the error with what its service's owner can do.
    """

    default_base_url: str
    path: str
    default_model: str
    key_env: tuple[str, ...]
    members: Mapping[str, Any]
    vectors: Callable[[Mapping[str, Any]], Sequence[Any]]
    tokens: Callable[[Mapping[str, Any]], tuple[int | None, int | None]]
    explained: Callable[[ProviderError, str, str], ProviderError]


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


def _ollama_explained(error: ProviderError, model: str, base_url: str) -> ProviderError:
    return explained(error, model=model, is_at_home=base_url == _OLLAMA.default_base_url)


_OPENAI = EmbeddingWire(
    default_base_url="https://api.openai.com/v1",
    path="/embeddings",
    default_model="text-embedding-3-small",
    key_env=("OPENAI_API_KEY",),
    members={"encoding_format": "float"},
    vectors=_by_index,
    tokens=_openai_tokens,
    explained=lambda error, model, base_url: error,
)

_OLLAMA = EmbeddingWire(
    default_base_url="http://127.0.0.1:11434",
    path="/api/embed",
    default_model="nomic-embed-text",
    key_env=("OLLAMA_API_KEY",),
    # Unasked, the server embeds the beginning of a long text and tells nobody.
    members={"truncate": False},
    vectors=_in_order,
    tokens=_ollama_tokens,
    explained=_ollama_explained,
)

EMBEDDING_WIRES: Mapping[str, EmbeddingWire] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "ollama": _OLLAMA,
}
"""By the format that a service speaks."""
