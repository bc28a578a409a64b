"""Something worked out once per object, for objects that cannot carry it themselves."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 512


class IdentityCache(Generic[T]):
    """What `make` returns for an object, made when that very object is first asked about.

    Objects are told apart by identity and held on to, so that an identity is never used again for
    another; the oldest is let go when there are too many. They must not be changed afterwards.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._made: dict[int, tuple[Any, T]] = {}

    def __call__(self, of: Any) -> T:
        known = self._made.get(id(of))
        if known is not None:
            return known[1]
        made = self._make(of)
        if len(self._made) >= _MOST:
            self._made.pop(next(iter(self._made)), None)
        self._made[id(of)] = (of, made)
        return made
