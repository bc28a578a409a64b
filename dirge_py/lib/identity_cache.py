"""A cache of values computed once per object, by the object's identity."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 512


class IdentityCache(Generic[T]):
    """Caches the result of `make` for each object, computed on first use.

    It holds references to the objects, so that no identity is reused; the oldest is dropped when
    there are too many. The objects must not be changed afterwards.
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
