"""The bar above the input that finds text in the transcript."""

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from dirge_py.ui.keymap import Keymap
from dirge_py.ui.transcript.layout import BlockRow, LinePosition
from dirge_py.ui.transcript.lines import HINT_JOINT
from dirge_py.ui.transcript.view import TranscriptWidget

_WIDE_ENOUGH = 60
"""Columns from which the bar names its keys."""
_AROUND = 3
"""Lines kept in view on both sides of a match."""


class _Query(Input):
    """The input of the query; `on_query_key` returns whether it handled a key."""

    BINDINGS: ClassVar = []

    def __init__(self, on_query_key: Callable[[str], bool]) -> None:
        super().__init__(select_on_focus=False)
        self.cursor_blink = False
        self._on_query_key = on_query_key

    async def _on_key(self, event: events.Key) -> None:
        if self._on_query_key(event.key):
            event.stop().prevent_default()
        else:
            await super()._on_key(event)


class FindBar(Horizontal):
    """The query, with the number of the shown match and the count of all.

    Typing shows the first match at or below the top of the view, else the last one above. Enter
    goes to the next one; then n and N go forward and back until the query is edited. Esc scrolls
    back, unless a match was chosen with Enter.
    """

    DEFAULT_CSS = """
    FindBar {
        height: 1; padding: 0 1; background: $surface; display: none;
        & Static { width: auto; height: 1; color: $accent; }
        & #found, & #find-keys { color: $dirge-dim; }
        & Input { width: 1fr; }
    }
    """
    BINDINGS: ClassVar = []

    def __init__(
        self, keymap: Keymap, transcript: TranscriptWidget, drawn: Callable[[], Awaitable[None]]
    ) -> None:
        """`drawn` waits until the whole history is in the transcript."""
        super().__init__(id="find-bar")
        self._keymap = keymap
        self._transcript = transcript
        self._drawn = drawn
        self._input = _Query(self._on_query_key)
        self._count = Static("", id="found", markup=False)
        self._keys = Static("", id="find-keys", markup=False)
        self._back: Widget | None = None
        self._before: LinePosition | None = None
        self._is_chosen = self._letters_move = False
        self._opened: list[BlockRow] = []
        self._steps: list[int] = []

    def compose(self) -> ComposeResult:
        return (Static("/ ", markup=False), self._input, self._count, self._keys)

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, back: Widget, query: str = "") -> None:
        """Show the bar with this query; the widget `back` gets the focus at the end."""
        if self.is_open:
            self._input.value = query or self._input.value
            self._input.focus()
            return
        self._back = back
        anchor = self._transcript.scroll_anchor
        self._before = None if anchor.is_on else anchor.place
        self._is_chosen = self._letters_move = False
        self._opened, self._steps = [], []
        self.display = True
        name = self._keymap.name_of
        hints = (f"{name('find', 'next')}: next", f"{name('find', 'close')}: close")
        self._keys.update(f"   {HINT_JOINT.join(hints)}")
        self._input.value = query
        self._count.update("")
        self._transcript.hold()
        self._input.focus()

    def close(self) -> None:
        """Hide the bar; a chosen match stays in view."""
        self.display = False
        self.workers.cancel_node(self)
        search, view = self._transcript.search, self._transcript
        search.forget_texts()
        if not self._is_chosen:
            search.set_query("")
            for row in self._opened:
                view.close_block(row)
            view.go_to(self._before)
        view.refresh()
        if self._back is not None:
            self._back.focus()

    def step(self, direction: int) -> None:
        """Go to the next match, or with -1 to the previous one."""
        # A second key may cancel the worker before it has done the step of the first.
        self._steps.append(direction)
        self.run_worker(self._find(), exclusive=True)

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        if self.is_open and message.value != self._transcript.search.query:
            self.run_worker(self._find(), exclusive=True)

    def _on_query_key(self, key: str) -> bool:
        """Handle a key; return False if it is text."""
        binding = self._keymap.action(key, "find")
        letter = self._keymap.action(key, "reading") if self._letters_move else None
        if binding is not None and binding[1] == "close":
            self.close()
        elif binding is not None:
            self._is_chosen = self._letters_move = bool(self._input.value)
            self.step(1 if binding[1] == "next" else -1)
        elif letter is not None and letter[1] in ("find_next", "find_previous"):
            self.step(1 if letter[1] == "find_next" else -1)
        else:
            self._letters_move = False
            return False
        return True

    def on_resize(self, event: events.Resize) -> None:
        self._keys.display = event.size.width >= _WIDE_ENOUGH

    async def _find(self) -> None:
        view, search = self._transcript, self._transcript.search
        if self.is_open:
            search.set_query(self._input.value)
        self._count.update("…" if search.query and search.hit is None else "")
        await self._drawn()
        start = max(0, view.layout_of_blocks.height - view.lines_in_view)
        if self._before is not None and not self._before.row.is_gone:
            # A changed query searches from where the bar was opened.
            start = view.layout_of_blocks.top(self._before.row) + self._before.line

        def show_first() -> None:
            """Show the match before all are counted."""
            if search.hit is None and search.choose_near(start) is not None:
                self._show(more=" …")

        await search.scan(start, show_first)
        if search.hit is None:
            search.choose_near(start)
        for direction in self._steps:
            search.step(direction)
        self._steps.clear()
        self._show()

    def _show(self, more: str = "") -> None:
        view, search = self._transcript, self._transcript.search
        hit = search.hit
        if hit is not None:
            if search.needs_open(hit.row):
                self._opened += view.open_block(hit.row)
            view.show(search.spot(hit), around=_AROUND)
            view.reading.follow(search.spot(hit))
        words = f"{search.position()} of {search.total}{more}" if hit else "not found"
        self._count.update(words if search.query else "")
        view.refresh()
