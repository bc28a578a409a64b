"""Calls that were refused again and again: they are no longer asked about."""

from collections import Counter
from collections.abc import Sequence

from dirge_py.claims import Claim

Shape = tuple[str, tuple[Claim, ...]]


class LoopGuard:
    """Counts how often the same tool was denied the same claims in one run.

    After `most` denials without an approval in between it speaks up; 0 turns it off. A new run
    begins from nothing: somebody has said something since.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._run_id = ""
        self._denials: Counter[Shape] = Counter()

    def enter(self, run_id: str) -> None:
        if run_id != self._run_id:
            self._run_id = run_id
            self._denials.clear()

    def stops(self, tool: str, claims: Sequence[Claim]) -> str:
        """Why this need not be asked once more, or ""."""
        count = self._denials[tool, tuple(claims)]
        if not self._most or count < self._most:
            return ""
        return f"exactly this was denied {count} times, so nobody is asked again in this run"

    def note_denial(self, tool: str, claims: Sequence[Claim]) -> None:
        self._denials[tool, tuple(claims)] += 1

    def note_approval(self, tool: str, claims: Sequence[Claim]) -> None:
        self._denials.pop((tool, tuple(claims)), None)
