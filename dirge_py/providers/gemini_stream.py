"""The answer of Gemini's `generateContent`: parts of text, thought and calls, in chunks.

Also how thought signatures are stored between two requests. Gemini signs its thinking with a
`thoughtSignature` on a part of its answer: a call, a piece of text, a thought. It wants each back
on the same part. Blocks have no member for that, so a `ThinkingBlock` carries it in its
`signature`: directly before the call it belongs to, directly behind the text it belongs to, and in
the thought itself. A marker tells it from the signatures of other services, which never get one
(`adapter.drop_foreign_blocks`).
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

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
from dirge_py.types.llm import (
    StreamDone,
    StreamError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import StopReason, Usage

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class PartialArguments:
    """The arguments of a call, put together from pieces."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        """`whole` are arguments that came in one piece."""
        self._whole = dict(whole)
        self._open = ""
        """The path of the text that continues."""
        self._pieces: list[str] = []
        self._at: tuple[Any, Any] = ({}, "")
        """The object or list that holds the newest value, and its name or index there."""

    def put(self, partial: Mapping[str, Any]) -> None:
        """Add one piece.

        Raises:
            ValueError: it has no path, or one through a value that is no object or list.
        """
        path = partial.get("jsonPath")
        if not isinstance(path, str):
            raise ValueError("a piece of arguments without its place")
        names = (n for n in ("stringValue", "numberValue", "boolValue") if n in partial)
        # The piece that ends a text may have no value.
        usual = None if "nullValue" in partial else ""
        value = partial.get(next(names, ""), usual)
        if self._open and path == self._open and isinstance(value, str):
            self._pieces.append(value)
        else:
            self._settle()
            steps = _steps(path)
            place: Any = self._whole
            for step, following in pairwise(steps):
                place = _entered(place, step, [] if isinstance(following, int) else {})
            _entered(place, steps[-1], None)
            place[steps[-1]] = value
            self._pieces = [value] if isinstance(value, str) else []
            self._at = (place, steps[-1])
        self._open = path if partial.get("willContinue") else ""

    def whole(self) -> dict[str, Any]:
        """All arguments so far."""
        self._settle()
        return self._whole

    def _settle(self) -> None:
        """Join the open text; to do so for each piece would be quadratic."""
        if self._pieces:
            place, last = self._at
            place[last] = "".join(self._pieces)


def _steps(path: str) -> list[str | int]:
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None:
            break
        member, index, *quoted = match.groups()
        steps.append(int(index) if index else next(n for n in (member, *quoted) if n is not None))
        at = match.end()
    if not steps or at < len(rest) or isinstance(steps[0], int):
        raise ValueError(f"a piece of arguments at {path[:100]!r}")
    return steps


def _entered(place: Any, step: str | int, new: Any) -> Any:
    """The value at `step` of `place`, by default `new`."""
    if isinstance(step, str) and isinstance(place, dict):
        return place.setdefault(step, new)
    if isinstance(step, int) and isinstance(place, list) and step <= len(place):
        if step == len(place):
            place.append(new)
        return place[step]
    raise ValueError("a piece of arguments inside a value")


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


@dataclasses.dataclass(slots=True)
class _OpenCall:
    key: str
    id: str
    name: str
    arguments: PartialArguments


class GeminiParser(StreamParser):
    """Reads an answer. It ends with the stream: chunks may follow the one with the reason."""

    id_prefix = MADE_UP_ID

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._finish = ""
        self._finish_words = ""
        self._blocked = ""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._open_call: _OpenCall | None = None
        self._run: Literal["", "text", "thought"] = ""
        self._length = 0
        self._signed: list[SignedPiece] = []

    @property
    def is_settled(self) -> bool:
        return bool(self._finish or self._blocked)

    @property
    def call_is_open(self) -> bool:
        return self._open_call is not None

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        events: list[StreamEvent] = []
        self._start(payload.get("modelVersion"), events)
        counted = as_object(payload.get("usageMetadata"))
        self._counts |= {name: as_count(counted[name]) for name in _COUNTS if name in counted}
        feedback = as_object(payload.get("promptFeedback"))
        if as_text(feedback.get("blockReason")):
            self._blocked = as_text(feedback.get("blockReason"))
            self._finish_words = as_text(feedback.get("blockReasonMessage"))
        for candidate in as_objects(payload.get("candidates"))[:1]:
            for part in as_objects(as_object(candidate.get("content")).get("parts")):
                self._part(part, events)
            self._finish = as_text(candidate.get("finishReason")) or self._finish
            self._finish_words = as_text(candidate.get("finishMessage")) or self._finish_words
        return events

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        is_answer = as_objects(payload.get("candidates")) or payload.get("promptFeedback")
        # The last of several chunks, when they came as one list, may only count.
        if not is_answer and not (self._is_started and "usageMetadata" in payload):
            raise ServiceError(payload)
        events = self.event("", payload)
        self._finish = self._finish or "STOP"
        return events

    def _last_events(self) -> Sequence[StreamEvent]:
        events: list[StreamEvent] = []
        self._end_run(events)
        self._end_call(events, is_whole=self._finish not in _TOO_LONG)
        if self._blocked:
            return [*events, StreamError(prompt_blocked_error(self._blocked, self._finish_words))]
        phase: Literal["stream", "establish"] = "stream" if self.has_content else "establish"
        error = finish_reason_error(self._finish, self._finish_words, phase)
        if error is not None:
            return [*events, StreamError(error)]
        reason: StopReason = "toolUse" if self._calls else "stop"
        if self._finish in _TOO_LONG:
            reason = "length"
        prompt, of_tools, said, thought, cached = (self._counts.get(name, 0) for name in _COUNTS)
        usage = Usage(input=prompt + of_tools, output=said + thought, cache_read=cached)
        return [*events, StreamDone(stop_reason=reason, usage=usage if self._counts else None)]

    def _part(self, part: Mapping[str, Any], events: list[StreamEvent]) -> None:
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), dict):
            self._call(part["functionCall"], signature, events)
        elif isinstance(part.get("text"), str):
            kind: Literal["text", "thought"] = "thought" if part.get("thought") is True else "text"
            self._words(kind, part["text"], signature, events)
        elif signature:
            self._words(self._run or "text", "", signature, events)

    def _words(
        self,
        kind: Literal["text", "thought"],
        text: str,
        signature: str,
        events: list[StreamEvent],
    ) -> None:
        if not (text or signature):
            return
        if kind != self._run:
            self._end_run(events)
            self._run = kind
        start, self._length = self._length, self._length + len(text)
        if text:
            self.has_content = True
            events.append(TextDelta(text) if kind == "text" else ThinkingDelta(text))
        if signature:
            self._signed.append(SignedPiece(start, self._length, signature))

    def _end_run(self, events: list[StreamEvent]) -> None:
        """Close a run of text or thought, and emit its signatures.

        Not before: a block in the middle of a text would split it.
        """
        if self._run:
            signature = pack_signatures(self._run, self._length, self._signed)
            if self._run == "thought" or signature:
                events.append(ThinkingEnd(signature=signature))
        self._run, self._length, self._signed = "", 0, []

    def _call(self, raw: Mapping[str, Any], signature: str, events: list[StreamEvent]) -> None:
        name, given_id = as_text(raw.get("name")), as_text(raw.get("id"))
        if not self._continues(raw, name, given_id):
            self._end_call(events)
            if not name:
                return
            self._end_run(events)
            if signature:
                kept = pack_signatures("call", 0, [SignedPiece(0, 0, signature)])
                events.append(ThinkingEnd(signature=kept))
            arguments = PartialArguments(as_object(raw.get("args")))
            call = _OpenCall(str(self._calls), self._ids.free(given_id), name, arguments)
            self._open_call = call
            self._calls += 1
            self.has_content = True
            events.append(ToolCallDelta(key=call.key, id=call.id, name=name))
        assert self._open_call is not None
        for partial in as_objects(raw.get("partialArgs")):
            self._open_call.arguments.put(partial)
        if raw.get("willContinue") is not True:
            self._end_call(events)

    def _continues(self, raw: Mapping[str, Any], name: str, given_id: str) -> bool:
        call = self._open_call
        if call is None or "args" in raw:
            return False
        return name in ("", call.name) and given_id in ("", call.id)

    def _end_call(self, events: list[StreamEvent], *, is_whole: bool = True) -> None:
        call = self._open_call
        if call is None:
            return
        self._open_call = None
        arguments = call.arguments.whole()
        text = json.dumps(arguments, ensure_ascii=False)
        # A call that broke off must not look complete.
        events.append(ToolCallDelta(key=call.key, arguments=text if is_whole else text[:-1]))
        whole = arguments if is_whole else None
        events.append(ToolCallEnd(key=call.key, id=call.id, arguments=whole))


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


@dataclass(frozen=True, slots=True)
class SignedPiece:
    """A part of a run of text."""

    start: int
    """Its first character."""
    end: int
    """The character behind its last one."""
    signature: str = ""
    """Its signature; empty for none."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """The signatures of one call, or of one run of text or thought."""

    on: On
    """What is signed."""
    length: int
    """The characters of the run."""
    pieces: tuple[SignedPiece, ...]
    """The signed pieces, in order."""

    def all_pieces(self) -> Sequence[SignedPiece]:
        """The signed pieces and the unsigned text between them: the whole run."""
        whole: list[SignedPiece] = []
        at = 0
        for piece in self.pieces:
            if piece.start > at:
                whole.append(SignedPiece(at, piece.start))
            whole.append(piece)
            at = piece.end
        if at < self.length:
            whole.append(SignedPiece(at, self.length))
        return whole


def pack_signatures(on: On, length: int, pieces: Iterable[SignedPiece]) -> str | None:
    """The `ThinkingBlock.signature` that holds `pieces`; None without pieces."""
    packed = [[piece.start, piece.end, piece.signature] for piece in pieces]
    return _MARK + json.dumps([on, length, packed], separators=(",", ":")) if packed else None


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
