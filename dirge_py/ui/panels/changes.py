"""The changes of files as lines, whole, with nothing in them that could hide."""

from collections.abc import Sequence

from textual.strip import Strip

from dirge_py.lib.hunks import Change, Hunk
from dirge_py.lib.text import visible_code, visible_name
from dirge_py.ui.ink import Ink
from dirge_py.ui.panels.selection import FileSelection
from dirge_py.ui.transcript.diff import is_split, paint_rows
from dirge_py.ui.transcript.diff_rows import Row, RowKind
from dirge_py.ui.transcript.lines import wrap

_CONTEXT = 3


def paint_files(files: Sequence[FileSelection], width: int, ink: Ink) -> list[Strip]:
    """All changes of these files, hunks told apart by `⋯`."""
    strips: list[Strip] = []
    for file in files:
        strips += paint_title(file, width, ink)
        for number in range(file.count):
            if number:
                strips += wrap([("⋯", ink.dim)], width)
            strips += paint_hunk(file, number, width, ink)
    return strips


def paint_title(file: FileSelection, width: int, ink: Ink) -> list[Strip]:
    kind = "  new file" if file.is_new else "  removed" if file.is_removal else ""
    name = visible_name(file.path)
    if file.moved_from:
        name = f"{visible_name(file.moved_from)} → {name}"
    return wrap([(name, ink.strong + ink.text), (kind, ink.dim)], width)


def paint_hunk(file: FileSelection, number: int, width: int, ink: Ink) -> list[Strip]:
    """One hunk with the unchanged lines around it. What is refused is dim."""
    change = file.change
    if not change.hunks:
        words = "only moved" if file.moved_from else "an empty file"
        return wrap([(f"  {words}", ink.dim)], width)
    rows = _rows(change, number)
    digits = len(str(max(len(change.before), len(change.after))))
    return paint_rows(
        rows,
        width,
        ink,
        is_whole=True,
        split=is_split("auto", width),
        muted=number not in file.accepted,
        digits=digits,
    ).strips


def _rows(change: Change, number: int) -> list[Row]:
    """The lines of one hunk and around it."""
    hunk = change.hunks[number]
    has_returns = _all_end_alike(change)
    rows: list[Row] = []

    def show(kind: RowKind, lines: Sequence[str], old: int, new: int) -> None:
        for at, line in enumerate(lines, 1):
            text = visible_code(_without_end(line, has_returns=has_returns))
            numbers = {"removed": (old + at, None), "added": (None, new + at)}
            rows.append(Row(kind, text, *numbers.get(kind, (old + at, new + at))))
            if not line.endswith("\n"):
                rows.append(Row("note", "no newline at the end"))

    earliest, latest = _room(change, number)
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


def _room(change: Change, number: int) -> tuple[int, int]:
    """Where the context of a hunk may begin and end: none is shown twice."""
    hunks: Sequence[Hunk] = change.hunks
    first = number == 0
    earliest = 0 if first else min(hunks[number - 1].before_end + _CONTEXT, hunks[number].before_at)
    last = number + 1 == len(hunks)
    return earliest, len(change.before) if last else hunks[number + 1].before_at


def _all_end_alike(change: Change) -> bool:
    """Whether every line of both sides ends with a carriage return, which then tells nothing."""
    lines = [line for line in (*change.before, *change.after) if line.endswith("\n")]
    return bool(lines) and all(line.endswith("\r\n") for line in lines)


def _without_end(line: str, *, has_returns: bool) -> str:
    line = line.removesuffix("\n")
    return line.removesuffix("\r") if has_returns else line
