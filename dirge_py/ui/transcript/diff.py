"""Unified diffs as coloured lines with their line numbers."""

import re
from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Span, fold

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def paint_diff(diff: str, width: int, ink: Ink, *, indent: Sequence[Span] = ()) -> list[Strip]:
    """The lines of a unified diff; file headers are left out, hunks are told apart by `⋯`."""
    rows = list(_rows(diff.splitlines(), ink))
    digits = max((len(number) for number, _, _ in rows), default=1)
    strips: list[Strip] = []
    for number, text, style in rows:
        gutter = [*indent, (f"{number:>{digits}} ", ink.dim)]
        strips.extend(fold([(text, style)], width, prefix=gutter))
    return strips


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


def _rows(lines: Sequence[str], ink: Ink) -> list[tuple[str, str, Style]]:
    rows: list[tuple[str, str, Style]] = []
    old = new = 0
    in_hunk = False
    for line in lines:
        if hunk := _HUNK.match(line):
            if in_hunk:
                rows.append(("⋯", "", ink.dim))
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
        elif not in_hunk:
            if not line.startswith(("--- ", "+++ ", "diff ", "index ")):
                rows.append(("", line, ink.dim))
        elif line.startswith("+"):
            rows.append((str(new), line, ink.added))
            new += 1
        elif line.startswith("-"):
            rows.append((str(old), line, ink.removed))
            old += 1
        elif line.startswith("\\"):
            rows.append(("", line, ink.dim))
        else:
            rows.append((str(new), line or " ", ink.text))
            old += 1
            new += 1
    return rows
