"""The answer of Gemini's `generateContent`: parts of text, thought and calls, in chunks.

Gemini signs its thinking with a `thoughtSignature` on a part of its answer, and wants it back on
the same part. History stores it, with a marker, in the `signature` of a `ThinkingBlock`: directly
before its call, directly behind its text, or in the thought itself.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.errors import ASK_DIFFERENTLY, Phase, declined_error
from dirge_py.providers.stream_parser import (
    ServiceError,
    StreamParser,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.llm import ThinkingEnd
from dirge_py.types.messages import Usage

Run = Literal["text", "thought"]
MADE_UP_ID = "unnamed_"
"""What the made-up ids of calls without an id begin with."""
_TOO_LONG = frozenset({"MAX_TOKENS", "CONTINUATION"})
_COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)


class GeminiParser(StreamParser):
    """Parses an answer. It ends with the stream: chunks may follow the one with the reason."""

    id_prefix = MADE_UP_ID

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._stop_words = ""
        self._blocked = ""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._run: Run | Literal[""] = ""
        self._length = 0
        self._signed: list[SignedPiece] = []

    @property
    def is_settled(self) -> bool:
        return bool(self._stop or self._blocked)

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        self._start(payload.get("modelVersion"))
        counted = as_object(payload.get("usageMetadata"))
        self._counts |= {name: as_count(counted[name]) for name in _COUNTS if name in counted}
        feedback = as_object(payload.get("promptFeedback"))
        if as_text(feedback.get("blockReason")):
            self._blocked = as_text(feedback.get("blockReason"))
            self._stop_words = as_text(feedback.get("blockReasonMessage"))
        for candidate in as_objects(payload.get("candidates"))[:1]:
            for part in as_objects(as_object(candidate.get("content")).get("parts")):
                self._part(part)
            self._stop = as_text(candidate.get("finishReason")) or self._stop
            self._stop_words = as_text(candidate.get("finishMessage")) or self._stop_words

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        is_answer = as_objects(payload.get("candidates")) or payload.get("promptFeedback")
        # The last of several chunks, when they came as one list, may only count.
        if not is_answer and not (self._is_started and "usageMetadata" in payload):
            raise ServiceError(payload)
        self._read("", payload)
        self._stop = self._stop or "STOP"

    def _end(self) -> None:
        self._end_run()
        phase: Phase = "stream" if self.has_content else "establish"
        if self._blocked:
            self._fail(prompt_blocked_error(self._blocked, self._stop_words))
        elif error := finish_reason_error(self._stop, self._stop_words, phase):
            self._fail(error)
        else:
            prompt, of_tools, text, thought, cached = (self._counts.get(n, 0) for n in _COUNTS)
            usage = Usage(
                input=prompt + of_tools,
                output=text + thought,
                cache_read=cached,
                reasoning=thought,
            )
            self._usage = usage if self._counts else None
            self._done("length" if self._stop in _TOO_LONG else "stop")

    def _part(self, part: Mapping[str, Any]) -> None:
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), dict):
            self._whole_call(part["functionCall"], signature)
        elif isinstance(part.get("text"), str):
            kind: Run = "thought" if part.get("thought") is True else "text"
            self._words(kind, part["text"], signature)
        elif signature:
            self._words(self._run or "text", "", signature)

    def _words(self, kind: Run, text: str, signature: str) -> None:
        if not (text or signature):
            return
        if kind != self._run:
            self._end_run()
            self._run = kind
        start, self._length = self._length, self._length + len(text)
        if kind == "text":
            self._text(text)
        else:
            self._think(text)
        if signature:
            self._signed.append(SignedPiece(start, self._length, signature))

    def _end_run(self) -> None:
        """Close a run of text or thought, and emit its signatures; earlier they would split it."""
        if self._run:
            signature = pack_signatures(self._run, self._length, self._signed)
            if self._run == "thought" or signature:
                self._events.append(ThinkingEnd(signature=signature))
        self._run, self._length, self._signed = "", 0, []

    def _whole_call(self, raw: Mapping[str, Any], signature: str) -> None:
        name = as_text(raw.get("name"))
        if not name:
            return
        self._end_run()
        if signature:
            packed = pack_signatures("call", 0, [SignedPiece(0, 0, signature)])
            self._events.append(ThinkingEnd(signature=packed))
        key, call_id = str(self._calls), self._ids.free(as_text(raw.get("id")))
        self._calls += 1
        arguments = dict(as_object(raw.get("args")))
        self._call(key, call_id, name, json.dumps(arguments, ensure_ascii=False))
        self._end_call(key, call_id, arguments)


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


def prompt_blocked_error(reason: str, words: str) -> ProviderError:
    """The error for a prompt that the service blocked."""
    why = _REFUSED.get(reason, f"it gives the reason {reason[:40]}")
    return ProviderError(
        f"The service did not let the prompt through to the model: {_reason(why, words)}.",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="establish",
    )


def finish_reason_error(reason: str, words: str, phase: Phase) -> ProviderError | None:
    """The error for a `finishReason`; None if the reason isn't an error."""
    if reason in _REFUSED:
        return declined_error(f"{_reason(_REFUSED[reason], words)}.")
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


def _reason(why: str, words: str) -> str:
    said = " ".join(words.split())[:_MAX_WORDS].rstrip(".")
    return f"{why} ({said})" if said else why


SKIP_VALIDATION = "skip_thought_signature_validator"
"""Google's documented value for calls of another model, which have no signature."""
_MARK = "gemini:"
On = Literal["call", "text", "thought"]


class SignedPiece(NamedTuple):
    """A signed part of a run of text."""

    start: int
    """Its first character."""
    end: int
    """The character behind its last one."""
    signature: str
    """Its signature."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """The signatures of one call, or of one run of text or thought."""

    on: On
    """What is signed."""
    length: int
    """The characters of the run."""
    pieces: tuple[SignedPiece, ...]
    """The signed pieces, in order."""

    def split(self, text: str) -> list[dict[str, Any]]:
        """The parts of a run: the signed pieces, and the unsigned text between them."""
        parts: list[dict[str, Any]] = []
        at = 0
        for start, end, signature in self.pieces:
            if start > at:
                parts.append({"text": text[at:start]})
            parts.append({"text": text[start:end], "thoughtSignature": signature})
            at = end
        return [*parts, {"text": text[at:]}] if at < self.length else parts


def pack_signatures(on: On, length: int, pieces: Sequence[SignedPiece]) -> str | None:
    """The `ThinkingBlock.signature` that holds `pieces`; None without pieces."""
    return _MARK + json.dumps([on, length, pieces], separators=(",", ":")) if pieces else None


def unpack_signatures(signature: str | None) -> Signatures | None:
    """What `pack_signatures` packed; None for the signature of another service."""
    if signature is None or not signature.startswith(_MARK):
        return None
    try:
        on, length, packed = json.loads(signature.removeprefix(_MARK))
        pieces = tuple(SignedPiece(start, end, text) for start, end, text in packed)
        numbers = [0, *(at for piece in pieces for at in (piece.start, piece.end)), length]
        is_valid = (
            on in ("call", "text", "thought")
            and bool(pieces)
            and all(isinstance(at, int) for at in numbers)
            and numbers == sorted(numbers)
            and all(isinstance(piece.signature, str) for piece in pieces)
        )
    except (ValueError, TypeError, RecursionError):
        return None
    return Signatures(on, length, pieces) if is_valid else None
