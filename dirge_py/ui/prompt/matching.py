"""Which files are meant by what stands behind an `@`: all are looked at, a slice at a time."""

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from dirge_py.ui.prompt.files import Found

SHOWN = 50
RECENT_S = 3600.0
"""A file that was modified since then ranks before others that fit as well."""

_SLICE = 500

Rank: TypeAlias = tuple[int, bool, bool, int, int, str]
"""How it fits, then: not touched in the session, not modified lately, where, how long, its path."""


class Matching:
    """One query over one list of files. `work` until it is done, then read `best`."""

    def __init__(
        self,
        query: str,
        files: "Sequence[Found]",
        *,
        touched: Collection[str] = (),
        before: "Matching | None" = None,
    ) -> None:
        """`before`: what fitted a shorter query of the same list is all there is to look at."""
        self.query = query
        self.files = files
        self._wanted = query.lower()
        self._touched = touched
        self._since = time.time() - RECENT_S
        self._shows_hidden = query.startswith(".") or "/." in query
        self._at = 0
        self._ranks: list[Rank] = []
        self._fitting: list[Found] = []
        narrows = before is not None and before.is_done and before.narrows_to(query, files)
        self._candidates = before._fitting if before is not None and narrows else files

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._candidates)

    @property
    def left(self) -> int:
        """Files that are still to be looked at."""
        return len(self._candidates) - self._at

    def narrows_to(self, query: str, files: "Sequence[Found]") -> bool:
        """Whether all that fits `query` is among what fits this one."""
        same_sort = self._shows_hidden == (query.startswith(".") or "/." in query)
        return files is self.files and same_sort and query.startswith(self.query)

    def work(self, limit_s: float | None = None) -> bool:
        """Look at files for so long; returns whether all were looked at. None: to the end."""
        until = time.monotonic() + limit_s if limit_s is not None else None
        while not self.is_done:
            for found in self._candidates[self._at : self._at + _SLICE]:
                if found.is_hidden and not self._shows_hidden:
                    continue
                score = _score(self._wanted, found.folded)
                if score is not None and found.path != self.query:
                    self._fitting.append(found)
                    self._ranks.append(self._rank(score, found))
            self._at += _SLICE
            if until is not None and time.monotonic() > until:
                break
        return self.is_done

    def best(self) -> list[str]:
        """The paths that fit best so far, the best first."""
        self._ranks.sort()
        del self._ranks[SHOWN:]
        return [rank[-1] for rank in self._ranks]

    def _rank(self, score: int, found: "Found") -> Rank:
        kind = 0 if not self._wanted or score < 100 else 1 if score < 1000 else 2
        if self._wanted.endswith("/") and kind < 2:
            # A folder was opened: what lies in it comes before what lies deeper.
            kind = min(1, found.folded.count("/", 0, len(found.path) - 1) - self.query.count("/"))
        is_old = found.modified < self._since
        return (kind, found.path not in self._touched, is_old, score, len(found.path), found.path)


def _score(wanted: str, path: str) -> int | None:
    """Lower is better; None when the letters are not there in their order."""
    if not wanted:
        return path.count("/", 0, len(path) - 1)
    name_at = path.rfind("/", 0, len(path) - 1) + 1
    if (at := path.find(wanted, name_at)) >= 0:
        return min(at - name_at, 99)
    if (at := path.find(wanted)) >= 0:
        return 100 + min(at, 899)
    at, gaps = -1, 0
    for letter in wanted:
        found = path.find(letter, at + 1)
        if found < 0:
            return None
        gaps += found - at - 1
        at = found
    return 1000 + gaps
