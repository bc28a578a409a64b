"""The view that accepts or refuses a change hunk by hunk, or edits its file."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip

from dirge_py.lib.text import visible
from dirge_py.types.errors import DirgeError
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.dialog import KeyHint, Role, ScrollingLines, paint_key_hints
from dirge_py.ui.panels.file_changes import ChangeSelection, paint_hunk, paint_title
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, wrap

EditFile = Callable[[str, str], Awaitable[str | None]]
"""Opens a text, with its path, in the person's editor; returns None if it wasn't changed."""


class HunkView(Vertical, can_focus=False):
    """Replaces a permission question, which keeps the keyboard, while hunks are chosen."""

    DEFAULT_CSS = """
    HunkView {
        height: 1fr; background: $surface;
        & .hunk-keys { height: 1; overflow: hidden hidden; }
    }
    """
    BINDINGS: ClassVar = []

    def __init__(
        self,
        selection: ChangeSelection,
        on_done: Callable[[bool], None],
        edit_file: EditFile,
        *,
        styles: Styles,
        keymap: Keymap,
        was_read: bool,
    ) -> None:
        """`on_done` receives whether hunks were taken; `was_read`: the whole change was in view."""
        super().__init__()
        self._selection, self._on_done, self._edit_file = selection, on_done, edit_file
        self._styles, self._keymap, self._was_read = styles, keymap, was_read
        self._problem = ""
        self._has_cursor = False  # Until an arrow key moves it to a hunk, Enter does nothing.
        self._instead: Sequence[KeyHint] = ()
        self._rows: list[tuple[int, int]] = []
        self._painted: dict[tuple[int, int, bool, int], list[Strip]] = {}
        self._body = ScrollingLines(self._paint, styles, on_end=self._repaint_menu)
        self._menu = ScrollingLines(self._paint_menu, styles).add_class("hunk-keys")

    def compose(self) -> ComposeResult:
        return (self._body, self._menu)

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self._painted.clear()

    def fit(self, rows: int) -> int:
        """Return how many of `rows` it needs."""
        width = self.app.size.width - 3
        if self._body.is_mounted:
            self._repaint()
        return min(len(self._paint(width)) + len(self._paint_menu(width)), rows)

    @property
    def may_take(self) -> bool:
        """Whether the whole change was in view, here or in the question."""
        return self._was_read or self._body.seen_end

    def _paint(self, width: int) -> Sequence[Strip]:
        styles = self._styles
        strips: list[Strip] = []
        self._rows = []
        place, total = self._selection.place, len(self._selection.places)
        for number, file in enumerate(self._selection.files):
            strips += paint_title(file, width, styles)
            for hunk in range(file.count):
                first = len(strips)
                is_accepted = hunk in file.accepted
                is_at = self._has_cursor and place == (number, hunk)
                line: Line = [("▸ " if is_at else "  ", styles.accent)]
                line.append(("[✓] ", styles.good) if is_accepted else ("[ ] ", styles.warning))
                words = f"{len(self._rows) + 1} of {total}"
                line.append((words, styles.accent + styles.strong if is_at else styles.text))
                if not is_accepted:
                    line.append(("  refused", styles.warning))
                strips += wrap(line, width)
                key = (number, hunk, is_accepted, width)
                if key not in self._painted:
                    self._painted[key] = paint_hunk(file, hunk, width, styles)
                strips += self._painted[key]
                self._rows.append((first, len(strips) - 1))
        return strips

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        if self._problem:
            return wrap([(self._problem, self._styles.error)], width)
        if self._instead:
            return paint_key_hints(self._instead, width, self._styles)
        if not self.may_take:
            hint = ("read on to the end to take it: PageDown", "PageDown: read to the end")
            return paint_key_hints([hint], width, self._styles, most=1)

        def key(action: str) -> str:
            return self._keymap.name_of("hunks", action)

        taken = self._selection.accepted
        take = f"take {taken} of {len(self._selection.places)}" if taken else "deny"
        marks = f"{key('accept')}/{key('refuse')}"
        hints: list[KeyHint] = [
            (f"{key('choose')}: {take}",) * 2,
            (f"{key('toggle')} or {marks}: accept, refuse", f"{key('toggle')}: mark"),
            (f"{key('edit')}: edit the file", f"{key('edit')}: edit"),
            (f"{key('close')}: back",) * 2,
        ]
        if not self._has_cursor:
            hints[:3] = [(f"{key('previous')}/{key('next')}: go to a hunk, or take them",) * 2]
        return paint_key_hints(hints, width, self._styles)

    def on_mount(self) -> None:
        self._repaint()

    def repaint_menu(self, instead: Sequence[KeyHint]) -> None:
        """Paint the key hints; `instead` replaces them if it isn't empty."""
        self._instead = instead
        if self.is_mounted:
            self._repaint_menu()

    def _repaint_menu(self) -> None:
        self._menu.styles.height = len(self._paint_menu(self.app.size.width - 3))
        self._menu.repaint()

    def _repaint(self) -> None:
        self._body.repaint()
        self._repaint_menu()

    def role_of(self, action: str) -> Role:
        """Return the role of a key, like `Dialog.role_of`."""
        match action:
            case "accept" | "refuse" | "edit":
                return "select" if self._has_cursor else "none"
            case "toggle":
                return "use" if self._has_cursor else "none"
        return "confirm" if action == "choose" else "act"

    def forget_cursor(self, undone: int) -> None:
        """Remove the cursor, as text is being typed, and undo the last `undone` marks."""
        for _ in range(undone):
            self._selection.mark()
        self._has_cursor = False
        if self.is_mounted:
            self._repaint()

    def act(self, action: str) -> None:
        self._problem = ""
        selection = self._selection
        match action:
            case "choose":
                if self.may_take and self._has_cursor:
                    self._on_done(True)
                return
            case "close" | "stop":
                self._on_done(False)
                return
            case "edit":
                self.run_worker(self._edit(), exclusive=True)
                return
            case "previous" | "next":
                if self._has_cursor:
                    selection.move(-1 if action == "previous" else 1)
                self._has_cursor = True
            case "toggle":
                selection.mark()
            case "accept" | "refuse":
                selection.mark(accepted=action == "accept")
                selection.move(1)
            case "page_up" | "page_down" | "end":
                self._body.scroll_page(action)
                return
        self._repaint()
        if self._rows:
            self._body.show(*self._rows[min(selection.at, len(self._rows) - 1)])

    async def _edit(self) -> None:
        if self._selection.place is None:
            return
        file = self._selection.files[self._selection.place[0]]
        if file.is_removal:
            self._problem = "This file is being removed, so there is no text to edit."
        else:
            try:
                edited = await self._edit_file(file.text, file.path)
            except DirgeError as error:
                self._problem = visible(error.in_one_line())
            else:
                if edited is not None:
                    file.edit(edited)
                    self._painted.clear()
        self._selection.move(0)
        self._repaint()
