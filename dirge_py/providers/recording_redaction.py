"""Removes secrets from recorded response bodies, and keeps the number and times of the pieces.

A secret may be split over pieces or events. So a piece is held back until its last line is complete
and the last word of each text in it has ended.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from dirge_py.lib.redaction import redacted
from dirge_py.providers.settings import Redact
from dirge_py.providers.stream_parser import parse_json

TextPath = tuple[str | int, ...]
"""The place of a text in an event: names of members, and indexes of lists."""
Piece = tuple[float, bytes]
"""Seconds since the start of the recording, and the bytes that arrived then."""
_STREAMED_MEMBERS = frozenset(
    {
        *("arguments", "content", "delta", "partial_json", "reasoning", "reasoning_content"),
        *("refusal", "text", "thinking"),
    }
)
"""The members that hold the pieces of a streamed text, in any wire format."""
_CONTEXT_CHARS = 64
"""The text before a secret that may identify it, such as `Bearer`, is at most this long."""
_MAX_WORD_CHARS = 512
_MAX_BLOCK_CHARS = 16_384
_BETWEEN_WORDS = re.compile(r"""[\s"'`,;(){}\[\]<>\\]""")
_AS_LONG_AS_A_SECRET = re.compile(r"""[^\s"'`,;(){}\[\]<>\\]{8}""")
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
_EVENTS_BEFORE_OVER = 16
"""A text has ended if this many events in a row don't continue it."""
_MIN_SECRET_BYTES = 8
_MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class _BodyLine:
    """One line of a body, with its line end."""

    raw: bytes
    pieces: list[tuple[int, float | None]]
    """The bytes of each piece in the line, and when the piece ended."""
    event: Any = None
    lead: str = ""
    """The text before the event: `data: `."""
    holds: int = 0
    """The number of its texts that may continue in a later line; 0: it can be written."""

    def replace_text(self, path: TextPath, text: str) -> None:
        """Put `text` at `path` of the event."""
        *way, last = path
        place = self.event
        for step in way:
            place = place[step]
        place[last] = text
        end = self.raw[len(self.raw.rstrip(b"\r\n")) :]
        self.raw = (self.lead + json.dumps(self.event)).encode() + end


class BodyRedactor:
    """Removes secrets from one body: takes its pieces, and returns them in order."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._open = b""
        self._open_pieces: list[tuple[int, float | None]] = []
        self._held: deque[_BodyLine] = deque()
        self._unfinished_piece = b""
        self._texts: dict[TextPath, _GrowingText] = {}
        self._events = 0

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """Add a piece; returns the pieces that can be written now."""
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
        """End the body; returns the pieces that were held back."""
        if self._open:
            self._end_line(self._open)
        for text in self._texts.values():
            text.release(len(text.text), self._redact)
        self._texts.clear()
        yield from self._released()

    def _end_line(self, raw: bytes) -> None:
        line = _without_secrets(raw, self._redact)
        line.pieces, self._open_pieces, self._open = self._open_pieces, [], b""
        self._held.append(line)
        if line.event is None:
            return
        self._events += 1
        for path, growing in list(self._texts.items()):
            if self._events - growing.last_event > _EVENTS_BEFORE_OVER:
                growing.release(len(growing.text), self._redact)
                del self._texts[path]
        for path, text in _streamed_texts(line.event):
            growing = self._texts.setdefault(path, _GrowingText())
            growing.last_event = self._events
            growing.parts.append(_TextPart(line, path, text))
            line.holds += 1
            growing.release(_finished_chars(growing.text), self._redact)

    def _released(self) -> Iterator[Piece]:
        while self._held and not self._held[0].holds:
            line = self._held.popleft()
            rest = line.raw
            for number, (size, at) in enumerate(line.pieces, start=1):
                # A redacted line may have another length; its last piece takes the difference.
                size = len(rest) if number == len(line.pieces) else size
                self._unfinished_piece, rest = self._unfinished_piece + rest[:size], rest[size:]
                if at is not None:
                    yield at, self._unfinished_piece
                    self._unfinished_piece = b""


def _without_secrets(raw: bytes, redact: Redact) -> _BodyLine:
    """The line without secrets, with the event in it, if it holds one."""
    text = raw.decode("utf-8", "surrogateescape")
    at = text.find("{")
    lead = text[: max(at, 0)]
    event = parse_json(text[at:]) if at >= 0 and lead.strip() in ("", "data:") else None
    clean = redact(text) if len(raw) >= _MIN_SECRET_BYTES else text
    if clean != text:
        end = text[len(text.rstrip("\r\n")) :]
        lead, event = redact(lead), redacted(event, redact)
        # JSON stays JSON, whatever a secret looks like.
        clean = clean if event is None else lead + json.dumps(event) + end
    encoded = clean.encode("utf-8", "surrogateescape")
    return _BodyLine(raw=encoded, pieces=[], event=event, lead=lead)


def _streamed_texts(value: Any, path: TextPath = ()) -> Iterator[tuple[TextPath, str]]:
    """The texts in an event that may continue in the next one, with their places."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(member, str):
                yield from _streamed_texts(member, (*path, name))
            elif name in _STREAMED_MEMBERS and member:
                yield (*path, name), member
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _streamed_texts(item, (*path, index))


