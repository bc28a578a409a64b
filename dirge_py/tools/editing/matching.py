"""Where in a file the text of an edit is: exactly, else by the first forgiving strategy that fits.

Only the exact strategy may answer with several places. A forgiving one must find exactly one,
because what it changes was not written by the model to the letter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.anchored import find_anchored
from dirge_py.tools.editing.blocks import BLANKS, Block, ViewLines, adapted, replacements
from dirge_py.tools.editing.document import Replacement

Strategy = Literal[
    "exact", "trailing blanks ignored", "indentation adapted", "anchored by first and last line"
]
EXACT: Strategy = "exact"
TRAILING: Strategy = "trailing blanks ignored"
INDENTATION: Strategy = "indentation adapted"
ANCHORED: Strategy = "anchored by first and last line"
STRATEGIES = (EXACT, TRAILING, INDENTATION, ANCHORED)


@dataclass(frozen=True, slots=True)
class Matches:
    """All places found by one strategy: where the text begins, and what to change there.

    `changes` count from the start of the place. They are those of the first place, and hold for
    the others only if the strategy is exact.
    """

    strategy: Strategy
    starts: Sequence[int]
    changes: Sequence[Replacement]

    def replacements(self) -> Iterator[Replacement]:
        """The changes of all places, ascending. Made one by one: there may be 100,000."""
        for start in self.starts:
            for each in self.changes:
                yield each.moved(start)


@dataclass(frozen=True, slots=True)
class Found:
    """Where a block of lines stands: the number of its first line, and what to change there."""

    line: int
    changes: Sequence[Replacement]


def find(view: bytes, old: bytes, new: bytes) -> Matches | None:
    """What to replace so that `old` becomes `new`; None if `old` is nowhere. All with LF.

    More than one place means that it is ambiguous, unless all were asked for.
    """
    starts = list(_occurrences(view, old))
    if starts:
        # As lines, of which the first and the last may be parts.
        block = Block.of(old + b"\n", new + b"\n")
        is_open = any(view[(end := start + len(old)) : end + 1] != b"\n" for start in starts)
        changes = replacements(block.old, block, block.runs, is_open=is_open)
        return Matches(EXACT, starts, changes)
    if not old.strip():
        return None
    lines_there = ViewLines(view)
    strategy, places = find_block(lines_there, Block.of(old, new), STRATEGIES[1:])
    if not places:
        return None
    return Matches(strategy, [lines_there.start(each.line) for each in places], places[0].changes)


def find_block(
    lines: ViewLines, block: Block, strategies: Sequence[Strategy] = STRATEGIES
) -> tuple[Strategy, list[Found]]:
    """Every place where the block's old lines stand, by the first strategy that finds one."""
    for strategy in strategies:
        found = list(_find_by(strategy, lines, block))
        if found:
            return strategy, found
    return EXACT, []


def has_overlap(view: bytes, old: bytes, start: int) -> bool:
    """Whether `old` also begins inside its own occurrence at `start`."""
    return view.find(old, start + 1, start + 2 * len(old) - 1) >= 0


def _occurrences(view: bytes, old: bytes) -> Iterator[int]:
    start = view.find(old)
    while start >= 0:
        yield start
        start = view.find(old, start + len(old))


def _find_by(strategy: Strategy, lines: ViewLines, block: Block) -> Iterator[Found]:
    if strategy == ANCHORED:
        for region in [] if block.takes_end else find_anchored(lines, block):
            indented = adapted(block.new, region.pairs)
            if indented is not None:
                end = region.line + region.count
                moved = replace(block, new=indented, runs=region.runs)
                yield _found(lines, region.line, end, moved)
        return
    for line in lines.find(block.old, _NORMALS[strategy]):
        end = line + len(block.old)
        new = block.new
        if strategy == INDENTATION:
            pairs = list(zip(block.old, lines.lines[line:end], strict=True))
            indented = adapted(block.new, pairs)
            if indented is None:
                continue
            new = indented
        yield _found(lines, line, end, replace(block, new=new))


def _found(lines: ViewLines, line: int, end: int, block: Block) -> Found:
    standing = lines.lines[line:end]
    is_open = end == len(lines.lines)
    return Found(line, replacements(standing, block, block.runs, is_open=is_open))


def _as_it_is(line: bytes) -> bytes:
    return line


def _without_trailing_blanks(line: bytes) -> bytes:
    return line.rstrip(BLANKS)


def _without_indentation(line: bytes) -> bytes:
    return line.strip(BLANKS)


_NORMALS = {
    EXACT: _as_it_is,
    TRAILING: _without_trailing_blanks,
    INDENTATION: _without_indentation,
}
