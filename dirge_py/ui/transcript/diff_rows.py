"""A unified diff as rows: what each line is, where it stands on either side, and what it says."""

import re
from collections.abc import Sequence
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass

RowKind = Literal["same", "removed", "added", "name", "gap", "note"]

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff. `old` and `new` are its numbers on the sides that have it, from 1.

    `name` is a file's heading, `gap` stands between two hunks, `note` is what is no line of either
    side. `opens`: a hunk begins here; of a file with a heading, at the heading.
    """

    kind: RowKind
    text: str = ""
    old: int | None = None
    new: int | None = None
    opens: bool = False


def read_diff(diff: str) -> list[Row]:
    """The rows of a unified diff of one file or several; anything else is taken as notes.

    File headers are left out; where there are several files, or one moves, each has a heading.
    """
    lines = diff.split("\n")
    headers = {at for at in range(len(lines) - 2) if _is_header(lines[at : at + 3])}
    rows: list[Row] = []
    old = new = 0
    in_hunk = opens = False
    for at, line in enumerate(lines):
        row: Row | None = None
        if at in headers or at - 1 in headers:
            in_hunk = False
            if at in headers and (len(headers) > 1 or _is_moved(line, lines[at + 1])):
                row = Row("name", _named(line, lines[at + 1]), opens=True)
        elif hunk := _HUNK.match(line):
            if in_hunk:
                rows.append(Row("gap"))
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
            opens = not (rows and rows[-1].kind == "name")
            continue
        elif not in_hunk:
            if line and not line.startswith(("diff ", "index ")):
                row = Row("note", line)
        elif line.startswith("+"):
            row = Row("added", line[1:], new=new, opens=opens)
            new += 1
        elif line.startswith("-"):
            row = Row("removed", line[1:], old=old, opens=opens)
            old += 1
        elif line.startswith("\\"):
            row = Row("note", line)
        elif line or at < len(lines) - 1:
            row = Row("same", line[1:], old=old, new=new, opens=opens)
            old, new = old + 1, new + 1
        if row is not None:
            rows.append(row)
            opens = False
    return rows


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


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
