"""The base of the parsers of all wire formats, which turn one answer into stream events."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from dirge_py.types.llm import StreamEvent, StreamStart

_MAX_AMOUNT = 1e6


class StreamParser(ABC):
    """Reads one answer. Payloads are untrusted: any member may have any type.

    `taken` are the call ids of history: a call without an id, or with one of these, gets a new id
    that holds `new_id`. The last event of an answer is a `StreamDone` or a `StreamError`. Errors
    that the service reports are raised as `ServiceError`; any other exception means that the
    answer is unreadable.
    """

    id_prefix = "call_"
    """What new call ids begin with."""

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        self.is_done = False
        """Whether the last event was returned."""
        self.has_content = False
        """Whether anything arrived that the user could have seen."""
        self._ids = CallIdAllocator(taken, f"{self.id_prefix}{new_id}")
        self._is_started = False

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether everything but bookkeeping has arrived."""

    @property
    @abstractmethod
    def call_is_open(self) -> bool:
        """Whether a tool call is half-written."""

    @abstractmethod
    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """The events of one server-sent event."""

    @abstractmethod
    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """The events of an answer that came in one piece, though a stream was requested."""

    def finish(self) -> Sequence[StreamEvent]:
        """The last events; empty if the answer broke off, or ended before. Never raises."""
        if self.is_done or not self._is_whole():
            return ()
        self.is_done = True
        return self._last_events()

    def _is_whole(self) -> bool:
        """Whether the end of the stream is the end of the answer."""
        return self.is_settled

    @abstractmethod
    def _last_events(self) -> Sequence[StreamEvent]:
        """The events that end the answer."""

    def _start(self, model: Any, events: list[StreamEvent]) -> None:
        """Emit the `StreamStart` with the first event."""
        if not self._is_started:
            self._is_started = True
            events.append(StreamStart(as_text(model)))


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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, int(value))


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


class CallIdAllocator:
    """Hands out call ids: none of `taken`, and new ones begin with `prefix`."""

    def __init__(self, taken: Iterable[str], prefix: str) -> None:
        self._taken = set(taken)
        self._made_up = (f"{prefix}{n or ''}" for n in count())

    def free(self, given: str) -> str:
        """The service's own id; a new one if that is empty or in use."""
        free = given
        while not free or free in self._taken:
            free = next(self._made_up)
        self._taken.add(free)
        return free
