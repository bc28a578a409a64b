"""The lines of a transcript as they are drawn."""

from collections.abc import Iterator

from textual.strip import Strip

from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import DiffLayout, is_split, paint_rows, read_diff
from dirge_py.ui.transcript.layout import TranscriptLayout


def line_at(layout: TranscriptLayout, y: int) -> Strip | None:
    """The line at height `y`; None for a blank one, or after the end."""
    place = layout.find(y)
    return layout.strip_at(place.row, place.line - place.row.gap) if place else None


def line_texts(layout: TranscriptLayout, first: int, last: int) -> Iterator[str]:
    """The text of the lines from `first` to `last`."""
    for y in range(first, min(last + 1, layout.height)):
        strip = line_at(layout, y)
        yield strip.text.rstrip() if strip else ""


def paint_diff(
    diff: str, width: int, styles: Styles, layout: DiffLayout = "unified"
) -> list[Strip]:
    """Draw a unified diff."""
    return paint_rows(read_diff(diff), width, styles, split=is_split(layout, width))[0]
