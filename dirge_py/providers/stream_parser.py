"""The half of a provider that reads: one service's answer into stream events."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from dirge_py.types.llm import StreamEvent

_MAX_AMOUNT = 1e6


class StreamParser(Protocol):
    """Made anew for each answer. Payloads come from strangers: any field may be of any type.

    The last event it hands out is a `StreamDone` or a `StreamError`. Errors that the service
    reports are raised as `ServiceError`; any other exception means that the answer is unreadable.
    """

    @property
    def is_done(self) -> bool:
        """Whether the last event was handed out."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that matters came; what may follow is only bookkeeping."""

    @property
    def has_content(self) -> bool:
        """Whether something came that a person could have seen."""

    @property
    def call_is_open(self) -> bool:
        """Whether a tool call is half-written."""

    def event(self, name: str, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """What one server-sent event means."""

    def whole(self, payload: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """What an answer means that came in one piece, though a stream was asked for."""

    def finish(self) -> Sequence[StreamEvent]:
        """What is left when no more will come; empty if the answer was cut short, or is done.

        Never raises.
        """


class ServiceError(Exception):
    """The service reported an error inside its answer; `body` is its JSON."""

    def __init__(self, body: Any) -> None:
        super().__init__("error inside the answer")
        self.body = body


def as_text(value: Any) -> str:
    """`value` if it is a string, else nothing."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """`value` if it is a number of things, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, int(value))


def as_amount(value: Any) -> float | None:
    """`value` if it is an amount of money that a call may cost, else None."""
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
    """`taken` are the ids that history uses; made-up ones begin with `prefix`."""

    def __init__(self, taken: Iterable[str], prefix: str) -> None:
        self._taken = set(taken)
        self._made_up = (f"{prefix}{n or ''}" for n in count())

    def free(self, given: str) -> str:
        """The service's own id, or a new one where it gave none or one that has a call already."""
        free = given
        while not free or free in self._taken:
            free = next(self._made_up)
        self._taken.add(free)
        return free
