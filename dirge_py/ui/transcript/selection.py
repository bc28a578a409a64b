"""Scrolling and selecting with the mouse, and opening and closing blocks of the transcript."""

from typing import Literal

from textual import events
from textual.scroll_view import ScrollView
from textual.timer import Timer

from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript import positions
from dirge_py.ui.transcript.blocks import TranscriptBlock, groups_of
from dirge_py.ui.transcript.layout import BlockRow, LinePosition, TranscriptLayout
from dirge_py.ui.transcript.positions import TextPosition

Unit = Literal["character", "word", "line"]

_SCROLLS_EVERY_S = 0.05
_FASTEST = 8
"""Lines scrolled at once at most."""


class TextSelection:
    """The selected range of text."""

    def __init__(self, layout: TranscriptLayout) -> None:
        self._layout = layout
        self._begin: TextPosition | None = None
        self._end: TextPosition | None = None

    @property
    def ends(self) -> tuple[TextPosition, TextPosition] | None:
        """Start and end; None if nothing is selected."""
        begin, end = self._begin, self._end
        if begin is None or end is None or begin == end or begin.row.is_gone or end.row.is_gone:
            return None
        return (end, begin) if positions.is_before(self._layout, end, begin) else (begin, end)

    def set(self, begin: TextPosition, end: TextPosition) -> None:
        self._begin, self._end = begin, end

    def drop(self) -> None:
        self._begin = self._end = None

    def select_around(self, spot: TextPosition, unit: Unit) -> None:
        """Select the word or the unwrapped line at a position."""
        logical = self._layout.drawn(spot.row).logical
        around = logical.word_around if unit == "word" else logical.line_around
        begin, end = around(min(spot.offset, len(logical.text)))
        self.set(TextPosition(spot.row, begin), TextPosition(spot.row, end))

    @property
    def text(self) -> str:
        """The selected text; "" if nothing is selected."""
        ends = self.ends
        return "".join(positions.texts_between(self._layout, *ends)).strip("\n") if ends else ""

    def part_of(self, row: BlockRow) -> tuple[int, int] | None:
        """Return start and end of the selection in a row's text; None if the row has none of it."""
        ends = self.ends
        if ends is None:
            return None
        (first, last), rows = ends, self._layout.rows
        if rows.is_above(row, first.row) or rows.is_above(last.row, row):
            return None
        end = last.offset if row is last.row else len(self._layout.drawn(row).logical.text)
        return (first.offset if row is first.row else 0), end

    def row_inserted(self, row: BlockRow) -> None:
        """Move with text that was moved into this row from the one below."""
        self._begin = positions.after_insertion(self._layout, self._begin, row)
        self._end = positions.after_insertion(self._layout, self._end, row)


