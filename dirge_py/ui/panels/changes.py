"""The changes of files as lines, whole, with nothing in them that could hide."""

from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.hunks import Change, Hunk
from dirge_py.lib.spelled import visible_code, visible_name
from dirge_py.ui.ink import Ink
from dirge_py.ui.panels.selection import FileSelection
from dirge_py.ui.transcript.lines import Span, fold, wrap

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
    rows = _rows(change, number, ink)
    digits = len(str(max(len(change.before), len(change.after))))
    has_returns = _all_end_alike(change)
    strips: list[Strip] = []
    for line_number, sign, line, style in rows:
        gutter: list[Span] = [(f"{line_number:>{digits}} ", ink.dim)]
        look = style if number in file.accepted else ink.dim
        text = sign + visible_code(_without_end(line, has_returns=has_returns))
        strips += fold([(text, look)], width, prefix=gutter, is_whole=True)
        if not line.endswith("\n"):
            strips += fold([("no newline at the end", ink.dim)], width, prefix=gutter)
    return strips


def _rows(change: Change, number: int, ink: Ink) -> list[tuple[int, str, str, Style]]:
    """Line number, sign, text and look of the lines of one hunk."""
    hunk = change.hunks[number]
    rows: list[tuple[int, str, str, Style]] = []

    def show(lines: Sequence[str], first: int, sign: str, style: Style) -> None:
        rows.extend((first + at + 1, sign, line, style) for at, line in enumerate(lines))

    earliest, latest = _room(change, number)
    begin = max(earliest, hunk.before_at - _CONTEXT)
    at = hunk.before_at
    show(change.before[begin:at], begin + hunk.after_at - at, " ", ink.text)
    for stretch in hunk.stretches:
        show(
            change.before[at : stretch.before_at],
            stretch.after_at - stretch.before_at + at,
            " ",
            ink.text,
        )
        show(
            change.before[stretch.before_at : stretch.before_end],
            stretch.before_at,
            "-",
            ink.removed,
        )
        show(change.after[stretch.after_at : stretch.after_end], stretch.after_at, "+", ink.added)
        at = stretch.before_end
    end = min(latest, hunk.before_end + _CONTEXT)
    show(change.before[at:end], hunk.after_end, " ", ink.text)
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
