"""The changes that a call would make to files, and the hunks of them that the person accepts."""

from collections.abc import Sequence
from dataclasses import replace

from textual.strip import Strip

from dirge_py.lib.hunks import Change, diff_hunks
from dirge_py.lib.text import visible_code, visible_name
from dirge_py.types.tools import FileChange
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import DiffRow, RowKind, is_split, paint_rows
from dirge_py.ui.transcript.lines import wrap


class FileSelection:
    """The hunks of one file, of which all are accepted at first.

    A file that is created, removed or only moved is one hunk. `origin` is the removal at the path
    that the file moves from; if all hunks are refused, it doesn't move.
    """

    def __init__(self, shown: FileChange, origin: FileChange | None = None) -> None:
        self.shown = shown
        self.before = shown.before if origin is None else origin.before
        self.moved_from = "" if origin is None else origin.path
        self._is_edited = False
        self._propose(shown.after)

    @property
    def path(self) -> str:
        return self.shown.path

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_removal(self) -> bool:
        return self.shown.after is None

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
    return paint_rows(
        _rows(change, number),
        width,
        styles,
        is_whole=True,
        split=is_split("auto", width),
        muted=number not in file.accepted,
        digits=len(str(max(len(change.before), len(change.after)))),
    ).strips


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
