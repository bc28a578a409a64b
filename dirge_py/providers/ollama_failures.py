"""What goes wrong with a server of one's own, and what its owner can do about it."""

import re
from collections.abc import Callable

from dirge_py.types.errors import ErrorKind, ProviderError

_Case = tuple[re.Pattern[str], ErrorKind | None, Callable[[str], str]]


def _case(words: str, kind: ErrorKind | None, hint: Callable[[str], str] | str) -> _Case:
    told = hint if callable(hint) else lambda _, text=hint: text
    return re.compile(words, re.IGNORECASE), kind, told


_NO_MODEL = _case(
    r"model\b.{0,200}\bnot found",
    "invalid_request",
    lambda model: f"`ollama pull {model}` fetches it; `/model` or `--model` chooses another.",
)
_CASES: tuple[_Case, ...] = (
    _NO_MODEL,
    _case(
        r"requires more (?:system |gpu )?memory|out of memory|insufficient memory",
        "invalid_request",
        lambda model: (
            "Free memory, choose a smaller model, or a smaller `window_tokens` in "
            f'[models."{model}"].'
        ),
    ),
    _case(
        r"does not support (?:tools|chat|completion)",
        "invalid_request",
        "dirge works with tools: choose a model that `ollama show` lists as able to use them.",
    ),
    _case(
        r"missing data required for image input|does not support (?:images?|vision)",
        "invalid_request",
        "Choose a model that `ollama show` lists as able to see.",
    ),
    _case(
        r"(?:context length|context window|context size)",
        "context_length",
        "`/compact` shortens the conversation.",
    ),
    _case(
        r"server busy|maximum pending requests|loading model|runner (?:to start|process has)|"
        r"model runner has unexpectedly stopped|model failed to load|running the model",
        "server",
        "Try again later; the log of `ollama serve` says more.",
    ),
)
# Part of the message: the hint is the loop's, once it has tried to make the request smaller.
_WINDOW = (
    ' Ollama serves what `window_tokens` in [models."{model}"] says, else its own few thousand '
    "tokens."
)
_REFUSES_THINKING = re.compile(r"does not support thinking|\bthink value\b", re.IGNORECASE)


def explained(error: ProviderError, *, model: str, is_at_home: bool) -> ProviderError:
    """`error` with the kind and the hint that fit Ollama. `is_at_home`: its address is the usual.

    The words decide: servers give most of these with the status 500, or in the middle of an answer.
    """
    if error.status is None and "No connection to" in error.message and is_at_home:
        return _changed(error, None, "Is Ollama running? `ollama serve` starts it.")
    if error.kind in {"auth", "aborted", "rate_limit"}:
        return error
    for words, kind, hint in _CASES:
        if words.search(error.raw):
            more = _WINDOW.format(model=model) if kind == "context_length" else ""
            return _changed(error, kind, hint(model), more)
    if error.status == 404:
        path = "`base_url` is the server's address alone, without `/v1`."
        return _changed(error, None, f"{error.hint} {path}")
    return error


def refuses_thinking(error: ProviderError) -> bool:
    """Whether the model cannot think, or not in the way that was asked for."""
    return error.status == 400 and bool(_REFUSES_THINKING.search(error.raw))


def _changed(
    error: ProviderError, kind: ErrorKind | None, hint: str, more: str = ""
) -> ProviderError:
    return ProviderError(
        error.message + more,
        kind=kind or error.kind,
        status=error.status,
        retry_after_s=error.retry_after_s,
        raw=error.raw,
        hint=hint,
        phase=error.phase,
    )
