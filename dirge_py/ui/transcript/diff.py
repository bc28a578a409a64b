"""Unified diffs as coloured lines with their line numbers."""

import re
from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Span, fold

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def paint_diff(
    diff: str, width: int, ink: Ink, *, indent: Sequence[Span] = (), is_whole: bool = False
) -> list[Strip]:
    """The lines of a unified diff; hunks are told apart by `⋯`.

    File headers are left out; where there are several files each has its name above its hunks.
    `is_whole`: very long lines are not shortened.
    """
    rows = _rows(diff.split("\n"), ink)
    digits = max((len(number) for number, _, _ in rows), default=1)
    strips: list[Strip] = []
    for number, text, style in rows:
        gutter = [*indent, (f"{number:>{digits}} ", ink.dim)]
        strips.extend(fold([(text, style)], width, prefix=gutter, is_whole=is_whole))
    return strips


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


def _rows(lines: Sequence[str], ink: Ink) -> list[tuple[str, str, Style]]:
    """Line number, text and look of each line."""
    rows: list[tuple[str, str, Style]] = []
    headers = {at for at in range(len(lines) - 2) if _is_header(lines[at : at + 3])}
    old = new = 0
    in_hunk = False
    for at, line in enumerate(lines):
        if at in headers or at - 1 in headers:
            in_hunk = False
            if at in headers and (len(headers) > 1 or _is_moved(line, lines[at + 1])):
                rows.append(("", _named(line, lines[at + 1]), ink.strong + ink.text))
        elif hunk := _HUNK.match(line):
            if in_hunk:
                rows.append(("⋯", "", ink.dim))
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
        elif not in_hunk:
            if line and not line.startswith(("diff ", "index ")):
                rows.append(("", line, ink.dim))
        elif line.startswith("+"):
            rows.append((str(new), line, ink.added))
            new += 1
        elif line.startswith("-"):
            rows.append((str(old), line, ink.removed))
            old += 1
        elif line.startswith("\\"):
            rows.append(("", line, ink.dim))
        elif line or at < len(lines) - 1:
            rows.append((str(new), line or " ", ink.text))
            old += 1
            new += 1
    return rows


def _is_header(lines: Sequence[str]) -> bool:
    """Whether a file begins here. Inside a hunk `--- x` is a line that is removed: no `@@` follows
    the one after it, for what ends a hunk without context ends its file.
    """
    starts = ("--- ", "+++ ", "@@ ")
    return all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def _named(old: str, new: str) -> str:
    if new == "+++ /dev/null":
        return old[4:]
    return f"{old[4:]} → {new[4:]}" if _is_moved(old, new) else new[4:]


def _is_moved(old: str, new: str) -> bool:
    """Whether the names of the two sides differ; git puts `a/` and `b/` before them."""
    names = old[4:].removeprefix("a/"), new[4:].removeprefix("b/")
    return names[0] != names[1] and "/dev/null" not in (old[4:], new[4:])
