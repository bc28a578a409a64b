"""Server-sent events out of bytes, however the network cut them.

Our own, because it starts from bytes (so it also reads answers that lie about their content type),
hands out an event the moment its blank line is there, bounds what one event may hold, and costs
about a microsecond an event.
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Far above any real event (an encoded picture), far below what would hurt."""

_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event. `name` is empty when the service sent no `event:` line."""

    name: str
    data: str


class EventTooLong(ValueError):
    """An event grew past the limit without ending."""


class SseDecoder:
    """Feed it bytes; it answers with the events that are complete, and holds only the open one.

    Lines end in CR, LF or CRLF, and only in those: U+2028 and its kin are data. Bytes that are not
    UTF-8 become U+FFFD. `id:`, `retry:` and comments are read over.
    """

    __slots__ = ("_data", "_held", "_limit", "_name", "_open_line", "_skip_lf", "_started")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._open_line: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._held = 0
        self._skip_lf = False
        self._started = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes.

        Raises:
            EventTooLong: the open event is longer than the limit.
        """
        if b"\r" in chunk or self._skip_lf:
            chunk = self._with_plain_ends(chunk)
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        if not rest:
            return []
        open_line = rest.pop()
        events: list[ServerEvent] = []
        self._take(self._close_line(), events)
        for line in rest:
            self._take(line, events)
        self._hold(open_line)
        return events

    def close(self) -> list[ServerEvent]:
        """The event the service forgot to end with a blank line, if there is one."""
        events: list[ServerEvent] = []
        self._take(self._close_line(), events)
        self._take(b"", events)
        return events

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        # A CR ends its line at once; an LF that follows in the next chunk belongs to it.
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        if chunk.endswith(b"\r"):
            self._skip_lf = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._open_line.append(piece)
        self._held += len(piece)
        if self._held > self._limit:
            raise EventTooLong(f"an event is longer than {self._limit} bytes")

    def _close_line(self) -> bytes:
        line = b"".join(self._open_line)
        self._open_line.clear()
        self._held = sum(map(len, self._data))
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        return line

    def _take(self, line: bytes, events: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                data = b"\n".join(self._data) if len(self._data) > 1 else self._data[0]
                events.append(
                    ServerEvent(self._name.decode(errors="replace"), data.decode(errors="replace"))
                )
                self._data.clear()
                self._held = 0
            self._name = b""
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._held += len(value)
        elif field == b"event":
            self._name = value.removeprefix(b" ")
