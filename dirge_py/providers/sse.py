"""Decoders of server-sent events and JSON lines (NDJSON), from bytes in any pieces.

Unlike httpx-sse they start from bytes (so they also read answers with a wrong content type), return
an event as soon as its blank line is there, limit its size, and take half a microsecond an event.
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Far above any real event (an encoded picture), far below what would hurt."""


class ServerEvent(NamedTuple):
    """One event; `name` is empty without an `event:` line."""

    name: str
    data: str


class EventTooLong(ValueError):
    """An event exceeds the size limit."""


class NdjsonDecoder:
    """Decodes JSON lines (NDJSON): one JSON object per line.

    Lines end in LF or CRLF; empty ones are ignored. Bytes that are not UTF-8 become U+FFFD.
    """

    __slots__ = ("_is_started", "_limit", "_open", "_open_bytes", "_skip_lf")
    _separator = b"\n"

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._skip_lf = False
        self._is_started = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes.

        Raises:
            EventTooLong: the open event is longer than the limit.
        """
        # A cheap check, so that an event in thousands of pieces is joined only once.
        ends_at_start = chunk[:1] == b"\n" and self._open and self._open[-1][-1:] == b"\n"
        blocks = []
        if self._separator in chunk or ends_at_start:
            blocks = self._joined(chunk).split(self._separator)
            chunk = blocks.pop()
        if chunk:
            self._open.append(chunk)
            self._open_bytes += len(chunk)
            if self._open_bytes > self._limit:
                raise EventTooLong(f"an event is longer than {self._limit} bytes")
        return [event for block in blocks if (event := self._event(block)) is not None]

    def close(self) -> list[ServerEvent]:
        """The last event, if no separator follows it."""
        event = self._event(self._joined(b""))
        return [] if event is None else [event]

    def _joined(self, chunk: bytes) -> bytes:
        if self._open:
            chunk = b"".join(self._open) + chunk
            self._open.clear()
            self._open_bytes = 0
        if not self._is_started:
            self._is_started = True
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        return chunk

    @staticmethod
    def _event(block: bytes) -> ServerEvent | None:
        text = block.strip(b" \t\r")
        return ServerEvent("", text.decode(errors="replace")) if text else None


class SseDecoder(NdjsonDecoder):
    """Decodes server-sent events.

    Lines end in CR, LF or CRLF, and only in those: U+2028 is data. Bytes that are not UTF-8 become
    U+FFFD. `id:`, `retry:` and comments are ignored.
    """

    __slots__ = ()
    _separator = b"\n\n"

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        if b"\r" in chunk or self._skip_lf:
            # A CR ends its line at once; an LF at the start of the next chunk belongs to it.
            if self._skip_lf and chunk:
                chunk = chunk.removeprefix(b"\n")
                self._skip_lf = False
            if chunk.endswith(b"\r"):
                self._skip_lf = True
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return super().feed(chunk) if chunk else []

    @staticmethod
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
