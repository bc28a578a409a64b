"""The todo list above the input, there when it is asked for."""

from collections.abc import Sequence

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.ui.activity import Todo
from dirge_py.ui.ink import Ink
from dirge_py.ui.panels.sections import MOST_TODOS, todo_lines
from dirge_py.ui.transcript.lines import strip

_ROWS_FOR_OTHERS = 8
"""Rows of the screen that stay: some of the transcript, the input, the status line."""


class TodoPanel(Widget, can_focus=False):
    """At most eight rows; on a low screen fewer."""

    DEFAULT_CSS = """
    TodoPanel { height: auto; padding: 0 1; display: none; }
    TodoPanel.shown { display: block; }
    .small-asking TodoPanel.shown { display: none; }
    """

    def __init__(self, ink: Ink) -> None:
        super().__init__(id="todos")
        self._ink = ink
        self._todos: Sequence[Todo] = ()

    @property
    def is_shown(self) -> bool:
        return self.has_class("shown")

    def toggle(self) -> None:
        self.toggle_class("shown")

    def tell(self, todos: Sequence[Todo]) -> None:
        if todos != self._todos:
            self._todos = todos
            self.refresh(layout=self.is_shown)

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        most = max(1, min(MOST_TODOS, viewport.height - _ROWS_FOR_OTHERS))
        return max(1, min(most, len(self._todos)))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = todo_lines(self._todos, width, self._ink, max(1, self.size.height))
        lines = lines or [[("Nothing is on the todo list.", self._ink.dim)]]
        line = lines[y] if y < len(lines) else []
        return strip(line).crop_extend(0, width, self._ink.text)
