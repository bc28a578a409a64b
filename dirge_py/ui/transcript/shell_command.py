"""A command that the person ran with `!`, and what it wrote."""

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.lines import Line, fold, wrap

_LINES_COLLAPSED = 4
_LONGEST_OUTPUT = 400_000
"""Characters kept for the view; all of it is in the session."""


class ShellBlock(BlockBase):
    """`! command`, how it ended unless that was well, and the end of its output."""

    def __init__(self, command: str, output: str, *, how: str = "") -> None:
        super().__init__()
        self._command = clean(command)
        self._how = "" if how == "exit 0" else clean(how)
        self._lines = clean(output[-_LONGEST_OUTPUT:]).strip("\n").split("\n")
        if self._lines == [""]:
            self._lines = []

    @property
    def text(self) -> str:
        return "\n".join([f"! {self._command}", *self._lines])

    @property
    def can_expand(self) -> bool:
        return len(self._lines) > _LINES_COLLAPSED

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        rest: Line = [("  ", ink.text)]
        head: Line = [(self._command, ink.user)]
        if self._how:
            head.append((f"  {self._how}", ink.error))
        strips = wrap(head, width, first=[("! ", ink.accent)], rest=rest)
        lines = self._lines if expanded else self._lines[-_LINES_COLLAPSED:]
        hidden = len(self._lines) - len(lines)
        if hidden:
            words = f"… {hidden} earlier line{'s' * (hidden != 1)}"
            strips += wrap([(words, ink.dim)], width, first=rest, rest=rest)
        for line in lines:
            strips += fold([(line, ink.dim)], width, prefix=rest)
        return strips

    def guess_height(self, width: int) -> int:
        return 1 + min(len(self._lines), _LINES_COLLAPSED + 1)
