"""The changes of a call to files: their hunks, and the view that accepts or refuses each."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip

from dirge_py.lib.hunks import Change, diff_hunks
from dirge_py.lib.text import visible, visible_code, visible_name
from dirge_py.types.errors import DirgeError
from dirge_py.types.tools import FileChange
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.dialog import KeyHint, Role, ScrollingLines, paint_key_hints
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import DiffRow, RowKind, is_split, paint_rows
from dirge_py.ui.transcript.lines import Line, selected_row, wrap


class FileSelection:
    """The hunks of one file, of which all are accepted at first.

    A file that is created, removed or only moved is one hunk. `origin` is the removal at the path
    that the file moves from; if all hunks are refused, it doesn't move.
    """

    def __init__(self, shown: FileChange, origin: FileChange | None = None) -> None:
        self.shown = shown
        self.before = shown.before if origin is None else origin.before
        self.moved_from = "" if origin is None else origin.path
        self.path = shown.path
        self.is_new, self.is_removal = self.before is None, shown.after is None
        self.reset()

    @property
    def text(self) -> str:
        if self.is_new:
            return self._proposed or ""
        return self.change.apply(self.accepted)

    def edit(self, text: str) -> None:
        """Replace the change by the person's own text, and accept all of it."""
        self._is_edited = True
        self._propose(text)

    def reset(self) -> None:
        self._is_edited = False
        self._propose(self.shown.after)

    def outcome(self) -> FileChange | None:
        """Return the person's version, with `after` None if all is refused; None if unchanged."""
        if not self.accepted:
            return replace(self.shown, after=None)
        if len(self.accepted) == self.count and not self._is_edited:
            return None
        return replace(self.shown, after=self.text)

    def _propose(self, after: str | None) -> None:
        self._proposed = after
        self.change: Change = diff_hunks(self.before or "", after or "")
        self.count = len(self.change.hunks)
        if self.is_new or self.is_removal or (self.moved_from and not self.count):
            self.count = 1
        self.accepted = set(range(self.count))


class ChangeSelection:
    """All files of a preview, with a cursor on one hunk."""

    def __init__(self, changes: Sequence[FileChange]) -> None:
        by_path = {change.path: change for change in changes if change.before is not None}
        sources = {change.moved_from for change in changes if change.moved_from in by_path}
        self.files = [
            FileSelection(change, by_path.get(change.moved_from))
            for change in changes
            # A removal and a creation that are a move are shown as one file.
            if not (change.after is None and change.path in sources)
        ]
        self.at = 0

    @property
    def places(self) -> Sequence[tuple[int, int]]:
        """The numbers of file and hunk of every hunk, in the order shown."""
        return [(f, h) for f, file in enumerate(self.files) for h in range(file.count)]

    @property
    def place(self) -> tuple[int, int] | None:
        places = self.places
        return places[min(self.at, len(places) - 1)] if places else None

    def move(self, step: int) -> None:
        self.at = max(0, min(len(self.places) - 1, self.at + step))

    def mark(self, *, accepted: bool | None = None) -> None:
        """Accept or refuse the hunk at the cursor; None toggles it."""
        if self.place is None:
            return
        number, hunk = self.place
        file = self.files[number]
        if accepted is None:
            accepted = hunk not in file.accepted
        (file.accepted.add if accepted else file.accepted.discard)(hunk)

    def reset_all(self) -> None:
        """Undo the person's choices and edits."""
        self.at = 0
        for file in self.files:
            file.reset()

    @property
    def accepted(self) -> int:
        return sum(len(file.accepted) for file in self.files)

    def outcome(self) -> tuple[FileChange, ...] | None:
        """Return the person's versions of changes; None if all were accepted unchanged."""
        return tuple(change for file in self.files if (change := file.outcome())) or None


_CONTEXT = 3


def paint_files(files: Sequence[FileSelection], width: int, styles: Styles) -> list[Strip]:
    """Draw the changes of these files, with `⋯` between hunks."""
    strips: list[Strip] = []
    for file in files:
        strips += paint_title(file, width, styles)
        for number in range(file.count):
            if number:
                strips += wrap([("⋯", styles.dim)], width)
            strips += paint_hunk(file, number, width, styles)
    return strips


