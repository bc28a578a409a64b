"""Positions in the text of the transcript, whatever its width; the scroll anchor; plain text."""

from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.transcript.blocks import UserBlock
from dirge_py.ui.transcript.layout import BlockRow, LinePosition, TranscriptLayout

_MOST_PAINTED = 1_000
"""Rows that are painted for their text, in about half a second."""


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A position before a character of a row's logical text."""

    row: BlockRow
    offset: int


def position_at(layout: TranscriptLayout, y: int, cell: int = 0) -> TextPosition | None:
    """Return the position at a height and a column; at the end beyond it; None without text."""
    place = layout.find(y)
    if place is None:
        last = layout.rows.last
        return TextPosition(last, len(layout.drawn(last).logical.text)) if last else None
    return position_of(layout, place, cell)


def position_of(layout: TranscriptLayout, place: LinePosition, cell: int = 0) -> TextPosition:
    """Return the position in a line of a row; that of its start for a blank line above it."""
    line = place.line - place.row.gap
    if line < 0:
        return TextPosition(place.row, 0)
    return TextPosition(place.row, layout.drawn(place.row).logical.offset_at(line, cell))


def line_of(layout: TranscriptLayout, spot: TextPosition) -> LinePosition:
    """Return the line that shows a position."""
    layout.settle_row(spot.row)
    logical = layout.drawn(spot.row).logical
    line = logical.line_of(min(spot.offset, len(logical.text)))
    return LinePosition(spot.row, spot.row.gap + line)


def is_before(layout: TranscriptLayout, spot: TextPosition, other: TextPosition) -> bool:
    if spot.row is other.row:
        return spot.offset < other.offset
    return layout.rows.is_above(spot.row, other.row)


def texts_between(
    layout: TranscriptLayout, first: TextPosition, last: TextPosition
) -> Iterator[str]:
    """Yield the text between two positions, with wrapped lines joined."""
    row: BlockRow | None = first.row
    count = 0
    while row is not None:
        count += 1
        is_end = row in (first.row, last.row)
        if not is_end and count > _MOST_PAINTED and row.block.text:
            if not layout.is_hidden(row.block):
                yield "\n" * (row.gap + 1) + row.block.text.strip("\n")
        elif is_end or not layout.is_hidden(row.block):
            text = layout.drawn(row).logical.text
            if row is not first.row:
                layout.settle_row(row)
                yield "\n" * (row.gap + bool(row.lines))
            begin = first.offset if row is first.row else 0
            yield text[begin : last.offset if row is last.row else len(text)]
        row = None if row is last.row else row.below


def after_insertion(
    layout: TranscriptLayout, spot: TextPosition | None, row: BlockRow
) -> TextPosition | None:
    """Return the position after the start of the text of the row below became this row."""
    if spot is None or spot.row is not row.below:
        return spot
    moved = len(layout.drawn(row).logical.text)
    if spot.offset <= moved:
        return TextPosition(row, spot.offset)
    # A blank line separated the two parts in the text.
    return TextPosition(spot.row, max(0, spot.offset - moved - 2))


_MOST_MEASURED = 16
"""Changed blocks that are drawn to count new lines exactly; more are guessed."""


class ScrollAnchor:
    """What the view keeps in place: the end, while `is_on`, or the line `place` at its top.

    `would_follow`: the view was at the end when it was held, and hasn't been scrolled since.
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
        """Follow the end; return whether that is new."""
        was_on, self.is_on = self.is_on, True
        self.place, self.would_follow = None, False
        self._changed.clear()
        return not was_on

    def stay(self, first_line: int, *, is_held: bool) -> bool:
        """Stay at the line at the top of the view; return whether that is new."""
        was_on, self.is_on = self.is_on, False
        self.would_follow = is_held and (was_on or self.would_follow)
        if not was_on:
            return False
        self.place = self._layout.find(first_line)
        last = self._layout.rows.last
        self._last_seen = (last, last.lines if last else 0)
        return True

    def on_scrolled(self, first_line: int) -> None:
        """Stay at the line that the person scrolled to."""
        if not self.is_on:
            self.place = self._layout.find(first_line)

    def settle(self, height: int, first_line: int) -> int:
        """Draw the lines in view; return the height of the first one."""
        for row in self._changed:
            self._layout.settle_row(row)
        self._changed.clear()
        if self.place is None or self.place.row.is_gone:
            self.place = self._layout.find(min(first_line, max(0, self._layout.height - height)))
        return self._layout.settle_at(self.place, height) if self.place else 0

    def on_change(self, row: BlockRow) -> None:
        if not self.is_on and len(self._changed) < _MOST_MEASURED:
            self._changed[row] = None

    def on_remove(self, row: BlockRow) -> None:
        """Keep the row below in place of one that is being removed."""
        self._changed.pop(row, None)
        if self.place is not None and self.place.row is row:
            self.place = LinePosition(row.below, 0) if row.below else None
        if self._last_seen[0] is row:
            above = row.above
            self._last_seen = (above, above.lines if above else 0)

    def on_insert(self, row: BlockRow) -> bool:
        """Follow an insertion; return whether the row was the start of the one below it.

        Streamed text is a single row; its finished parts are moved into rows above it.
        """
        below = row.below
        if below is None or self.is_on:
            return False
        if self._last_seen[0] is below:
            # Only streamed text is the last row, and the inserted row was a part of it.
            self._last_seen = (row, self._last_seen[1])
        text = self._layout.drawn(row).logical.text
        if not text or not self._layout.drawn(below).logical.text.startswith(text):
            return False
        if self.place is not None and self.place.row is below:
            self.place = LinePosition(row, self.place.line)
        return True

    def before_resize(self) -> None:
        """Remember the text at the top of the view, as its line number will change."""
        place = self.place
        if place is None or place.row.is_gone:
            self._wrapped_at = None
        elif self._wrapped_at is None or self._wrapped_at[0] is not place:
            # Over several resizes, the text that was at the top before the first stays.
            self._wrapped_at = (place, position_of(self._layout, place))

    def after_resize(self) -> None:
        if self._wrapped_at is None:
            return
        place, spot = self._wrapped_at
        if place.line >= place.row.gap:
            self.place = line_of(self._layout, spot)
            self._wrapped_at = (self.place, spot)

    def new_lines(self, end_of_view: int) -> int:
        """Count the lines added below the view since it left the end."""
        row, lines = self._last_seen
        if self.is_on or (row is not None and row.is_gone):
            return 0
        layout = self._layout
        seen = layout.top(row) + row.gap + lines if row else 0
        return max(0, layout.height - max(seen, end_of_view))


WIDTH = 1000
"""Columns for painting when only the text matters, so that hardly any line is wrapped."""


def whole_text(layout: TranscriptLayout) -> str:
    """Return the transcript as plain text, with the marks of prompts and tool calls."""
    parts: list[str] = []
    for row in layout.rows:
        text = row.block.text or layout.painted(row, WIDTH, expanded=True).text
        text = text.strip("\n")
        if text.strip():
            mark = "● " if row.block.is_tool_call else "› " * isinstance(row.block, UserBlock)
            parts.append("\n" * row.gap + mark + text + "\n")
    return "".join(parts).lstrip("\n")
