"""What has come below the view since the end was left: a note over the end of its last line."""

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.following import Following
from dirge_py.ui.transcript.marking import CHOSEN

if TYPE_CHECKING:
    from dirge_py.ui.transcript.view import Transcript


class News:
    """Empty while there is nothing new below. A line of its own would push the text about."""

    def __init__(self, view: "Transcript", following: Following) -> None:
        self._view = view
        self._following = following
        self._text = ""

    def tell(self) -> None:
        """Count again."""
        view = self._view
        lines = self._following.new_lines(view.first_line + view.lines_in_view)
        text = f" ▼ {lines} new line{'s' * (lines != 1)} below " if lines else ""
        if text != self._text:
            self._text = text
            view.refresh(Region(0, view.lines_in_view - 1, view.size.width, 1))

    def put_on(self, strip: Strip, y: int, width: int, ink: Ink) -> Strip:
        """The line `y` of the view, with the note over its end if it is the last one."""
        if not self._text or y != self._view.lines_in_view - 1:
            return strip
        size = min(cell_len(self._text), width)
        note = Strip([Segment(self._text, ink.accent + CHOSEN)]).crop(0, size)
        return Strip.join([strip.crop(0, width - size), note])

    def is_at(self, event: events.MouseEvent) -> bool:
        """Does the mouse point at it?"""
        view = self._view
        is_last = event.y - view.gutter.top == view.lines_in_view - 1
        begin = view.scrollable_content_region.width - cell_len(self._text)
        return bool(self._text) and is_last and event.x - view.gutter.left >= begin
