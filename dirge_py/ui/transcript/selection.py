"""Selecting text of the transcript, and opening and closing its blocks, with the mouse.

A selection is a stretch of text, however it is drawn and wherever.
"""

from typing import Literal

from textual import events
from textual.scroll_view import ScrollView
from textual.timer import Timer

from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.layout import BlockRow, LinePosition, TranscriptLayout
from dirge_py.ui.transcript.positions import (
    ScrollAnchor,
    TextPosition,
    after_insertion,
    is_before,
    position_at,
    position_of,
    texts_between,
)

Unit = Literal["character", "word", "line"]

_SCROLLS_EVERY_S = 0.05
_FASTEST = 8
"""Lines scrolled at once, however far the mouse has gone."""


class TextSelection:
    """The selected text, from where selecting began to where it is now, in either order."""

    def __init__(self, layout: TranscriptLayout) -> None:
        self._layout = layout
        self._ends: tuple[TextPosition, TextPosition] | None = None

    @property
    def ends(self) -> tuple[TextPosition, TextPosition] | None:
        """First and last spot; None if nothing is selected."""
        if self._ends is None or any(spot.row.is_gone for spot in self._ends):
            return None
        begin, end = self._ends
        if begin == end:
            return None
        return (end, begin) if is_before(self._layout, end, begin) else (begin, end)

    def set(self, begin: TextPosition, end: TextPosition) -> None:
        self._ends = (begin, end)

    def drop(self) -> None:
        self._ends = None

    def select_around(self, spot: TextPosition, unit: Unit) -> None:
        """Select the word or the line, as it was written, at a spot."""
        logical = self._layout.drawn(spot.row).logical
        around = logical.word_around if unit == "word" else logical.line_around
        begin, end = around(min(spot.offset, len(logical.text)))
        self.set(TextPosition(spot.row, begin), TextPosition(spot.row, end))

    @property
    def text(self) -> str:
        """What was written there; empty if nothing is selected."""
        ends = self.ends
        if ends is None:
            return ""
        return "".join(texts_between(self._layout, *ends)).strip("\n")

    def part_of(self, row: BlockRow) -> tuple[int, int] | None:
        """Which part of a row's text is selected; None if nothing of it is."""
        ends = self.ends
        if ends is None:
            return None
        first, last = ends
        rows = self._layout.rows
        if row is not first.row and rows.is_above(row, first.row):
            return None
        if row is not last.row and rows.is_above(last.row, row):
            return None
        end = last.offset if row is last.row else len(self._layout.drawn(row).logical.text)
        return (first.offset if row is first.row else 0), end

    def row_inserted(self, row: BlockRow) -> None:
        """Move with text that has become this row from the beginning of the one below."""
        if self._ends is not None and any(spot.row is row.below for spot in self._ends):
            begin, end = (
                after_insertion(self._layout, spot, row) if spot.row is row.below else spot
                for spot in self._ends
            )
            self._ends = (begin, end)


class TranscriptView(ScrollView, can_focus=True):
    """The base of the transcript's widget: what selecting, reading and folding use of it."""

    def __init__(self, styles: Styles) -> None:
        super().__init__(id="transcript")
        self.layout_of_blocks = TranscriptLayout(styles)
        self.scroll_anchor = ScrollAnchor(self.layout_of_blocks)
        self.selection = TextSelection(self.layout_of_blocks)
        self.folding = BlockToggle(self)

    @property
    def first_line(self) -> int:
        """The height of the first line in view."""
        return self.scroll_offset.y

    @property
    def lines_in_view(self) -> int:
        return self.scrollable_content_region.height

    @property
    def page_lines(self) -> int:
        """Lines of a page, of which two of the last one stay in view."""
        return max(1, self.lines_in_view - 2)

    def scroll_lines(self, count: int) -> None:
        self.scroll_to(y=self.first_line + count, animate=False)

    def show(self, spot: TextPosition, *, around: int = 0) -> None:
        """Scroll so far that a spot is in view, with `around` lines on both sides of it."""

    def go_to(self, place: LinePosition) -> None:
        """Show this line at the top, or as near to it as there are lines below."""

    def go_to_end(self) -> None:
        """Follow the end from now on."""

    def hold(self) -> None:
        """Stay here, though the end may be in view: the person points at something."""

    def resume_following(self) -> None:
        """Follow the end again, if only `hold` has kept from it."""

    def drop_selection(self) -> None:
        """Select nothing, and follow the end again if only the selection has kept from it."""

    def refold(self, row: BlockRow) -> None:
        """A block was opened or closed; its first line stays in view if it was on top."""


