"""Why Gemini did not answer, or did not finish, in words for people."""

from collections.abc import Mapping

from dirge_py.providers.failures import ASK_DIFFERENTLY, Phase, declined
from dirge_py.types.errors import ErrorKind, ProviderError

_MAX_WORDS = 500

_REFUSED: Mapping[str, str] = {
    "SAFETY": "its safety filter stopped it",
    "RECITATION": "it would have repeated a source too closely",
    "LANGUAGE": "the language is not supported",
    "BLOCKLIST": "it holds a term that is blocked",
    "PROHIBITED_CONTENT": "the content may be prohibited",
    "SPII": "it may hold personal data",
    "IMAGE_SAFETY": "the safety filter stopped a picture",
    "IMAGE_PROHIBITED_CONTENT": "a picture may be prohibited",
    "IMAGE_RECITATION": "a picture would have repeated a source too closely",
    "ESCALATION": "a rule of the service stopped it",
    "PUP_LIMITED_DISABLED": "the account is limited for how it was used",
    "MODEL_ARMOR": "Model Armor stopped it",
    "JAILBREAK": "it looks like an attempt to get around the rules",
}
_BROKEN: Mapping[str, tuple[ErrorKind, str]] = {
    "MALFORMED_FUNCTION_CALL": ("server", "The model wrote a tool call that cannot be read"),
    "MALFORMED_RESPONSE": ("server", "The model wrote an answer that cannot be read"),
    "UNEXPECTED_TOOL_CALL": ("server", "The model called a tool that it was not offered"),
    "TOO_MANY_TOOL_CALLS": ("server", "The model called too many tools at once"),
    "OTHER": ("server", "The model stopped without telling why"),
    "MISSING_THOUGHT_SIGNATURE": (
        "invalid_request",
        "The model misses a signature of its own thoughts in the history",
    ),
}


def blocked(reason: str, words: str) -> ProviderError:
    """The prompt was not let through to the model."""
    why = _REFUSED.get(reason, f"it gives the reason {reason[:40]}")
    return ProviderError(
        f"The service did not let the prompt through to the model: {_told(why, words)}.",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="establish",
    )


def broken_off(reason: str, words: str, phase: Phase) -> ProviderError | None:
    """The error that a `finishReason` is; None for one that is no error."""
    if reason in _REFUSED:
        return declined(f"{_told(_REFUSED[reason], words)}.")
    if reason not in _BROKEN:
        return None
    kind, what = _BROKEN[reason]
    return ProviderError(
        f"{what} ({reason}).",
        kind=kind,
        raw=words[:_MAX_WORDS],
        hint="" if kind == "server" else "`/compact` makes a history that needs none.",
        phase=phase,
    )


def _told(why: str, words: str) -> str:
    said = " ".join(words.split())[:_MAX_WORDS].rstrip(".")
    return f"{why} ({said})" if said else why
