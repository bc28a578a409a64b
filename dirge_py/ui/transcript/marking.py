"""Parts of a drawn line in another look: what is selected, found, or at the cursor."""

from collections.abc import Callable, Sequence

from rich.style import Style
from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.layout import Layout
from dirge_py.ui.transcript.rows import Row
from dirge_py.ui.transcript.searching import Search
from dirge_py.ui.transcript.selection import Selection

CHOSEN = Style(reverse=True)
"""Where one is among what was found; seen without colours, too."""


def marked(strip: Strip, begin: int, end: int, style: Style) -> Strip:
    """The line with `style` put on its columns from `begin` to `end`."""
    if end <= begin:
        return strip
    inside = Strip(
        [type(s)(s.text, (s.style or Style.null()) + style) for s in strip.crop(begin, end)]
    )
    return Strip.join([strip.crop(0, begin), inside, strip.crop(end)])


class Marks:
    """What is selected and what was found, put on the lines that show it.

    `is_colorless` tells whether a ground of another colour would not be seen.
    """

    def __init__(
        self,
        search: Search,
        selection: Selection,
        layout: Layout,
        is_colorless: Callable[[], bool],
    ) -> None:
        self._is_colorless = is_colorless
        self._search = search
        self._selection = selection
        self._layout = layout

    def pointed(self, ink: Ink) -> Style:
        """The look of what is selected, or at the cursor."""
        return CHOSEN if self._is_colorless() else ink.selection

    def put_on(self, strip: Strip, row: Row, line: int, ink: Ink) -> Strip:
        """A drawn line of a row, with its marks."""
        found, chosen = self._search.columns_of(row, line)
        strip = _all_marked(strip, found, ink.selection + ink.strong)
        strip = _all_marked(strip, chosen, CHOSEN)
        part = self._selection.part_of(row)
        columns = self._layout.drawn(row).logical.cells_of(line, *part) if part else None
        return marked(strip, *columns, self.pointed(ink)) if columns else strip


def _all_marked(strip: Strip, columns: Sequence[tuple[int, int]], style: Style) -> Strip:
    for begin, end in columns:
        strip = marked(strip, begin, end, style)
    return strip
