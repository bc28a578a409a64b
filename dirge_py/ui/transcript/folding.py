"""Opening and closing blocks of the transcript, one at a time."""

from typing import TYPE_CHECKING

from dirge_py.ui.transcript.layout import Place
from dirge_py.ui.transcript.rows import Row

if TYPE_CHECKING:
    from dirge_py.ui.transcript.view import Transcript


class Folding:
    """`toggle_at` remembers what it did: it may turn out to have been the first of two clicks."""

    def __init__(self, view: "Transcript") -> None:
        self._view = view
        self._toggled: tuple[Row, Place | None] | None = None

    def toggle_at(self, y: int) -> None:
        """Open or close the block that the line `y` of the view belongs to."""
        view = self._view
        found = view.layout_of_blocks.find(view.first_line + y)
        before = view.top_place
        if found is not None and self.toggle(found.row):
            self._toggled = (found.row, before)

    def untoggle(self) -> None:
        """Take the last `toggle_at` back, and show what was in view before."""
        toggled, self._toggled = self._toggled, None
        if toggled is None:
            return
        row, before = toggled
        self.toggle(row)
        if before is None:
            self._view.go_to_end()
        else:
            self._view.go_to(before)

    def toggle(self, row: Row) -> bool:
        """Open or close a block; False if there is nothing more of it to see."""
        if row.is_gone or not row.block.can_expand:
            return False
        self._set(row, is_open=not self.is_open(row))
        return True

    def open(self, row: Row) -> list[Row]:
        """Show all of a block, and what it belongs to; returns the rows that were closed."""
        layout, opened = self._view.layout_of_blocks, []
        group = row.block.group
        if group is not None and layout.is_hidden(row.block):
            opened.append(layout.rows.of(group))
        if row.block.can_expand and not self.is_open(row):
            opened.append(row)
        for each in opened:
            self._set(each, is_open=True)
        return opened

    def close(self, row: Row) -> None:
        if not row.is_gone and self.is_open(row):
            self._set(row, is_open=False)

    def is_open(self, row: Row) -> bool:
        return self._view.layout_of_blocks.is_open(row.block)

    def forget_click(self) -> None:
        """The last click was not the first of two."""
        self._toggled = None

    def _set(self, row: Row, *, is_open: bool) -> None:
        row.block.is_open = is_open
        self._view.layout_of_blocks.refold(row.block)
        self._view.refold(row)
