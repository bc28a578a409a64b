"""Places in the text of the transcript, which stay where they are however it is drawn."""

from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.transcript.layout import Layout, Place
from dirge_py.ui.transcript.plain import own_text
from dirge_py.ui.transcript.rows import Row

_MOST_PAINTED = 1_000
"""Rows painted for their text; about half a second."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Before a character of a row's logical text."""

    row: Row
    offset: int


def spot_at(layout: Layout, y: int, cell: int = 0) -> Spot | None:
    """What stands at a height and a column; the end of all text beyond it, None where is none."""
    place = layout.find(y)
    if place is None:
        last = layout.rows.last
        return Spot(last, len(layout.drawn(last).logical.text)) if last else None
    return spot_of(layout, place, cell)


def spot_of(layout: Layout, place: Place, cell: int = 0) -> Spot:
    """What stands in a line of a row; blank lines above it belong to its beginning."""
    line = place.line - place.row.gap
    if line < 0:
        return Spot(place.row, 0)
    return Spot(place.row, layout.drawn(place.row).logical.offset_at(line, cell))


def place_of(layout: Layout, spot: Spot) -> Place:
    """The line on which a spot is drawn now."""
    layout.settle_row(spot.row)
    logical = layout.drawn(spot.row).logical
    return Place(spot.row, spot.row.gap + logical.line_of(min(spot.offset, len(logical.text))))


def is_before(layout: Layout, spot: Spot, other: Spot) -> bool:
    """Whether one spot comes before another; both rows are there."""
    if spot.row is other.row:
        return spot.offset < other.offset
    return layout.rows.is_above(spot.row, other.row)


def texts_between(layout: Layout, first: Spot, last: Spot) -> Iterator[str]:
    """The text from one spot to another, as it was written: what was wrapped is one line again.

    Of very many rows those in between are not painted: what they say of themselves is taken.
    """
    row: Row | None = first.row
    count = 0
    while row is not None:
        count += 1
        if layout.is_hidden(row.block) and row is not first.row and row is not last.row:
            row = row.below
            continue
        if count > _MOST_PAINTED and row is not last.row and (own := own_text(row.block)):
            yield "\n" * (row.gap + 1) + own.strip("\n")
            row = row.below
            continue
        text = layout.drawn(row).logical.text
        begin = first.offset if row is first.row else 0
        end = last.offset if row is last.row else len(text)
        if row is not first.row:
            layout.settle_row(row)
            yield "\n" * (row.gap + bool(row.lines))
        yield text[begin:end]
        if row is last.row:
            return
        row = row.below


def after_insertion(layout: Layout, spot: Spot, row: Row) -> Spot:
    """Where a spot is found once the beginning of its row's text has become a row above it."""
    moved = len(layout.drawn(row).logical.text)
    if spot.offset <= moved:
        return Spot(row, spot.offset)
    # A blank line stood between the two in what was one text.
    return Spot(spot.row, max(0, spot.offset - moved - 2))
