"""Where the view stands: at the end, which it follows, or at one line, which stays on top."""

from dirge_py.ui.transcript.layout import Layout, Place
from dirge_py.ui.transcript.rows import Row
from dirge_py.ui.transcript.spots import Spot, place_of, spot_of

_MOST_MEASURED = 16
"""Blocks below the view drawn for the count of new lines; more at once are guessed."""


class Following:
    """`place` is the line on top of the view; None while the end is followed.

    `would_follow`: the end was in view when `end` was told that it is held, and nobody has scrolled
    since.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.place: Place | None = None
        self.is_on = True
        self.would_follow = False
        self._last_seen: tuple[Row | None, int] = (None, 0)
        self._changed: dict[Row, None] = {}
        self._wrapped_at: tuple[Place, Spot] | None = None

    def begin(self) -> bool:
        """Follow the end; True if that is new."""
        was_on, self.is_on = self.is_on, True
        self.place, self.would_follow = None, False
        self._changed.clear()
        return not was_on

    def end(self, first_line: int, *, is_held: bool) -> bool:
        """Stay at the line that is on top; True if that is new."""
        was_on, self.is_on = self.is_on, False
        self.would_follow = is_held and (was_on or self.would_follow)
        if not was_on:
            return False
        self.place = self._layout.find(first_line)
        last = self._layout.rows.last
        self._last_seen = (last, last.lines if last else 0)
        return True

    def went_to(self, first_line: int) -> None:
        """The person has scrolled there."""
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

    def changed(self, row: Row) -> None:
        if not self.is_on and len(self._changed) < _MOST_MEASURED:
            self._changed[row] = None

    def row_goes(self, row: Row) -> None:
        """A row will be taken out; the one below it takes its place in the view."""
        self._changed.pop(row, None)
        if self.place is not None and self.place.row is row:
            self.place = Place(row.below, 0) if row.below else None
        if self._last_seen[0] is row:
            above = row.above
            self._last_seen = (above, above.lines if above else 0)

    def row_inserted(self, row: Row) -> bool:
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
            self.place = Place(row, self.place.line)
        return True

    def before_resize(self) -> None:
        """Remember the text on top: its line will be another one."""
        place = self.place
        if place is None or place.row.is_gone:
            self._wrapped_at = None
        elif self._wrapped_at is None or self._wrapped_at[0] is not place:
            # Kept from one width to the next: the text that was on top before the first.
            self._wrapped_at = (place, spot_of(self._layout, place))

    def after_resize(self) -> None:
        if self._wrapped_at is None:
            return
        place, spot = self._wrapped_at
        if place.line >= place.row.gap:
            self.place = place_of(self._layout, spot)
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
