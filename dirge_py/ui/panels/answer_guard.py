"""Tells an answer to a question from text that was typed for the input. Knows no widgets.

The rule, for every question:

* A key counts only after a pause in the typing (`pause_s`). Text that comes before is typing, and
  makes the pause begin anew, however long somebody types.
* A printable key answers nothing by itself. One that stands for a choice selects it, and Enter
  confirms.
* Any other printable key is typing, and so is a second one that would select: the keys that had
  selected something are part of the text then, and nothing stays selected.
* Enter right behind another key, faster than a hand, comes from a paste and confirms nothing.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["text", "select", "use", "confirm", "act", "none"]
"""What a key would do at this question now.

text: nothing but write; select: highlight a choice; use: a blank that scrolls or ticks;
confirm: Enter; act: an arrow, Esc and the like, which no text contains; none: nothing at all.
"""

Meaning = Literal["type", "select", "use", "confirm", "act", "deselect", "nothing"]

PAUSE_S = 0.3
"""How long nothing may be typed before a key counts."""

FASTEST = 1 / 6
"""The part of the pause within which no hand presses a second key and means it."""


@dataclass(frozen=True, slots=True)
class GuardedKey:
    """What to do about a key.

    `text`: what was typed, in order, with the keys that had selected something. `undone`: how many
    of them were used, which is to be taken back. `was_open`: the pause was over.
    """

    meaning: Meaning
    text: str = ""
    undone: int = 0
    was_open: bool = True


class AnswerGuard:
    """Sees every key that reaches a question, with the time at which it was pressed."""

    def __init__(self, *, pause_s: float, now: float) -> None:
        self._pause_s = pause_s
        self._last_at = now
        self._held = ""
        self._used = 0
        self.opens_at = now + pause_s
        """When keys count, unless another one comes before."""

    def close(self, now: float) -> None:
        """Wait for a pause from now on; what was selected is forgotten."""
        self._last_at = now
        self._held, self._used = "", 0
        self.opens_at = now + self._pause_s

    def is_open(self, now: float) -> bool:
        """Whether a key would count now."""
        return now >= self.opens_at

    @property
    def held(self) -> str:
        """Keys that selected or used something, and may still turn out to be text."""
        return self._held

    def press(self, role: Role, text: str, now: float) -> GuardedKey:
        """Judge a key. `text` is what it would write, empty for keys that write nothing."""
        since_last_s = now - self._last_at
        self._last_at = now
        if not self.is_open(now):
            return self._typed(text, now, was_open=False)
        if self._held.isspace() and since_last_s >= self._pause_s:
            self._held, self._used = "", 0  # They scrolled or ticked, and that was all.
        if role == "text" or (role == "select" and self._held):
            return self._typed(text, now)
        if role in ("select", "use"):
            self._held += text
            self._used += role == "use"
            return GuardedKey(role)
        if role == "confirm" and since_last_s < self._pause_s * FASTEST:
            return self._typed("", now)
        meant: Meaning = "deselect" if role == "none" else role
        if role == "none" and not self._held:
            meant = "nothing"
        self._held, self._used = "", 0
        return GuardedKey(meant)

    def _typed(self, text: str, now: float, *, was_open: bool = True) -> GuardedKey:
        text, undone = self._held + text, self._used
        self.close(now)
        meaning: Meaning = "type" if text else "nothing"
        return GuardedKey(meaning, text, undone=undone, was_open=was_open)