@dataclass(slots=True)
class _TextPart:
    line: _BodyLine
    path: TextPath
    text: str


class _GrowingText:
    """The text at one place of an answer, as it grows from event to event."""

    def __init__(self) -> None:
        self.before = ""
        self.parts: list[_TextPart] = []
        self.last_event = 0

    @property
    def text(self) -> str:
        return self.before + "".join(part.text for part in self.parts)

    def release(self, chars: int, redact: Redact) -> None:
        """Redact the first `chars` characters and release the lines that hold them.

        They must end with a whole word: a secret that is still incomplete is not recognized.
        """
        whole, end, released = self.text, len(self.before), 0
        for part in self.parts:
            end += len(part.text)
            if end > chars:
                break
            released += 1
        if _AS_LONG_AS_A_SECRET.search(whole, len(self.before), chars):
            redacted = redact(whole[:chars])
            if redacted != whole[:chars]:
                self._replace(redacted + whole[chars:])
        for part in self.parts[:released]:
            part.line.holds -= 1
            self.before += part.text
        del self.parts[:released]
        if len(self.before) > _CONTEXT_CHARS:
            # Drop the first word, which is cut in half: the rest of it may look like a secret.
            context = self.before[-_CONTEXT_CHARS:]
            word_end = _BETWEEN_WORDS.search(context)
            self.before = context[word_end.end() :] if word_end else context

    def _replace(self, new: str) -> None:
        """Spread the new text over the parts; the first that was changed gets the replacement."""
        old = self.text
        begin = _common_prefix_chars(old, new)
        end = _common_prefix_chars(old[begin:][::-1], new[begin:][::-1])
        stop, replacement = len(old) - end, new[begin : len(new) - end]
        at = len(self.before)
        for part in self.parts:
            first, last = max(begin - at, 0), min(stop - at, len(part.text))
            at += len(part.text)
            if first < last or (replacement and at >= stop):
                part.text = part.text[:first] + replacement + part.text[max(last, first) :]
                part.line.replace_text(part.path, part.text)
                replacement = ""


def _finished_chars(text: str) -> int:
    """The number of characters before the last word or key block, which may continue."""
    block = text.rfind(_BLOCK)
    if block > text.rfind(_BLOCK_END):
        return max(block, len(text) - _MAX_BLOCK_CHARS)
    last_word = _BETWEEN_WORDS.split(text)[-1]
    return len(text) - min(len(last_word), _MAX_WORD_CHARS)


def _common_prefix_chars(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
