"""What was typed during a run and has not reached it yet, and what the keys would do now."""

from collections.abc import Sequence

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.frontend.controller import Waiting
from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.panels.hint import fitted
from dirge_py.ui.transcript.lines import Line, clip, strip

_MARKS = {"steering": "↳ steers next: ", "next_run": "↳ enters the next run: "}
_MOST_ROWS = 4
_LOW_SCREEN = 6
"""Rows up to which there is no hint."""


class QueuePanel(Widget, can_focus=False):
    """One line per queued input and one hint; not there at all when there is nothing to say."""

    DEFAULT_CSS = "QueuePanel { height: auto; padding: 0 1; display: none; }"

    def __init__(self, ink: Ink) -> None:
        super().__init__(id="queue")
        self._ink = ink
        self._waiting: Sequence[Waiting] = ()
        self._hint = ""

    def tell(self, waiting: Sequence[Waiting], hint: str) -> None:
        if (waiting, hint) == (self._waiting, self._hint):
            return
        self._waiting, self._hint = waiting, hint
        self.display = bool(waiting or hint)
        self.refresh(layout=True)

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        rows = min(len(self._waiting), _MOST_ROWS if viewport.height > 12 else 1)
        return rows + (1 if self._hint and viewport.height > _LOW_SCREEN else 0)

    def render_line(self, y: int) -> Strip:
        # The height may still be that of what was shown before: drawing comes before laying out.
        lines = self._lines(self.size.width, self.size.height)
        line = lines[y] if y < len(lines) else []
        return strip(line).crop_extend(0, self.size.width, self._ink.text)

    def _lines(self, width: int, height: int) -> list[Line]:
        has_hint = bool(self._hint) and self.screen.size.height > _LOW_SCREEN
        rows = min(height - has_hint, len(self._waiting))
        lines = [self._line(waiting, width) for waiting in self._waiting[: max(0, rows)]]
        hidden = len(self._waiting) - rows
        if lines and hidden > 0:
            lines[-1] = [(f"… and {hidden + 1} more queued", self._ink.dim)]
        return [*lines, [(fitted(self._hint, width), self._ink.dim)]] if has_hint else lines

    def _line(self, waiting: Waiting, width: int) -> Line:
        mark = _MARKS.get(waiting.kind, "⧗ when done: ")
        style = self._ink.warning if waiting.kind == "steering" else self._ink.accent
        return [(mark, style), (clip(clean(waiting.text), width - len(mark)), self._ink.text)]