class MouseSelection:
    """Selects with the mouse, from where the button goes down; a click opens or closes a block."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view
        self._from: tuple[LinePosition, int] | None = None
        self._at = (0, 0)
        self._has_moved = False
        self._has_dropped = False
        self._timer: Timer | None = None

    def begin(self, event: events.MouseDown) -> None:
        view = self._view
        y, x = self._at = self._where(event)
        place = view.layout_of_blocks.find(view.first_line + y)
        self._has_dropped = view.selection.ends is not None
        # The view stays, even where it would follow the end now: the mouse points at what is seen.
        view.selection.drop()
        view.refresh()
        self._has_moved = False
        if place is not None:
            self._from = (place, x)
            view.capture_mouse()

    def extend(self, event: events.MouseMove) -> None:
        if self._from is None:
            return
        if event.button == 0:
            # The button was released where the terminal does not report it.
            self.end()
            return
        at = self._where(event)
        if at == self._at and not self._has_moved:
            return
        if not self._has_moved:
            self._has_moved = True
            self._view.hold()
        self._at = at
        self._extend()
        if not self._lines_beyond:
            self._stop_scrolling()
        elif self._timer is None:
            self._timer = self._view.set_interval(_SCROLLS_EVERY_S, self._scroll)

    def end(self) -> None:
        if self._from is not None:
            self._from = None
            self._view.release_mouse()
        self._stop_scrolling()

    def click(self, event: events.Click) -> None:
        """A button went down and up in one place: once, or several times in a row."""
        view = self._view
        if self._has_moved or event.button != 1:
            return
        if event.chain == 1:
            if self._has_dropped:
                view.folding.forget_click()
                view.resume_following()
            else:
                view.folding.toggle_at(self._where(event)[0])
            return
        view.folding.untoggle()
        y, x = self._where(event)
        spot = position_at(view.layout_of_blocks, view.first_line + y, x)
        if spot is not None:
            view.hold()
            view.selection.select_around(spot, "word" if event.chain == 2 else "line")
            view.refresh()

    def _where(self, event: events.MouseEvent) -> tuple[int, int]:
        """Line and column in the view, which may lie outside of it."""
        gutter = self._view.gutter
        return int(event.y) - gutter.top, int(event.x) - gutter.left

    @property
    def _lines_beyond(self) -> int:
        """How far the mouse is above the view, which is below 0, or below it."""
        line, last = self._at[0], self._view.lines_in_view - 1
        if line <= 0 and self._view.region.y == 0:
            # There is nothing above the screen that the mouse could go to.
            return line - 1
        return line if line < 0 else max(0, line - last)

    def _scroll(self) -> None:
        self._view.scroll_lines(max(-_FASTEST, min(_FASTEST, self._lines_beyond)))
        self._extend()

    def _stop_scrolling(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _extend(self) -> None:
        """Select from where the button went down to the mouse, both characters included."""
        assert self._from is not None
        place, x = self._from
        view = self._view
        if place.row.is_gone:
            return
        line = max(0, min(self._at[0], view.lines_in_view - 1))
        y = view.first_line + line
        column = self._at[1]
        if self._at[0] != line:
            column = 0 if self._at[0] < 0 else view.size.width
        layout = view.layout_of_blocks
        here = position_at(layout, y, column)
        behind = position_at(layout, y, column + 1)
        start = position_of(layout, place, x)
        if here is None or behind is None:
            return
        if is_before(layout, here, start):
            view.selection.set(position_of(layout, place, x + 1), here)
        else:
            view.selection.set(start, behind)
        view.refresh()


class BlockToggle:
    """Opens and closes blocks. `toggle_at` can be undone: it may be the first of two clicks."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view
        self._toggled: tuple[BlockRow, LinePosition | None] | None = None

    def forget_click(self) -> None:
        """The last click was not the first of two."""
        self._toggled = None

    def toggle_at(self, y: int) -> None:
        """Open or close the block that the line `y` of the view belongs to."""
        view, self._toggled = self._view, None
        place = view.layout_of_blocks.find(view.first_line + y)
        before = view.scroll_anchor.place
        if place is not None and self.toggle(place.row):
            self._toggled = (place.row, before)

    def untoggle(self) -> None:
        """Undo the last `toggle_at`, and show what was in view before."""
        toggled, self._toggled = self._toggled, None
        if toggled is None:
            return
        row, before = toggled
        self.toggle(row)
        if before is None:
            self._view.go_to_end()
        else:
            self._view.go_to(before)

    def toggle(self, row: BlockRow) -> bool:
        """Open or close a block; False if there is nothing more of it to see."""
        if row.is_gone or not row.block.can_expand:
            return False
        self._set(row, is_open=not self.is_open(row))
        return True

    def open(self, row: BlockRow) -> list[BlockRow]:
        """Show all of a block, and what it belongs to; returns the rows that were closed."""
        layout, opened = self._view.layout_of_blocks, []
        group = row.block.group
        if group is not None and layout.is_hidden(row.block):
            opened.append(layout.rows.of(group))
        if row.block.can_expand and not self.is_open(row):
            opened.append(row)
        for closed in opened:
            self._set(closed, is_open=True)
        return opened

    def close(self, row: BlockRow) -> None:
        if not row.is_gone and self.is_open(row):
            self._set(row, is_open=False)

    def is_open(self, row: BlockRow) -> bool:
        return self._view.layout_of_blocks.is_open(row.block)

    def _set(self, row: BlockRow, *, is_open: bool) -> None:
        row.block.is_open = is_open
        self._view.layout_of_blocks.refold(row.block)
        self._view.refold(row)
