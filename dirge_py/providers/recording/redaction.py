"""The body of an answer on its way into a recording: the same pieces, without secrets.

A secret may be cut by the end of a piece, and a model says one in many small events. So a piece is
held back until its last line is whole, and until the word that it may end in is over.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar

Redact = Callable[[str], str]
Piece = tuple[float, bytes]
"""Seconds, and what came then."""
_STREAMED_MEMBERS = frozenset(
    {
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    }
)
"""The members that hold what a model says bit by bit, in any of the wire formats."""
_MIN_SECRET_BYTES = 8
_MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class _BodyLine:
    """One line with its end. `pieces`: bytes of each piece in it, and when that piece was over."""

    raw: bytes
    pieces: list[tuple[int, float | None]]
    event: Any = None
    lead: str = ""
    """What stands before the event: `data: `."""
    holds: int = 0
    """How many words that are not over this line has a part in."""

    def say(self, path: tuple[str | int, ...], text: str) -> None:
        """Put `text` in the place of what the event said there."""
        *way, last = path
        place = self.event
        for step in way:
            place = place[step]
        place[last] = text
        end = self.raw[len(self.raw.rstrip(b"\r\n")) :]
        self.raw = (self.lead + json.dumps(self.event)).encode() + end


class BodyRedactor:
    """Takes the pieces of one body; gives them back, in order, when they hold no secret."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._open = b""
        self._open_pieces: list[tuple[int, float | None]] = []
        self._held: deque[_BodyLine] = deque()
        self._begun = b""
        self._words = StreamedTexts[_BodyLine](redact)

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """Take one piece; returns what may be written now."""
        at, content = piece
        *whole, rest = content.split(b"\n")
        for number, part in enumerate(whole, start=1):
            is_last = not rest and number == len(whole)
            self._open_pieces.append((len(part) + 1, at if is_last else None))
            self._end_line(self._open + part + b"\n")
        if rest:
            self._open += rest
            self._open_pieces.append((len(rest), at))
        if len(self._open) > _MAX_LINE_BYTES:
            self._end_line(self._open)
        yield from self._released()

    def close(self) -> Iterator[Piece]:
        """No more will come: everything that was held back."""
        if self._open:
            self._end_line(self._open)
        self._words.close()
        yield from self._released()

    def _end_line(self, raw: bytes) -> None:
        line = _without_secrets(raw, self._redact)
        line.pieces, self._open_pieces, self._open = self._open_pieces, [], b""
        self._held.append(line)
        if line.event is not None:
            self._words.begin_event()
            for path, text in _streamed_texts(line.event):
                self._words.hear(line, path, text)

    def _released(self) -> Iterator[Piece]:
        while self._held and not self._held[0].holds:
            line = self._held.popleft()
            rest = line.raw
            for number, (size, at) in enumerate(line.pieces, start=1):
                # What replaced a secret may be longer or shorter: the last piece takes that.
                size = len(rest) if number == len(line.pieces) else size
                self._begun, rest = self._begun + rest[:size], rest[size:]
                if at is not None:
                    yield at, self._begun
                    self._begun = b""


def _without_secrets(raw: bytes, redact: Redact) -> _BodyLine:
    """The line, its event read if it holds one."""
    text = raw.decode("utf-8", "surrogateescape")
    lead, event = _event(text)
    clean = redact(text) if len(raw) >= _MIN_SECRET_BYTES else text
    if clean != text:
        end = text[len(text.rstrip("\r\n")) :]
        lead, event = redact(lead), _redacted(event, redact)
        # Where it is JSON it stays JSON, whatever a secret looks like.
        clean = clean if event is None else lead + json.dumps(event) + end
    return _BodyLine(
        raw=clean.encode("utf-8", "surrogateescape"), pieces=[], event=event, lead=lead
    )


def _event(text: str) -> tuple[str, Any]:
    """What stands before the object of a line, and the object; None if there is none."""
    at = text.find("{")
    lead = text[:at]
    if at < 0 or lead.strip() not in ("", "data:"):
        return "", None
    try:
        return lead, json.loads(text[at:])
    except (ValueError, RecursionError):
        return "", None


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(name): _redacted(each, redact) for name, each in value.items()}
    if isinstance(value, list):
        return [_redacted(each, redact) for each in value]
    return value


