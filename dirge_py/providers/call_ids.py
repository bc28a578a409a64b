"""Ids for the calls of one answer: each is that of one call in the whole of history."""

from collections.abc import Iterable
from itertools import count


class CallIds:
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
