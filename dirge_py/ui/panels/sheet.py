"""Lines that can be scrolled: what dialogs show above their choices."""

from collections.abc import Callable, Sequence

from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dirge_py.ui.ink import Ink

Paint = Callable[[int], Sequence[Strip]]
"""Lines for a width."""


class Sheet(ScrollView, can_focus=False):
    """Shows what `paint` returns for its width; calls `on_end` when its end is first in view."""

    DEFAULT_CSS = """
    Sheet { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    def __init__(
        self, paint: Paint, ink: Ink, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._on_end = on_end
        self._paint = paint
        self._ink = ink
        self._strips: Sequence[Strip] = ()
        self._unsettled = 0
        self.seen_end = False

    def on_resize(self, event: events.Resize) -> None:
        self.repaint()
        if len(self._strips) <= self.size.height:
            # It came for the height of a moment ago, and would stay until the text changes.
            self.show_vertical_scrollbar = False

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self.repaint()

    def repaint(self) -> None:
        """Ask `paint` again."""
        # One column is kept for the scrollbar, so that its coming and going wraps nothing anew.
        width = max(1, self.size.width - 1)
        self._strips = self._paint(width)
        self.virtual_size = Size(width, len(self._strips))
        self.refresh()
        self._unsettled += 1
        self.call_after_refresh(self._settle)

    def turn(self, *, was_read: bool = False) -> None:
        """Other lines are shown from now on, from their beginning."""
        self.seen_end = was_read
        self.repaint()
        self.scroll_to(y=0, animate=False, immediate=True)

    def show(self, first: int, last: int) -> None:
        """Bring these lines into view, the first of them above all."""
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        if last >= top + height:
            top = last - height + 1
        self.scroll_to(y=max(0, min(top, first)), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.note_end()

    def _settle(self) -> None:
        self._unsettled -= 1
        self.note_end()

    def note_end(self) -> None:
        if self._unsettled:
            return  # The room for these lines is not known yet.
        height = self.size.height
        is_end = height > 0 and self.scroll_offset.y + height >= len(self._strips)
        if is_end and not self.seen_end:
            self.seen_end = True
            self._on_end()

    def move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.size.width
        if at >= len(self._strips):
            return Strip.blank(width, self._ink.text)
        return self._strips[at].crop_extend(0, width, self._ink.text)
