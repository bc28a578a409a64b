"""Reading with the keyboard: a cursor that moves by lines, blocks and landmarks."""

from functools import partialmethod
from typing import Literal

from dirge_py.ui.transcript import positions
from dirge_py.ui.transcript.layout import BlockRow, LinePosition
from dirge_py.ui.transcript.positions import TextPosition
from dirge_py.ui.transcript.selection import TranscriptView


class ReadingCursor:
    """A cursor in the transcript. Each action of the scope `reading` is one of its methods."""

    def __init__(self, view: TranscriptView) -> None:
        self._view, self._layout = view, view.layout_of_blocks
        self._cursor: TextPosition | None = None
        self._selects_from: TextPosition | None = None

    @property
    def cursor(self) -> LinePosition | None:
        """The line of the cursor; None without the focus."""
        if self._cursor is None or not self._view.has_focus:
            return None
        if self._cursor.row.is_gone:
            middle = self._view.first_line + self._view.lines_in_view // 2
            self.put(positions.position_at(self._layout, middle))
        return positions.line_of(self._layout, self._cursor) if self._cursor else None

    @property
    def spot(self) -> TextPosition | None:
        return self._cursor if self.cursor is not None else None

    def begin(self) -> None:
        """Show the cursor where it was before, or on the last line in view."""
        place = self.cursor
        y = self._layout.top(place.row) + place.line if place else -1
        if not self._view.first_line <= y < self._view.first_line + self._view.lines_in_view:
            last = min(self._view.first_line + self._view.lines_in_view, self._layout.height) - 1
            self.put(self._spot_up_from(last))

    def stay_in_view(self) -> None:
        """Move the cursor back into a view that became smaller."""
        place = self.cursor
        if place is None:
            return
        y = self._layout.top(place.row) + place.line
        first, last = self._view.first_line, self._view.first_line + self._view.lines_in_view - 1
        if y > last:
            self.put(self._spot_up_from(last))
        elif y < first:
            self.put(positions.position_at(self._layout, first))

    def end(self) -> None:
        self._selects_from = None

    def put(self, spot: TextPosition | None) -> None:
        """Move the cursor to a position, and scroll there."""
        self._cursor = spot
        if spot is not None:
            self._view.show(spot)
            if self._selects_from is not None:
                self._select_to(spot)
        self._view.refresh()

    def follow(self, spot: TextPosition) -> None:
        """Move the cursor to a match, without scrolling."""
        self._cursor = spot

    def row_inserted(self, row: BlockRow) -> None:
        """Move with text that was moved into this row from the one below."""
        self._cursor = positions.after_insertion(self._layout, self._cursor, row)
        self._selects_from = positions.after_insertion(self._layout, self._selects_from, row)

    def page_up(self) -> None:
        self._move(-self._view.page_lines)

    def page_down(self) -> None:
        self._move(self._view.page_lines)

    def go_to_start(self) -> None:
        self.put(positions.position_at(self._layout, 0))

    def go_to_end(self) -> None:
        self._layout.settle_end(self._view.lines_in_view)
        self.put(positions.position_at(self._layout, self._layout.height - 1))

    def previous_block(self) -> None:
        """Go to the start of this block, or of the previous one."""
        place = self.cursor
        if place is not None and place.line > place.row.gap:
            self.put(TextPosition(place.row, 0))
        elif place is not None:
            self._go_to_block("above", place.row)

    def next_block(self) -> None:
        if place := self.cursor:
            self._go_to_block("below", place.row)

    def toggle(self) -> None:
        place = self.cursor
        if place is not None and self._view.toggle_block(place.row):
            self.put(TextPosition(place.row, 0))

    def select(self) -> None:
        """Start or stop selecting at the cursor."""
        spot = self.spot
        if self._selects_from is not None or spot is None:
            self._selects_from = None
            self._view.drop_selection()
            return
        self._selects_from = spot
        self._select_to(spot)
        self._view.refresh()

    def select_up(self) -> None:
        self._selects_from = self._selects_from or self.spot
        self.line_up()

    def select_down(self) -> None:
        self._selects_from = self._selects_from or self.spot
        self.line_down()

    def pop_selected_text(self) -> str:
        """Return the selected text, or the unwrapped line at the cursor; stop selecting."""
        selection, spot = self._view.selection, self.spot
        if selection.ends is None and spot is not None:
            selection.select_around(spot, "line")
        text = selection.text
        self._selects_from = None
        self._view.drop_selection()
        return text

    def _move(self, lines: int) -> None:
        place = self.cursor
        if place is None:
            return
        layout = self._layout
        y = max(0, min(layout.top(place.row) + place.line + lines, layout.height - 1))
        to = layout.find(y)
        if to is not None and to.line < to.row.gap:
            # The blank line above a block belongs to no block.
            y += 1 if lines > 0 or y == 0 else -1
            to = layout.find(y)
        if to is not None:
            layout.settle_row(to.row)
            self.put(positions.position_of(layout, to))

    line_up = partialmethod(_move, -1)
    line_down = partialmethod(_move, 1)

    def _spot_up_from(self, y: int) -> TextPosition | None:
        """Return the position at a height, or above it if that line is blank."""
        place = self._layout.find(y)
        is_blank = place is not None and place.line < place.row.gap
        return positions.position_at(self._layout, y - 1 if is_blank else y)

    def _select_to(self, spot: TextPosition) -> None:
        begin = self._selects_from
        if begin is None or begin.row.is_gone:
            return

        def line_around(at: TextPosition) -> tuple[TextPosition, TextPosition]:
            logical = self._layout.drawn(at.row).logical
            line = logical.line_of(at.offset)
            start, end = logical.start_of(line), logical.end_of(line)
            return TextPosition(at.row, start), TextPosition(at.row, end)

        (here, behind_here), (there, behind_there) = line_around(begin), line_around(spot)
        if positions.is_before(self._layout, there, here):
            self._view.selection.set(behind_here, there)
        else:
            self._view.selection.set(here, behind_there)

    def _go_to_landmark(self, step: int) -> None:
        place = self.cursor
        row: BlockRow | None = place.row if place else None
        line = place.line - place.row.gap if place else 0
        while row is not None:
            drawn = self._layout.drawn(row)
            marks = [mark for mark in drawn.landmarks if mark < len(drawn.strips)]
            ahead = [mark for mark in marks if (mark - line) * step > 0]
            if ahead:
                self._layout.settle_row(row)
                landmark = LinePosition(row, row.gap + ahead[0 if step > 0 else -1])
                self.put(positions.position_of(self._layout, landmark))
                return
            row, line = (row.below, -1) if step > 0 else (row.above, 1 << 30)

    previous_landmark = partialmethod(_go_to_landmark, -1)
    next_landmark = partialmethod(_go_to_landmark, 1)

    def _go_to_block(self, side: Literal["above", "below"], start: BlockRow) -> None:
        row: BlockRow | None = getattr(start, side)
        while row is not None:
            self._layout.settle_row(row)
            if row.lines > 0:
                self.put(TextPosition(row, 0))
                return
            row = getattr(row, side)
