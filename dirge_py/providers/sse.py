"""Decoders of server-sent events and JSON lines (NDJSON), from bytes in any pieces.

Unlike httpx-sse they start from bytes (so they also read answers with a wrong content type), return
an event as soon as its blank line is there, limit its size, and cost half a microsecond an event.
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Far above any real event (an encoded picture), far below what would hurt."""
_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event; `name` is empty without an `event:` line."""

    name: str
    data: str


class EventTooLong(ValueError):
    """An event exceeds the size limit."""


class SseDecoder:
    """Decodes server-sent events.

    Lines end in CR, LF or CRLF, and only in those: U+2028 is data. Bytes that are not UTF-8 become
    U+FFFD. `id:`, `retry:` and comments are ignored.
    """

    __slots__ = ("_held", "_is_started", "_limit", "_open", "_skip_lf")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._open: list[bytes] = []
        self._held = 0
        self._skip_lf = False
        self._is_started = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes.

        Raises:
            EventTooLong: the open event is longer than the limit.
        """
        if b"\r" in chunk or self._skip_lf:
            chunk = self._with_plain_ends(chunk)
        if not chunk:
            return []
        if not self._ends_an_event(chunk):
            self._hold(chunk)
            return []
        blocks = self._taken_with(chunk).split(b"\n\n")
        self._hold(blocks.pop())
        return [event for block in blocks if (event := _event(block)) is not None]

    def close(self) -> list[ServerEvent]:
        """The last event, if it doesn't end with a blank line."""
        event = _event(self._taken_with(b""))
        return [] if event is None else [event]

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        # A CR ends its line at once; an LF at the start of the next chunk belongs to it.
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        if chunk.endswith(b"\r"):
            self._skip_lf = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _ends_an_event(self, chunk: bytes) -> bool:
        # A cheap check, so that an event in thousands of pieces is joined only once.
        if b"\n\n" in chunk:
            return True
        return chunk.startswith(b"\n") and bool(self._open) and self._open[-1].endswith(b"\n")

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._open.append(piece)
            self._held += len(piece)
            if self._held > self._limit:
                raise EventTooLong(f"an event is longer than {self._limit} bytes")

    def _taken_with(self, chunk: bytes) -> bytes:
        if self._open:
            chunk = b"".join(self._open) + chunk
            self._open.clear()
            self._held = 0
        if not self._is_started:
            self._is_started = True
            chunk = chunk.removeprefix(_BOM)
        return chunk


def _event(block: bytes) -> ServerEvent | None:
    """The event in the lines between two blank ones; None without data."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return ServerEvent("", block[6:].decode(errors="replace"))
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not data:
        return None
    return ServerEvent(name.decode(errors="replace"), b"\n".join(data).decode(errors="replace"))


class NdjsonDecoder:
    """Like `SseDecoder`, for services that send one JSON object per line (NDJSON).

    Lines end in LF or CRLF; empty ones are ignored. Bytes that are not UTF-8 become U+FFFD.
    """

    __slots__ = ("_held", "_limit", "_open")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._open: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The lines that `chunk` completes.

        Raises:
            EventTooLong: the open line is longer than the limit.
        """
        *ended, rest = chunk.split(b"\n")
        events = []
        if ended:
            ended[0] = b"".join([*self._open, ended[0]])
            self._open.clear()
            self._held = 0
            events = [event for line in ended if (event := _line_event(line)) is not None]
        if rest:
            self._open.append(rest)
            self._held += len(rest)
            if self._held > self._limit:
                raise EventTooLong(f"a line is longer than {self._limit} bytes")
        return events

    def close(self) -> list[ServerEvent]:
        """The last line, if it doesn't end."""
        event = _line_event(b"".join(self._open))
        self._open.clear()
        self._held = 0
        return [] if event is None else [event]


def _line_event(line: bytes) -> ServerEvent | None:
    text = line.strip(b" \t\r\xef\xbb\xbf")
    return ServerEvent("", text.decode(errors="replace")) if text else None
