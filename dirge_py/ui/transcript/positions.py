"""Positions in the text of the transcript that stay valid however it is drawn; its plain text.

`ScrollAnchor` holds where the view is: at the end, which it follows, or at a line.
"""

from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.transcript.blocks import UserBlock
from dirge_py.ui.transcript.layout import BlockRow, LinePosition, TranscriptLayout

_MOST_PAINTED = 1_000
"""How many rows are painted for their text; takes about half a second."""


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A position before a character of a row's logical text."""

    row: BlockRow
    offset: int


def position_at(layout: TranscriptLayout, y: int, cell: int = 0) -> TextPosition | None:
    """The position at a height and a column; the end of all text beyond it, None without text."""
    place = layout.find(y)
    if place is None:
        last = layout.rows.last
        return TextPosition(last, len(layout.drawn(last).logical.text)) if last else None
    return position_of(layout, place, cell)


def position_of(layout: TranscriptLayout, place: LinePosition, cell: int = 0) -> TextPosition:
    """The position in a line of a row; blank lines above it belong to its beginning."""
    line = place.line - place.row.gap
    if line < 0:
        return TextPosition(place.row, 0)
    return TextPosition(place.row, layout.drawn(place.row).logical.offset_at(line, cell))


def line_of(layout: TranscriptLayout, spot: TextPosition) -> LinePosition:
    """The line on which a spot is drawn now."""
    layout.settle_row(spot.row)
    logical = layout.drawn(spot.row).logical
    return LinePosition(
        spot.row, spot.row.gap + logical.line_of(min(spot.offset, len(logical.text)))
    )


def is_before(layout: TranscriptLayout, spot: TextPosition, other: TextPosition) -> bool:
    """Whether one spot comes before another; both rows are there."""
    if spot.row is other.row:
        return spot.offset < other.offset
    return layout.rows.is_above(spot.row, other.row)


def texts_between(
    layout: TranscriptLayout, first: TextPosition, last: TextPosition
) -> Iterator[str]:
    """The text from one spot to another, as it was written: what was wrapped is one line again.

    Of very many rows those in between are not painted: their own text is taken.
    """
    row: BlockRow | None = first.row
    count = 0
    while row is not None:
        count += 1
        if layout.is_hidden(row.block) and row is not first.row and row is not last.row:
            row = row.below
            continue
        if count > _MOST_PAINTED and row is not last.row and (own := row.block.text):
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


def after_insertion(layout: TranscriptLayout, spot: TextPosition, row: BlockRow) -> TextPosition:
    """Where a spot is once the beginning of its row's text has become a row above it."""
    moved = len(layout.drawn(row).logical.text)
    if spot.offset <= moved:
        return TextPosition(row, spot.offset)
    # A blank line stood between the two in what was one text.
    return TextPosition(spot.row, max(0, spot.offset - moved - 2))


_MOST_MEASURED = 16
"""Blocks below the view drawn for the count of new lines; more at once are guessed."""


class ScrollAnchor:
    """`place` is the line on top of the view; None while the end is followed.

    `would_follow`: the end was in view when the view was held, and was not scrolled since.
    """

    def __init__(self, layout: TranscriptLayout) -> None:
        self._layout = layout
        self.place: LinePosition | None = None
        self.is_on = True
        self.would_follow = False
        self._last_seen: tuple[BlockRow | None, int] = (None, 0)
        self._changed: dict[BlockRow, None] = {}
        self._wrapped_at: tuple[LinePosition, TextPosition] | None = None

    def follow_end(self) -> bool:
        """Follow the end; True if that is new."""
        was_on, self.is_on = self.is_on, True
        self.place, self.would_follow = None, False
        self._changed.clear()
        return not was_on

    def stay(self, first_line: int, *, is_held: bool) -> bool:
        """Stay at the line that is on top; True if that is new."""
        was_on, self.is_on = self.is_on, False
        self.would_follow = is_held and (was_on or self.would_follow)
        if not was_on:
            return False
        self.place = self._layout.find(first_line)
        last = self._layout.rows.last
        self._last_seen = (last, last.lines if last else 0)
        return True

    def on_scrolled(self, first_line: int) -> None:
        """Remember where the person has scrolled to."""
        if not self.is_on:
            self.place = self._layout.find(first_line)

    def settle(self, height: int, first_line: int) -> int:
        """Draw what is in view; returns the height of its first line."""
        for row in self._changed:
            self._layout.settle_row(row)
        self._changed.clear()
        if self.place is None or self.place.row.is_gone:
            self.place = self._layout.find(min(first_line, max(0, self._layout.height - height)))
        return self._layout.settle_at(self.place, height) if self.place else 0

    # -- what happens to the blocks

    def on_change(self, row: BlockRow) -> None:
        if not self.is_on and len(self._changed) < _MOST_MEASURED:
            self._changed[row] = None

    def on_remove(self, row: BlockRow) -> None:
        """A row will be removed; the one below it replaces it in the view."""
        self._changed.pop(row, None)
        if self.place is not None and self.place.row is row:
            self.place = LinePosition(row.below, 0) if row.below else None
        if self._last_seen[0] is row:
            above = row.above
            self._last_seen = (above, above.lines if above else 0)

    def on_insert(self, row: BlockRow) -> bool:
        """A row was put in; True if it was the beginning of the one below it until now.

        Text that is still being written is one row; what is finished of it becomes a row above.
        """
        below = row.below
        if below is None or self.is_on:
            return False
        if self._last_seen[0] is below:
            # Only what is being written is the last row, and what is put before it was in it.
            self._last_seen = (row, self._last_seen[1])
        text = self._layout.drawn(row).logical.text
        if not text or not self._layout.drawn(below).logical.text.startswith(text):
            return False
        if self.place is not None and self.place.row is below:
            self.place = LinePosition(row, self.place.line)
        return True

    def before_resize(self) -> None:
        """Remember the text on top: its line will be another one."""
        place = self.place
        if place is None or place.row.is_gone:
            self._wrapped_at = None
        elif self._wrapped_at is None or self._wrapped_at[0] is not place:
            # Kept from one width to the next: the text that was on top before the first.
            self._wrapped_at = (place, position_of(self._layout, place))

    def after_resize(self) -> None:
        if self._wrapped_at is None:
            return
        place, spot = self._wrapped_at
        if place.line >= place.row.gap:
            self.place = line_of(self._layout, spot)
            self._wrapped_at = (self.place, spot)

    # -- what is below

    def new_lines(self, end_of_view: int) -> int:
        """How many lines have come below the view since the end was left."""
        row, lines = self._last_seen
        if self.is_on or (row is not None and row.is_gone):
            return 0
        layout = self._layout
        seen = layout.top(row) + row.gap + lines if row else 0
        return max(0, layout.height - max(seen, end_of_view))


WIDTH = 1000
"""Columns to paint with where only the text counts: hardly a line is wrapped then."""


def text_of(layout: TranscriptLayout, row: BlockRow) -> str:
    """All text of a row, what is folded away too."""
    return row.block.text or layout.painted(row, WIDTH, expanded=True).text


def whole_text(layout: TranscriptLayout) -> str:
    """All of the transcript as plain text; the marks of the screen tell who says what."""
    parts: list[str] = []
    for row in layout.rows:
        text = text_of(layout, row).strip("\n")
        if text.strip():
            mark = "● " if row.block.is_tool_call else "› " * isinstance(row.block, UserBlock)
            parts.append("\n" * row.gap + mark + text + "\n")
    return "".join(parts).lstrip("\n")
