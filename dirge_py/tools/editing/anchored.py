"""Finding lines that were written down almost right: between their first and their last line.

The two must stand in the file to the letter but for blanks, and what lies between must be alike.
A line of the file is only ever changed if the text had one like it in that very place.
"""

import difflib
from collections.abc import Iterator, Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.blocks import BLANKS, Block, Run, ViewLines

LEAST_LIKENESS = 0.8
_LEAST_LINE_LIKENESS = 0.6
_LEAST_LINES = 3
_MAX_LINES = 400
_MAX_REGIONS = 100
_LINE_COMPARED = 400
"""Bytes of a line. Comparing is quadratic."""


@dataclass(frozen=True, slots=True)
class Region:
    """`count` lines from `line` that are taken for a block; `runs` are its runs, counted there.

    `pairs`: lines of the block and lines of the file that are the same but for blanks.
    """

    line: int
    count: int
    runs: Sequence[Run]
    pairs: Sequence[tuple[bytes, bytes]]


def find_anchored(lines: ViewLines, block: Block) -> list[Region]:
    """Every region that may be meant by `block`; none where there are too many to compare."""
    wanted = [_without_blanks(line) for line in block.old]
    if not (_LEAST_LINES <= len(wanted) <= _MAX_LINES and wanted[0] and wanted[-1]):
        return []
    bounds = []
    for each in _bounds(lines, block.old):
        bounds.append(each)
        if len(bounds) > _MAX_REGIONS:
            return []
    found = (_region(lines, block, wanted, first, last) for first, last in bounds)
    return [each for each in found if each is not None]


def _bounds(lines: ViewLines, old: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Pairs of lines like the first and the last one, about as far apart as these."""
    slack = max(2, len(old) // 5)
    ends = list(lines.find([old[-1]], _without_blanks))
    at = 0
    for first in lines.find([old[0]], _without_blanks):
        least = first + max(1, len(old) - 1 - slack)
        while at < len(ends) and ends[at] < least:
            at += 1
        for last in ends[at : at + 2 * slack + 1]:
            if last <= first + len(old) - 1 + slack:
                yield first, last


def _region(
    lines: ViewLines, block: Block, wanted: Sequence[bytes], first: int, last: int
) -> Region | None:
    raw = lines.lines[first : last + 1]
    standing = [_without_blanks(line) for line in raw]
    matcher = difflib.SequenceMatcher(None, wanted, standing, autojunk=False)
    where: list[int | None] = [None] * len(wanted)
    likeness = 0.0
    pairs = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if b - a != d - c:
            continue
        for old, there in zip(range(a, b), range(c, d), strict=True):
            alike = 1.0 if tag == "equal" else _likeness(wanted[old], standing[there])
            if alike >= _LEAST_LINE_LIKENESS:
                where[old] = there
                likeness += alike
            if tag == "equal":
                pairs.append((block.old[old], raw[there]))
    middle = max(len(wanted), len(standing)) - 2
    if where[0] != 0 or where[-1] != len(standing) - 1:
        return None
    if likeness - 2 < LEAST_LIKENESS * middle:
        return None
    runs = [_moved(run, where, len(standing)) for run in block.runs]
    found = [run for run in runs if run is not None]
    return Region(first, len(raw), found, pairs) if len(found) == len(runs) else None


def _moved(run: Run, where: Sequence[int | None], count: int) -> Run | None:
    """The run among the lines that stand there; None if it would touch one nobody wrote down."""
    if run.old_start == run.old_end:
        before = where[run.old_start - 1] if run.old_start else -1
        behind = where[run.old_start] if run.old_start < len(where) else count
        if before is None or behind != before + 1:
            return None
        return Run(behind, behind, run.new_start, run.new_end)
    first, last = where[run.old_start], where[run.old_end - 1]
    if first is None or last is None or last - first != run.old_end - 1 - run.old_start:
        return None
    return Run(first, last + 1, run.new_start, run.new_end)


def _likeness(one: bytes, other: bytes) -> float:
    if max(len(one), len(other)) > _LINE_COMPARED:
        return 0.0
    matcher = difflib.SequenceMatcher(
        None, one.decode(errors="replace"), other.decode(errors="replace"), autojunk=False
    )
    return matcher.ratio()


def _without_blanks(line: bytes) -> bytes:
    return line.strip(BLANKS)
