"""The widget of the transcript: a single one for a conversation of any length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.lib.text import plural
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.terminal.app_base import ScreenAction
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import TranscriptBlock
from dirge_py.ui.transcript.layout import LinePosition
from dirge_py.ui.transcript.reading_cursor import ReadingCursor
from dirge_py.ui.transcript.search import TranscriptSearch
from dirge_py.ui.transcript.selection import MouseSelection, TranscriptView

_WIDEST = 120
"""Columns of prose at most, as longer lines are hard to read."""
_FRAMED_SCREENS = 3
"""Screens of framed lines that are kept."""


class TranscriptWidget(TranscriptView):
    """Draws the lines of a `TranscriptLayout` that are in view.

    It follows the end until the person scrolls up, selects or reads with the keyboard. Then the
    first line in view stays, whatever changes above or below. `redraw` shows changes of blocks.
    """

    ALLOW_SELECT = False
    FOCUS_ON_CLICK = False
    DEFAULT_CSS = """
    TranscriptWidget {
        height: 1fr; padding: 0 1; overflow: hidden scroll; scrollbar-size-vertical: 0;
        &:focus { border-left: outer $accent; padding: 0 1 0 0; }
    }
    """
    BINDINGS: ClassVar = []

    @dataclass
    class ReadingEnded(Message):
        """The person stopped reading, perhaps by typing the text `typed`."""

        typed: str = ""

    def __init__(self, styles: Styles, keymap: Keymap | None = None) -> None:
        super().__init__(styles)
        self._styles = styles
        self._keymap = keymap or Keymap()
        self._blocks = self.layout_of_blocks
        self.search = TranscriptSearch(self._blocks)
        self.reading = ReadingCursor(self)
        self._dragging = MouseSelection(self)
        self._is_moving = False
        self._changed_from: TranscriptBlock | None = None
        self._framed: dict[int, tuple[Strip, int, Color, Strip]] = {}
        """By identity of a line: the line, the width, the background and the framed line."""
        self._badge = ""
        """The count of new lines below the view, drawn over the end of its last line."""

    def add(self, block: TranscriptBlock) -> None:
        self._blocks.append(block)
        self._note_change(block)

    def prepend(self, blocks: Sequence[TranscriptBlock]) -> None:
        """Add blocks before all others."""
        self._blocks.prepend(blocks)

    def insert(self, before: TranscriptBlock, block: TranscriptBlock) -> None:
        self._blocks.insert(before, block)
        row = self._blocks.rows.of(block)
        if self.scroll_anchor.on_insert(row):
            self.selection.row_inserted(row)
            self.reading.row_inserted(row)
        self._note_change(block)

    def remove_block(self, block: TranscriptBlock) -> None:
        self.scroll_anchor.on_remove(self._blocks.rows.of(block))
        self._blocks.remove(block)
        if self._changed_from is block:
            self._changed_from = None
        self._changed_all = True

    def touch(self, block: TranscriptBlock) -> None:
        self._blocks.touch(block)
        self._note_change(block)

    def clear(self) -> None:
        self._blocks.clear()
        self.selection.drop()
        self.search.drop()
        self._changed_from = None
        self._follow(sticks=True)
        self._changed_all = True
        self.redraw()

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self._blocks.use_styles(styles)
        self._changed_all = True
        self.redraw()

    def toggle_all(self) -> None:
        """Open or close all blocks; the block at the top of the view stays there."""
        self._changed_all = True
        self._blocks.expand_all(not self._blocks.expanded)
        place = self.scroll_anchor.place
        if place is not None and place.row.block.can_expand:
            self.scroll_anchor.place = LinePosition(place.row, 0)
        self.redraw()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        if has_focus:
            self.hold()
            self.reading.begin()
            return
        self.reading.end()
        self.refresh()
        if self.selection.ends is None:
            self.resume_following()

    async def _on_key(self, event: events.Key) -> None:
        binding = self._keymap.action(event.key, "reading", "screen")
        typed = event.character if event.is_printable else None
        if binding is None and not typed:
            return
        event.stop().prevent_default()
        scope, action = binding or ("reading", "close")
        own = getattr(self.reading, action, None) if scope == "reading" else None
        if own is not None:
            own()
        elif (scope, action) == ("reading", "close"):
            self.post_message(self.ReadingEnded("" if binding else typed or ""))
        else:
            self.post_message(ScreenAction(action))

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(self.ReadingEnded(event.text))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and not self._is_at_badge(event):
            self._dragging.begin(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._dragging.extend(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragging.end()

    def on_click(self, event: events.Click) -> None:
        if event.button == 1 and self._is_at_badge(event):
            self.go_to_end()
        else:
            self._dragging.click(event)

    def redraw(self) -> None:
        height = self.lines_in_view
        if not self.is_mounted or height <= 0:
            return
        top = self.first_line
        with self._moving():
            if is_at_end := self.scroll_anchor.is_on:
                self._blocks.settle_end(height)
            first = top if is_at_end else self.scroll_anchor.settle(height, top)
            self._update_height()
            self.scroll_to(y=self.max_scroll_y if is_at_end else first, animate=False)
        self._refresh_changed(has_scrolled=self.first_line != top)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._is_moving or round(old_value) == round(new_value):
            return
        with self._moving():
            moved = self._blocks.settle(self.first_line, self.lines_in_view, round(old_value))
            self._update_height()
            if moved:
                self.scroll_to(y=self.first_line + moved, animate=False)
        is_at_end = self.first_line >= self.max_scroll_y
        is_held = self.has_focus or self.selection.ends is not None
        self._follow(sticks=is_at_end and not is_held, is_held=is_held and is_at_end)
        self.scroll_anchor.on_scrolled(self.first_line)
        self._count_new_lines()

    def _scroll_update(self, virtual_size: Size) -> None:
        # Textual may scroll when the sizes change.
        with self._moving():
            super()._scroll_update(virtual_size)

    def on_resize(self, event: events.Resize) -> None:
        self._changed_all = True
        self.scroll_anchor.before_resize()
        # One column stays free for the scrollbar, so that its appearance wraps no text again.
        width = max(1, self.content_size.width - 1)
        if self._blocks.resize(min(_WIDEST, width), width):
            self.scroll_anchor.after_resize()
        self.redraw()
        self.reading.stay_in_view()

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.has_focus:
            return super().render_lines(crop)
        # Textual would frame and filter each line again whenever the transcript has scrolled.
        if len(self._framed) > _FRAMED_SCREENS * crop.height:
            self._framed.clear()
        background = self.background_colors[1]
        edge = Style(bgcolor=background.rich_color)
        width, filters = self.outer_size.width, self.get_line_filters()
        top, content_width = self.first_line, self.scrollable_content_region.width
        framed: list[Strip] = []
        for y in crop.line_range:
            strip = self._line_at(y, top, content_width)
            known = self._framed.get(id(strip))
            if known is None or known[1:3] != (width, background):
                blanks = Segment(" ", edge), Segment(" " * (width - 1 - strip.cell_length), edge)
                line = Strip([blanks[0], *strip, blanks[1]], width)
                for each in filters:
                    line = line.apply_filter(each, background)
                known = self._framed[id(strip)] = (strip, width, background, line)
            framed.append(known[3].crop(crop.x, crop.right))
        return framed

    def render_line(self, y: int) -> Strip:
        return self._line_at(y, self.first_line, self.scrollable_content_region.width)

    def _line_at(self, y: int, top: int, width: int) -> Strip:
        """Return row `y` of the view, `width` cells long, if `top` is the first line in view."""
        styles = self._styles
        # Without colours the background of a selection isn't visible.
        pointed = CHOSEN if self.app.no_color else styles.selection
        place = self._blocks.find(top + y)
        line = place.line - place.row.gap if place else -1
        drawn = self._blocks.strip_at(place.row, line) if place else None
        if drawn is None:
            strip = Strip.blank(width, styles.text)
        else:
            strip = drawn.crop_extend(0, width, styles.text)
        if place is not None and drawn is not None:
            matches, chosen = self.search.columns_of(place.row, line)
            for begin, end in matches:
                strip = restyled(strip, begin, end, styles.selection + styles.strong)
            for begin, end in chosen:
                strip = restyled(strip, begin, end, CHOSEN)
            part = self.selection.part_of(place.row)
            columns = self._blocks.drawn(place.row).logical.cells_of(line, *part) if part else None
            if columns:
                strip = restyled(strip, *columns, pointed)
        cursor = self.reading.cursor
        if cursor is not None and cursor == place:
            strip = restyled(strip, 0, width, pointed + styles.strong)
        if not self._badge or y != self.lines_in_view - 1:
            return strip
        size = min(cell_len(self._badge), width)
        badge = Strip([Segment(self._badge, styles.accent + CHOSEN)]).crop(0, size)
        return Strip.join([strip.crop(0, width - size), badge])

    def _count_new_lines(self) -> None:
        """Update the badge, and draw it if it changed."""
        lines = self.scroll_anchor.new_lines(self.first_line + self.lines_in_view)
        text = f" ▼ {plural(lines, 'new line')} below " if lines else ""
        if text != self._badge:
            self._badge = text
            self.refresh(Region(0, self.lines_in_view - 1, self.size.width, 1))

    def _is_at_badge(self, event: events.MouseEvent) -> bool:
        is_last = event.y - self.gutter.top == self.lines_in_view - 1
        begin = self.scrollable_content_region.width - cell_len(self._badge)
        return bool(self._badge) and is_last and event.x - self.gutter.left >= begin

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Mark scrolling in the `with` block as dirge's own."""
        was_moving, self._is_moving = self._is_moving, True
        try:
            yield
        finally:
            self._is_moving = was_moving

    def _note_change(self, block: TranscriptBlock) -> None:
        """Remember the first block that changed: only the lines from there are drawn again."""
        changed = self._changed_from
        rows = self._blocks.rows
        if changed is None or rows.is_above(rows.of(block), rows.of(changed)):
            self._changed_from = block
        self.scroll_anchor.on_change(rows.of(block))

    def _refresh_changed(self, *, has_scrolled: bool) -> None:
        """Draw only the lines that changed, as each line has to be sent to the terminal."""
        changed, self._changed_from = self._changed_from, None
        is_all, self._changed_all = self._changed_all or has_scrolled, False
        self._count_new_lines()
        if is_all or changed is None:
            self.refresh()
            return
        first = max(0, self._blocks.top(self._blocks.rows.of(changed)) - self.first_line)
        width, height = self.size
        if first < height:
            self.refresh(Region(0, first, width, height - first))

    def _update_height(self) -> None:
        """Update the scrollbar; assigning `virtual_size` would lay out the whole screen."""
        size = Size(self.scrollable_content_region.width, self._blocks.height)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)


CHOSEN = Style(reverse=True)
"""The style of the chosen match and of the badge, which is visible without colours too."""


def restyled(strip: Strip, begin: int, end: int, style: Style) -> Strip:
    """Return the line with `style` added to the columns from `begin` to `end`."""
    if end <= begin:
        return strip
    inside = Strip(Segment.apply_style(strip.crop(begin, end), post_style=style))
    return Strip.join([strip.crop(0, begin), inside, strip.crop(end)])
