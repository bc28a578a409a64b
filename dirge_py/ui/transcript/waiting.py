"""A model call that broke off and is made again: the wait before, counted down."""

from collections.abc import Callable

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.lines import wrap


class RetryBlock(BlockBase):
    """One line that says what went wrong, and in how many seconds it is tried again.

    `delay_s` counts from the block's making, by `clock` (seconds).
    """

    def __init__(
        self, attempt: int, delay_s: float, error: str, *, clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self._attempt = attempt
        self._error = clean(error)
        self._clock = clock
        self._due = clock() + delay_s
        self._shown_s = self._left_s

    @property
    def text(self) -> str:
        return f"Try {self._attempt}: {self._error}"

    @property
    def is_waiting(self) -> bool:
        """Is there time left to count?"""
        return self._shown_s > 0

    def tick(self) -> bool:
        """Look at the clock; True if another number has to be shown."""
        left_s = self._left_s
        if left_s == self._shown_s:
            return False
        self._shown_s = left_s
        self.changed()
        return True

    @property
    def _left_s(self) -> int:
        return max(0, round(self._due - self._clock()))

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        when = f"in {self._shown_s} s" if self._shown_s else "now"
        line = f"Try {self._attempt} {when}: {self._error}"
        mark, rest = [("! ", ink.warning)], [("  ", ink.warning)]
        return wrap([(line, ink.warning)], width, first=mark, rest=rest)

    def guess_height(self, width: int) -> int:
        return 1 + len(self._error) // max(1, width)
