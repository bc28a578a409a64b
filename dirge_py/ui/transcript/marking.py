"""Parts of a drawn line in another look: what is selected, found, or at the cursor."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from dirge_py.ui.ink import Ink

CHOSEN = Style(reverse=True)
"""On top of what is found, where one is now; seen without colours, too."""


def marked(strip: Strip, begin: int, end: int, style: Style) -> Strip:
    """The line with `style` put on its columns from `begin` to `end`."""
    if end <= begin:
        return strip
    inside = Strip(
        [type(s)(s.text, (s.style or Style.null()) + style) for s in strip.crop(begin, end)]
    )
    return Strip.join([strip.crop(0, begin), inside, strip.crop(end)])


def all_marked(strip: Strip, columns: Sequence[tuple[int, int]], style: Style) -> Strip:
    for begin, end in columns:
        strip = marked(strip, begin, end, style)
    return strip


def with_news(strip: Strip, text: str, width: int, ink: Ink) -> Strip:
    """The line with `text` at its right end, over what stands there."""
    size = min(cell_len(text), width)
    news = Strip([Segment(text, ink.accent + CHOSEN)]).crop(0, size)
    return Strip.join([strip.crop(0, width - size), news])
