"""From the bytes of an answer to stream events: decoders, and the base of the formats' parsers.

Unlike httpx-sse, the decoders take bytes in any pieces, whatever the content type, return an event
as soon as its blank line is there, limit its size, and take half a microsecond an event.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple

from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import (
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import StopReason, Usage

_MAX_AMOUNT = 1e6
MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Far more than any real event, such as an encoded picture, and little enough for memory."""


class ServerEvent(NamedTuple):
    """One event; `name` is empty without an `event:` line."""

    name: str
    data: str


class EventTooLong(ValueError):
    """An event exceeds the size limit."""


class NdjsonDecoder:
    """Decodes JSON lines, which end in LF or CRLF; bytes that are not UTF-8 become U+FFFD."""

    __slots__ = ("_is_started", "_limit", "_open", "_open_bytes", "_skip_lf")
    no_stream: tuple[bytes, ...] = (b"[", b"<")
    """The first bytes of web pages and whole answers; no stream starts with them."""
    _separator = b"\n"

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._skip_lf = False
        self._is_started = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes. Raises EventTooLong."""
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
    no_stream = (b"{", b"[", b"<")
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


def join_deltas(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """`events` with neighboring deltas of the same text, thinking or call joined to one."""
    joined: list[StreamEvent] = []
    for kind, group in groupby(events, type):
        deltas: Any = list(group)
        if kind is TextDelta or kind is ThinkingDelta:
            joined.append(kind("".join([delta.text for delta in deltas])))
        elif kind is ToolCallDelta:
            for (key, call_id, name), pieces in groupby(deltas, lambda d: (d.key, d.id, d.name)):
                arguments = "".join([piece.arguments for piece in pieces])
                joined.append(ToolCallDelta(key=key, id=call_id, name=name, arguments=arguments))
        else:
            joined += deltas
    return joined


class StreamParser(ABC):
    """Parses one answer. Payloads are untrusted: any member may have any type.

    `taken` are the call ids of the history: a call without an id, or with one of these, gets a new
    id that contains `new_id`. The last event of an answer is a `StreamDone` or a `StreamError`. A
    `ServiceError` is an error of the service; any other exception means an unreadable answer.
    """

    id_prefix = "call_"
    """The start of new call ids."""

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        self.is_done = False
        """Whether the last event was returned."""
        self.has_content = False
        """Whether anything arrived that the user could have seen."""
        self._taken = set(taken)
        self._new_ids = (f"{self.id_prefix}{new_id}{n or ''}" for n in count())
        self._is_started = False
        self._is_thinking = False
        self._has_calls = False
        self._stop = ""
        """Why the answer ends, in the service's words; empty until that arrives."""
        self._usage: Usage | None = None
        self._events: list[StreamEvent] = []
        """The events that are not returned yet."""

    @property
    def is_settled(self) -> bool:
        """Whether everything but bookkeeping has arrived."""
        return bool(self._stop)

    @property
    def call_is_open(self) -> bool:
        """Whether a tool call is half-written."""
        return False

    @abstractmethod
    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        """Parse one server-sent event."""

    @abstractmethod
    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        """Parse an answer that came in one piece, though a stream was requested."""

    @abstractmethod
    def _end(self) -> None:
        """Emit the events that end the answer."""

    def _is_whole(self) -> bool:
        """Whether the end of the stream is the end of the answer."""
        return self.is_settled

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """The events of one server-sent event."""
        self._read(name, payload)
        return self._new_events()

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """The events of an answer that came in one piece, though a stream was requested."""
        self._read_whole(payload)
        return self._new_events()

    def finish(self) -> Sequence[StreamEvent]:
        """The last events; empty if the answer broke off, or ended before. Never raises."""
        self._finish()
        return self._new_events()

    def _finish(self) -> None:
        if not self.is_done and self._is_whole():
            self.is_done = True
            self._end()

    def _new_events(self) -> Sequence[StreamEvent]:
        events, self._events = self._events, []
        return events

    def _start(self, model: Any) -> None:
        """Emit the `StreamStart` with the first event."""
        if not self._is_started:
            self._is_started = True
            self._events.append(StreamStart(as_text(model)))

    def _text(self, text: str) -> None:
        if text:
            self._end_thinking()
            self.has_content = True
            self._events.append(TextDelta(text))

    def _think(self, text: str) -> None:
        if text:
            self._is_thinking = self.has_content = True
            self._events.append(ThinkingDelta(text))

    def _end_thinking(self) -> None:  # noqa: B027 (only some formats need it)
        """Emit the end of the thinking before a text, where the service doesn't mark it."""

    def _free_id(self, given: str) -> str:
        """The service's own id of a call; a new one if that is empty or in use."""
        free = given
        while not free or free in self._taken:
            free = next(self._new_ids)
        self._taken.add(free)
        return free

    def _call(self, key: str, call_id: str, name: str, arguments: str = "") -> None:
        self.has_content = self._has_calls = True
        self._events.append(ToolCallDelta(key=key, id=call_id, name=name, arguments=arguments))

    def _end_call(self, key: str, call_id: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Emit the end of a tool call; `arguments` replace the pieces."""
        self._events.append(ToolCallEnd(key=key, id=call_id, arguments=arguments))

    def _fail(self, error: ProviderError) -> None:
        self._events.append(StreamError(error))

    def _done(self, reason: StopReason) -> None:
        if reason == "stop" and self._has_calls:
            reason = "toolUse"
        self._events.append(StreamDone(stop_reason=reason, usage=self._usage))


class ServiceError(Exception):
    """The service reported an error inside its answer; `body` is the JSON of it."""

    def __init__(self, body: Any) -> None:
        super().__init__("error inside the answer")
        self.body = body


def parse_json(text: str) -> Any:
    """The value of a JSON text; None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """`value` if it is a count, else 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0, int(value)) if is_number else 0


def as_amount(value: Any) -> float | None:
    """`value` if it is a plausible price of a call in USD, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MAX_AMOUNT else None


def as_object(value: Any) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    """The JSON objects in `value`, if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
