"""Which files a diff of ours is about."""

import re
from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """`path` as the tool wrote it; `line` is the first that changed, 0 where the file is gone."""

    path: str
    line: int


def changed_files(diff: str) -> Iterator[ChangedFile]:
    """The files of a unified diff with the names `old` and `new`, without `a/` and `b/`."""
    lines = diff.split("\n")
    for at in range(len(lines) - 2):
        old, new, hunk = lines[at : at + 3]
        if not (old.startswith("--- ") and new.startswith("+++ ")):
            continue
        begins = _HUNK.match(hunk)
        if begins is None:
            continue
        if new == "+++ /dev/null":
            yield ChangedFile(old[4:], 0)
        else:
            yield ChangedFile(new[4:], int(begins[1]) + _unchanged(lines, at + 3))


def _unchanged(lines: list[str], at: int) -> int:
    """How many lines that stayed the same a hunk begins with."""
    end = at
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return end - at
