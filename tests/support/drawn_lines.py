"""The lines of a transcript as they are drawn."""

from collections.abc import Iterator

from textual.strip import Strip

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
