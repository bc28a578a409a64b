"""Calls that were refused again and again: they are no longer asked about."""

from collections import Counter
from collections.abc import Sequence

from dirge_py.types.tools import Claim

_MOST_RUNS = 16

Shape = tuple[str, tuple[Claim, ...]]


class LoopGuard:
    """Counts how often the same tool was denied the same claims in one run.

    After `most` denials without an approval in between it speaks up; 0 turns it off. A new run
    begins from nothing: somebody has said something since.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[str, Counter[Shape]] = {}

    def stops(self, run_id: str, tool: str, claims: Sequence[Claim]) -> str:
        """Why this need not be asked once more, or ""."""
        count = self._denials(run_id)[tool, tuple(claims)]
        if not self._most or count < self._most:
            return ""
        return f"exactly this was denied {count} times, so nobody is asked again in this run"

    def note_denial(self, run_id: str, tool: str, claims: Sequence[Claim]) -> None:
        self._denials(run_id)[tool, tuple(claims)] += 1

    def note_approval(self, run_id: str, tool: str, claims: Sequence[Claim]) -> None:
        self._denials(run_id).pop((tool, tuple(claims)), None)

    def _denials(self, run_id: str) -> Counter[Shape]:
        # Several at once: a run that was forked off goes on beside its parent.
        while run_id not in self._runs and len(self._runs) >= _MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return self._runs.setdefault(run_id, Counter())