def _streamed_texts(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The texts in an event that go on in the next one, with their places."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if not isinstance(each, str):
                yield from _streamed_texts(each, (*path, name))
            elif name in _STREAMED_MEMBERS and each:
                yield (*path, name), each
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _streamed_texts(each, (*path, at))


TextPath = tuple[str | int, ...]
"""Where a text stands in an event: names of members, and places in lists."""
_CONTEXT_CHARS = 64
"""What a secret may be known by, such as `Bearer`, stands this near before it."""
_MAX_WORD_CHARS = 512
_MAX_BLOCK_CHARS = 16_384
_BETWEEN_WORDS = re.compile(r"""[\s"'`,;(){}\[\]<>\\]""")
_AS_LONG_AS_A_SECRET = re.compile(r"""[^\s"'`,;(){}\[\]<>\\]{8}""")
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
_EVENTS_BEFORE_OVER = 16
"""A text that so many events say nothing of does not go on."""


class EventHolder(Protocol):
    """An event that is kept until every word it has a part in is over."""

    holds: int

    def say(self, path: TextPath, text: str) -> None:
        """Put `text` in the place of what the event says there."""
        ...


H = TypeVar("H", bound=EventHolder)


@dataclass(slots=True)
class _TextPart(Generic[H]):
    holder: H
    path: TextPath
    text: str


class _GrowingText(Generic[H]):
    """The text of one place, as it grows from event to event."""

    def __init__(self) -> None:
        self.before = ""
        self.parts: list[_TextPart[H]] = []
        self.last_event = 0

    @property
    def text(self) -> str:
        return self.before + "".join(part.text for part in self.parts)

    def let_go(self, over: int) -> None:
        """The parts within the first `over` characters of the text are."""
        at, count = len(self.before), 0
        for part in self.parts:
            at += len(part.text)
            if at > over:
                break
            count += 1
            part.holder.holds -= 1
        said = "".join(part.text for part in self.parts[:count])
        self.before = (self.before + said)[-_CONTEXT_CHARS:]
        del self.parts[:count]

    def replace(self, new: str) -> None:
        """Spread the new text over the parts: what was replaced goes to the first it touches."""
        old = self.text
        begin = _common_prefix_chars(old, new)
        end = _common_prefix_chars(old[begin:][::-1], new[begin:][::-1])
        stop, put = len(old) - end, new[begin : len(new) - end]
        at = len(self.before)
        for part in self.parts:
            first, last = max(begin - at, 0), min(stop - at, len(part.text))
            at += len(part.text)
            if first < last or (put and at >= stop):
                part.text = part.text[:first] + put + part.text[max(last, first) :]
                part.holder.say(part.path, part.text)
                put = ""


class StreamedTexts(Generic[H]):
    """All the texts of one answer, by their places."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._strands: dict[TextPath, _GrowingText[H]] = {}
        self._event = 0

    def begin_event(self) -> None:
        """Another event: what none of the last ones spoke of is over."""
        self._event += 1
        for path, strand in list(self._strands.items()):
            if self._event - strand.last_event > _EVENTS_BEFORE_OVER:
                self._end(path)

    def hear(self, holder: H, path: TextPath, text: str) -> None:
        """`holder` says `text` at `path`; it is held until the word is over."""
        strand = self._strands.setdefault(path, _GrowingText())
        strand.last_event = self._event
        strand.parts.append(_TextPart(holder, path, text))
        holder.holds += 1
        self._let_go(strand, _finished_chars(strand.text))

    def close(self) -> None:
        """Nothing goes on."""
        for path in list(self._strands):
            self._end(path)

    def _end(self, path: TextPath) -> None:
        strand = self._strands.pop(path)
        self._let_go(strand, len(strand.text))

    def _let_go(self, strand: _GrowingText[H], over: int) -> None:
        """The first `over` characters are whole words: redact them, and hold them no longer.

        Not before: of a word that merely looks like a secret, what came later would stay.
        """
        whole = strand.text
        if _AS_LONG_AS_A_SECRET.search(whole, len(strand.before), over):
            redacted = self._redact(whole[:over])
            if redacted != whole[:over]:
                strand.replace(redacted + whole[over:])
                over = len(redacted)
        strand.let_go(over)


def _finished_chars(text: str) -> int:
    """How many characters come before the word, or the block, that may go on."""
    block = text.rfind(_BLOCK)
    if block > text.rfind(_BLOCK_END):
        return max(block, len(text) - _MAX_BLOCK_CHARS)
    last_word = _BETWEEN_WORDS.split(text)[-1]
    return len(text) - min(len(last_word), _MAX_WORD_CHARS)


def _common_prefix_chars(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