def paint_title(file: FileSelection, width: int, styles: Styles) -> list[Strip]:
    kind = "  new file" if file.is_new else "  removed" if file.is_removal else ""
    name = visible_name(file.path)
    if file.moved_from:
        name = f"{visible_name(file.moved_from)} → {name}"
    return wrap([(name, styles.strong + styles.text), (kind, styles.dim)], width)


def paint_hunk(file: FileSelection, number: int, width: int, styles: Styles) -> list[Strip]:
    """Draw a hunk with some unchanged lines around it, dim if it is refused."""
    change = file.change
    if not change.hunks:
        words = "only moved" if file.moved_from else "an empty file"
        return wrap([(f"  {words}", styles.dim)], width)
    rows, digits = _rows(change, number), len(str(max(len(change.before), len(change.after))))
    split, muted = is_split("auto", width), number not in file.accepted
    strips, _ = paint_rows(
        rows,
        width,
        styles,
        is_whole=True,
        split=split,
        muted=muted,
        digits=digits,
        path=file.path,
    )
    return strips


def _rows(change: Change, number: int) -> list[DiffRow]:
    hunk = change.hunks[number]
    # Carriage returns are shown unless every line of both sides ends with one.
    ends = [line for line in (*change.before, *change.after) if line.endswith("\n")]
    has_returns = bool(ends) and all(line.endswith("\r\n") for line in ends)
    rows: list[DiffRow] = []

    def show(kind: RowKind, lines: Sequence[str], old: int, new: int) -> None:
        for at, line in enumerate(lines, 1):
            shown = line.removesuffix("\n")
            text = visible_code(shown.removesuffix("\r") if has_returns else shown)
            numbers = {"removed": (old + at, None), "added": (None, new + at)}
            rows.append(DiffRow(kind, text, *numbers.get(kind, (old + at, new + at))))
            if not line.endswith("\n"):
                rows.append(DiffRow("note", "no newline at the end"))

    hunks = change.hunks
    # Hunks near each other don't show the same context twice.
    earliest, latest = 0, len(change.before)
    if number:
        earliest = min(hunks[number - 1].before_end + _CONTEXT, hunk.before_at)
    if number + 1 < len(hunks):
        latest = hunks[number + 1].before_at
    at = hunk.before_at
    begin = max(earliest, at - _CONTEXT)
    show("same", change.before[begin:at], begin, begin + hunk.after_at - at)
    for stretch in hunk.stretches:
        between = change.before[at : stretch.before_at]
        show("same", between, at, stretch.after_at - stretch.before_at + at)
        removed = change.before[stretch.before_at : stretch.before_end]
        show("removed", removed, stretch.before_at, 0)
        show("added", change.after[stretch.after_at : stretch.after_end], 0, stretch.after_at)
        at = stretch.before_end
    show("same", change.before[at : min(latest, at + _CONTEXT)], at, hunk.after_end)
    return rows


EditFile = Callable[[str, str], Awaitable[str | None]]
"""Opens a text, with its path, in the person's editor; returns None if it wasn't changed."""


class HunkView(Vertical, can_focus=False):
    """Replaces a permission question, which keeps the keyboard, while hunks are chosen."""

    DEFAULT_CSS = """
    HunkView { height: 1fr; background: $surface; }
    HunkView .hunk-keys { height: 1; overflow: hidden hidden; }
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
                    line.append(("  rejected", styles.warning))
                head = wrap(line, width)
                strips += (
                    [selected_row(row, width, styles.accent) for row in head] if is_at else head
                )
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
            hint = ("PageDown: read to the end to accept", "PageDown: read to the end")
            return paint_key_hints([hint], width, self._styles, most=1)

        def key(action: str) -> str:
            return self._keymap.name_of("hunks", action)

        taken = self._selection.accepted
        take = f"accept {taken} of {len(self._selection.places)}" if taken else "deny"
        marks = f"{key('accept')}/{key('refuse')}"
        hints: list[KeyHint] = [
            (f"{key('choose')}: {take}", f"{key('choose')}: {take.replace(' of ', '/')}"),
            (f"{key('toggle')} or {marks}: accept, reject", f"{key('toggle')}: mark"),
            (f"{key('edit')}: edit the file", f"{key('edit')}: edit"),
            (f"{key('close')}: back",) * 2,
        ]
        if not self._has_cursor:
            hints[:3] = [(f"{key('previous')}/{key('next')}: select a hunk, or accept",) * 2]
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
            self._problem = "The change deletes this file, so there is no text to edit."
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
