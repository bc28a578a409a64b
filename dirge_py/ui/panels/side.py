"""A panel beside the transcript: one widget that draws lines; hidden, it does nothing."""

from collections.abc import Sequence

from textual.strip import Strip
from textual.widget import Widget

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line, strip

MARGIN = 2
"""Columns of a panel that are blank, one at each side."""


class SidePanel(Widget, can_focus=False):
    """Shows as many of its lines as there are rows."""

    DEFAULT_CSS = "SidePanel { height: 1fr; padding: 0 1; display: none; }"

    def __init__(self, ink: Ink, name: str) -> None:
        super().__init__(id=name)
        self._ink = ink
        self._lines: Sequence[Line] = ()

    def tell(self, lines: Sequence[Line]) -> None:
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self.refresh()

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else []
        return strip(line).crop_extend(0, self.size.width, self._ink.text)
