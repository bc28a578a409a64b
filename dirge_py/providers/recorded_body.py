"""The body of an answer on its way into a recording: the same pieces, without secrets.

A secret may be cut by the end of a piece, and a model says one in many small events. So a piece is
held back until its last line is whole, and until the word that it may end in is over.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dirge_py.providers.recorded_words import Words

Redact = Callable[[str], str]
Piece = tuple[float, bytes]
"""Seconds, and what came then."""

_SPOKEN = frozenset(
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

_SHORTEST_SECRET = 8
_LONGEST_LINE = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class _Line:
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


class BodyFilter:
    """Takes the pieces of one body; gives them back, in order, when they hold no secret."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._open = b""
        self._open_pieces: list[tuple[int, float | None]] = []
        self._held: deque[_Line] = deque()
        self._begun = b""
        self._words = Words[_Line](redact)

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
        if len(self._open) > _LONGEST_LINE:
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
            for path, text in _spoken(line.event):
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


def _without_secrets(raw: bytes, redact: Redact) -> _Line:
    """The line, its event read if it holds one."""
    text = raw.decode("utf-8", "surrogateescape")
    lead, event = _event(text)
    clean = redact(text) if len(raw) >= _SHORTEST_SECRET else text
    if clean != text:
        end = text[len(text.rstrip("\r\n")) :]
        lead, event = redact(lead), _redacted(event, redact)
        # Where it is JSON it stays JSON, whatever a secret looks like.
        clean = clean if event is None else lead + json.dumps(event) + end
    return _Line(raw=clean.encode("utf-8", "surrogateescape"), pieces=[], event=event, lead=lead)


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


def _spoken(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The texts in an event that go on in the next one, with their places."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if not isinstance(each, str):
                yield from _spoken(each, (*path, name))
            elif name in _SPOKEN and each:
                yield (*path, name), each
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _spoken(each, (*path, at))
