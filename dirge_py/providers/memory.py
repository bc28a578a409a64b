"""What was made for the last request, so that the next one costs only what is new in it."""

from collections.abc import Callable
from typing import Any, TypeVar

V = TypeVar("V")
R = TypeVar("R")


class Memory:
    """Results by the object they were made of, kept from one request to the next.

    Objects are told apart by identity, so they must be ones that never change. A history that is
    sent again, and a little longer, is what this is for; what is not asked for again is forgotten.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[object, Any]] = {}
        self._now: dict[int, tuple[object, Any]] = {}

    def begin_request(self) -> None:
        """Forget what the last request did not ask for."""
        self._before, self._now = self._now, {}

    def of(self, value: V, make: Callable[[V], R]) -> R:
        """`make(value)`, as it was made for the last request if it was."""
        key = id(value)
        kept = self._before.get(key)
        # An id names one object only while that lives: so both are kept, and looked at.
        entry = kept if kept is not None and kept[0] is value else (value, make(value))
        self._now[key] = entry
        result: R = entry[1]
        return result
