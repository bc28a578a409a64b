"""JSON lines out of bytes, however the network cut them."""

from dirge_py.providers.sse import MAX_EVENT_BYTES, EventTooLong, ServerEvent


class LineDecoder:
    """Like `sse.SseDecoder`, for services that send one JSON object a line (NDJSON).

    Lines end in LF or CRLF; empty ones are read over. Bytes that are not UTF-8 become U+FFFD.
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
            events = [event for line in ended if (event := _event(line)) is not None]
        if rest:
            self._open.append(rest)
            self._held += len(rest)
            if self._held > self._limit:
                raise EventTooLong(f"a line is longer than {self._limit} bytes")
        return events

    def close(self) -> list[ServerEvent]:
        """The last line, which need not end."""
        event = _event(b"".join(self._open))
        self._open.clear()
        self._held = 0
        return [] if event is None else [event]


def _event(line: bytes) -> ServerEvent | None:
    text = line.strip(b" \t\r\xef\xbb\xbf")
    return ServerEvent("", text.decode(errors="replace")) if text else None
