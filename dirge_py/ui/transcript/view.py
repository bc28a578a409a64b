"""The transcript's widget: one, however long the conversation is."""

from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import Block
from dirge_py.ui.transcript.layout import Layout

_WIDEST = 120
"""Text wider than this is hard to read; a wider terminal keeps blank margins."""


class Transcript(ScrollView, can_focus=False):
    """Draws the lines of a `Layout` that are in view.

    It stays at the end while new text comes, until the person scrolls up; then it stays where it
    is. Blocks are added and changed at will, `redraw` shows the changes.
    """

    DEFAULT_CSS = """
    Transcript {
        height: 1fr;
        padding: 0 1;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 0;
    }
    """
    BINDINGS: ClassVar = []

    def __init__(self, ink: Ink) -> None:
        super().__init__(id="transcript")
        self._ink = ink
        self._blocks = Layout(ink)
        self._sticks = True
        self._is_moving = False
        self._changed_from: Block | None = None
        self._changed_all = True

    # -- the blocks (chronicle.Page)

    @property
    def layout_of_blocks(self) -> Layout:
        return self._blocks

    def add(self, block: Block) -> None:
        self._blocks.append(block)
        self._note_change(block)

    def insert(self, before: Block, block: Block) -> None:
        self._blocks.insert(before, block)
        self._note_change(block)

    def remove_block(self, block: Block) -> None:
        self._blocks.remove(block)
        self._changed_all = True

    def touch(self, block: Block) -> None:
        self._blocks.touch(block)
        self._note_change(block)

    def clear(self) -> None:
        self._blocks.clear()
        self._follow(sticks=True)
        self._changed_all = True
        self.redraw()

    # -- looks

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self._blocks.set_ink(ink)
        self._changed_all = True
        self.redraw()

    def toggle_all(self) -> None:
        """Show everything, or only the short forms. The lines in view stay about where they are."""
        first = self._blocks.index_at(self.scroll_offset.y)
        self._changed_all = True
        self._blocks.expand_all(not self._blocks.expanded)
        self._keep_in_view(first)

    def toggle_at(self, y: int) -> None:
        """Open or close the block that the line `y` of the view belongs to."""
        index = self._blocks.index_at(self.scroll_offset.y + y)
        blocks = self._blocks.blocks
        if index >= len(blocks) or not blocks[index].can_expand:
            return
        block = blocks[index]
        was_open = self._blocks.expanded if block.is_open is None else block.is_open
        block.is_open = not was_open
        self.touch(block)
        self._follow(sticks=self._sticks and not block.is_open)
        self.redraw()

    # -- scrolling

    def _follow(self, *, sticks: bool) -> None:
        """Follow the end, or stop to. The scrollbar is there only while the end is not followed:
        drawing it anew at every line would be a sixth of all that is sent to the terminal.
        """
        if sticks != self._sticks:
            self._sticks = sticks
            self.styles.scrollbar_size_vertical = 0 if sticks else 1

    @property
    def sticks(self) -> bool:
        """Does it follow the end?"""
        return self._sticks

    def page(self, direction: int) -> None:
        """Scroll by a page, keeping two lines of the last one."""
        step = max(1, self.scrollable_content_region.height - 2)
        self.scroll_to(y=self.scroll_offset.y + direction * step, animate=False)

    def go_to_start(self) -> None:
        self.scroll_to(y=0, animate=False)

    def go_to_end(self) -> None:
        self._follow(sticks=True)
        self.redraw()

    def redraw(self) -> None:
        """Show what has changed."""
        if not self._has_size:
            return
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        self._is_moving = True
        try:
            if self._sticks:
                self._blocks.settle_end(height)
                self._take_height()
                self.scroll_to(y=self.max_scroll_y, animate=False)
            else:
                self._settle_window()
        finally:
            self._is_moving = False
        self._refresh_changed(has_scrolled=self.scroll_offset.y != top)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._is_moving or round(old_value) == round(new_value):
            return
        self._is_moving = True
        try:
            self._settle_window(anchor=round(old_value))
        finally:
            self._is_moving = False
        self._follow(sticks=self.scroll_offset.y >= self.max_scroll_y)

    def on_resize(self, event: events.Resize) -> None:
        self._changed_all = True
        first = self._blocks.index_at(self.scroll_offset.y)
        if self._blocks.resize(*self._widths):
            self._keep_in_view(first)
        else:
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        if not self.screen.get_selected_text():
            self.toggle_at(event.y)

    # -- drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        at = self.scroll_offset.y + y
        found = self._blocks.line(at)
        if found is None:
            return Strip.blank(width, self._ink.text)
        strip = found.crop_extend(0, width, self._ink.text)
        if self.text_selection is not None:
            strip = self._highlight(strip, at)
        return strip.apply_offsets(0, at)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self._blocks.height - 1
        lines = list(self._blocks.texts(first, last))
        if not lines:
            return None
        if selection.end is not None and last - first < len(lines):
            lines[-1] = lines[-1][: selection.end.x]
        if selection.start is not None:
            lines[0] = lines[0][selection.start.x :]
        return "\n".join(line.rstrip() for line in lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # -- inside

    @property
    def _has_size(self) -> bool:
        return self.is_mounted and self.scrollable_content_region.height > 0

    @property
    def _widths(self) -> tuple[int, int]:
        """Columns for what is read, and for what is wide."""
        # One column is left for the scrollbar, so that its coming and going wraps nothing anew.
        room = max(1, self.content_size.width - 1)
        return min(_WIDEST, room), room

    def _note_change(self, block: Block) -> None:
        """Remember the highest block that changed: only what is below it is drawn again."""
        changed = self._changed_from
        if changed is None or self._blocks.is_above(block, changed):
            self._changed_from = block

    def _refresh_changed(self, *, has_scrolled: bool) -> None:
        """Draw again what changed, and no more: every line drawn goes through the terminal."""
        changed, self._changed_from = self._changed_from, None
        is_all, self._changed_all = self._changed_all or has_scrolled, False
        if is_all or changed is None:
            self.refresh()
            return
        layout = self._blocks
        first = max(0, layout.top_of(layout.index(changed)) - self.scroll_offset.y)
        width, height = self.size
        if first < height:
            self.refresh(Region(0, first, width, height - first))

    def _keep_in_view(self, index: int) -> None:
        """After everything got another height: the end if we follow it, else the same block."""
        if not self._has_size:
            return
        if not self._sticks:
            self._is_moving = True
            self._take_height()
            self.scroll_to(y=self._blocks.top_of(index), animate=False)
            self._is_moving = False
        self.redraw()

    def _settle_window(self, anchor: int | None = None) -> None:
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        moved = self._blocks.settle(top, height, anchor)
        self._take_height()
        if moved:
            self.scroll_to(y=top + moved, animate=False)

    def _take_height(self) -> None:
        """Tell the scrollbar. The plain assignment would lay out the whole screen every time."""
        size = Size(self.scrollable_content_region.width, self._blocks.height)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def _highlight(self, strip: Strip, at: int) -> Strip:
        span = self.text_selection.get_span(at) if self.text_selection else None
        if span is None:
            return strip
        text = strip.text
        begin, end = span
        start = cell_len(text[:begin])
        stop = strip.cell_length if end == -1 else cell_len(text[:end])
        chosen = strip.crop(start, stop)
        marked = Strip(
            [type(s)(s.text, (s.style or self._ink.text) + self._ink.selection) for s in chosen]
        )
        return Strip.join([strip.crop(0, start), marked, strip.crop(stop)])