class TranscriptView(ScrollView, can_focus=True):
    """The scrolling part of the transcript's widget, which selecting, reading and folding use."""

    def __init__(self, styles: Styles) -> None:
        super().__init__(id="transcript")
        self.layout_of_blocks = TranscriptLayout(styles)
        self.scroll_anchor = positions.ScrollAnchor(self.layout_of_blocks)
        self.selection = TextSelection(self.layout_of_blocks)
        self._changed_all = True

    @property
    def first_line(self) -> int:
        """The height of the first line in view."""
        return self.scroll_offset.y

    @property
    def lines_in_view(self) -> int:
        return self.scrollable_content_region.height

    @property
    def page_lines(self) -> int:
        """Lines of a page; the next page shows two lines of this one."""
        return max(1, self.lines_in_view - 2)

    def scroll_lines(self, count: int) -> None:
        self.scroll_to(y=self.first_line + count, animate=False)

    def toggle_block(self, row: BlockRow) -> bool:
        """Open or close a block; return False if it hides nothing."""
        if row.is_gone or not row.block.can_expand:
            return False
        self._set_open(row, is_open=not self.layout_of_blocks.is_open(row.block))
        return True

    def open_block(self, row: BlockRow) -> list[BlockRow]:
        """Open a block and its groups; return the rows that were closed before."""
        layout, block = self.layout_of_blocks, row.block
        groups = reversed(groups_of(block))
        opened = [layout.rows.of(group) for group in groups if not layout.is_open(group)]
        if block.can_expand and not layout.is_open(block):
            opened.append(row)
        for closed in opened:
            self._set_open(closed, is_open=True)
        return opened

    def close_block(self, row: BlockRow) -> None:
        if not row.is_gone and self.layout_of_blocks.is_open(row.block):
            self._set_open(row, is_open=False)

    def _set_open(self, row: BlockRow, *, is_open: bool) -> None:
        """Redraw a block in its other form; it stays at the top if it was there."""
        row.block.is_open = is_open
        self.layout_of_blocks.refold(row.block)
        self.touch(row.block)
        if is_open:
            self._follow(sticks=False)
        place = self.scroll_anchor.place
        if place is not None and place.row is row:
            self.scroll_anchor.place = LinePosition(row, min(place.line, row.gap))
        self.redraw()

    def drop_selection(self) -> None:
        """Select nothing, and follow the end again if only the selection has stopped that."""
        if self.selection.ends is not None:
            self.selection.drop()
            self.refresh()
            self.resume_following()

    def hold(self) -> None:
        """Stay, even if the end is in view, as the person points at something."""
        self._follow(sticks=False, is_held=True)

    def resume_following(self) -> None:
        """Follow the end again if only `hold` has stopped that."""
        if self.scroll_anchor.would_follow and not self.has_focus:
            self.go_to_end()

    def _follow(self, *, sticks: bool, is_held: bool = False) -> None:
        """Start or stop following the end; while it follows, no scrollbar has to be drawn."""
        if sticks:
            changes = self.scroll_anchor.follow_end()
        else:
            changes = self.scroll_anchor.stay(self.first_line, is_held=is_held)
        if changes:
            self.styles.scrollbar_size_vertical = 0 if sticks else 1
            self._changed_all = True

    def go_to_start(self) -> None:
        self.scroll_to(y=0, animate=False)

    def go_to_end(self) -> None:
        """Follow the end from now on."""
        self.go_to(None)

    def go_to(self, place: LinePosition | None) -> None:
        """Show this line at the top of the view, or as near to it as possible; None: the end."""
        self._follow(sticks=place is None)
        if place is not None:
            self.scroll_anchor.place = place
            self._changed_all = True
        self.redraw()

    def show(self, spot: TextPosition, *, around: int = 0) -> None:
        """Scroll a position into view, with `around` lines above and below it."""
        place = positions.line_of(self.layout_of_blocks, spot)
        y = self.layout_of_blocks.top(place.row) + place.line
        first, height = self.first_line, self.lines_in_view
        if not height:
            return  # A question covers the transcript.
        around = min(around, (height - 1) // 2)
        if y < first + around:
            first = y - around
        elif y >= first + height - around:
            first = y - height + 1 + around
        else:
            return
        top = self.layout_of_blocks.find(first)
        if top is not None:
            self.go_to(top)

    def touch(self, block: TranscriptBlock) -> None:
        """Note a change of a block."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Show the changes of blocks."""
        raise NotImplementedError


class MouseSelection:
    """Selects text by dragging or double clicks; a click opens or closes a block."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view
        self._from: tuple[LinePosition, int] | None = None
        self._at = (0, 0)
        self._has_moved = self._has_dropped = False
        self._timer: Timer | None = None
        self._toggled: tuple[BlockRow, LinePosition | None] | None = None

    def begin(self, event: events.MouseDown) -> None:
        view = self._view
        y, x = self._at = self._where(event)
        place = view.layout_of_blocks.find(view.first_line + y)
        self._has_dropped = view.selection.ends is not None
        # The view doesn't follow the end again, as the person points at something.
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
            # The button was released outside of the terminal.
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
        view = self._view
        if self._has_moved or event.button != 1:
            return
        y, x = self._where(event)
        toggled, self._toggled = self._toggled, None
        if event.chain == 1:
            place = view.layout_of_blocks.find(view.first_line + y)
            before = view.scroll_anchor.place
            if self._has_dropped:
                view.resume_following()
            elif place is not None and view.toggle_block(place.row):
                self._toggled = (place.row, before)
            return
        if toggled is not None:
            # The first click of a double click is undone.
            view.toggle_block(toggled[0])
            view.go_to(toggled[1])
        spot = positions.position_at(view.layout_of_blocks, view.first_line + y, x)
        if spot is not None:
            view.hold()
            view.selection.select_around(spot, "word" if event.chain == 2 else "line")
            view.refresh()

    def _where(self, event: events.MouseEvent) -> tuple[int, int]:
        gutter = self._view.gutter
        return int(event.y) - gutter.top, int(event.x) - gutter.left

    @property
    def _lines_beyond(self) -> int:
        """Lines from the view to the mouse: negative above it, positive below it."""
        line, last = self._at[0], self._view.lines_in_view - 1
        if line <= 0 and self._view.region.y == 0:
            # The mouse can't leave the screen at its top.
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
        assert self._from is not None
        place, x = self._from
        view = self._view
        if place.row.is_gone:
            return
        at, column = self._at
        line = max(0, min(at, view.lines_in_view - 1))
        y = view.first_line + line
        if at != line:
            column = 0 if at < 0 else view.size.width
        layout = view.layout_of_blocks
        here = positions.position_at(layout, y, column)
        behind = positions.position_at(layout, y, column + 1)
        start = positions.position_of(layout, place, x)
        if here is None or behind is None:
            return
        if positions.is_before(layout, here, start):
            view.selection.set(positions.position_of(layout, place, x + 1), here)
        else:
            view.selection.set(start, behind)
        view.refresh()
