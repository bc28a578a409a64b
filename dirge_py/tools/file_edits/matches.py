"""Finds the text of an edit in a file: exactly, else by the first tolerant strategy that fits.

Only an exact match may occur several times. A tolerant one must be unique, because the model did
not write exactly the text that it changes.

The most tolerant strategy finds a block by its first and last line: these two must match except for
blanks, and the lines between must be similar. A line of the file is only changed if the block has a
similar one at the same place. Unchanged lines keep the file's blanks and line ends.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Literal

from dirge_py.lib.hunks import Stretch, find_differences
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.document import Replacement

BLANKS = b" \t"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """A change of the lines `old` to the lines `new`."""

    old: Sequence[bytes]
    new: Sequence[bytes]
    runs: Sequence[Stretch]
    """The lines that differ."""
    takes_end: bool = False
    """Whether the end of the last old line is replaced, too."""

    @classmethod
    def of(cls, old: bytes, new: bytes) -> "LineBlock":
        """Build a block from two texts; one that ends with a line end has whole lines."""
        has_end = old.endswith(b"\n")
        is_alike = has_end and new.endswith(b"\n")
        old_lines = old.removesuffix(b"\n").split(b"\n")
        new_lines = (new[:-1] if is_alike else new).split(b"\n")
        runs = list(find_differences(old_lines, new_lines))
        return cls(old_lines, new_lines, runs, takes_end=has_end and not is_alike)


class ViewLines:
    """The lines of a file, with a search for blocks of lines."""

    def __init__(self, view: bytes) -> None:
        self.view = view
        self.lines = view.split(b"\n")
        self._starts: list[int] = []
        self._joined: dict[Callable[[bytes], bytes], bytes] = {}

    def start(self, line: int) -> int:
        """Return the position of a line's start in the view."""
        if not self._starts:
            self._starts = list(accumulate((len(each) + 1 for each in self.lines), initial=0))
        return self._starts[line]

    def find(self, block: Sequence[bytes], normal: Callable[[bytes], bytes]) -> Iterator[int]:
        """Yield the line numbers where `block` occurs, with lines compared by `normal`."""
        if normal not in self._joined:
            self._joined[normal] = b"\n" + b"\n".join(map(normal, self.lines)) + b"\n"
        # With newlines on both sides, a run of whole lines is found as one substring.
        haystack = self._joined[normal]
        needle = b"\n" + b"\n".join(map(normal, block)) + b"\n"
        line = counted = 0
        for position in _occurrences(haystack, needle, step=1):
            line += haystack.count(b"\n", counted, position)
            counted = position
            yield line


def _replacements(
    file_lines: Sequence[bytes], block: LineBlock, *, is_open: bool
) -> tuple[Replacement, ...]:
    """Return the block's changes, relative to these lines. `is_open`: the last has no line end."""
    starts = list(accumulate((len(each) + 1 for each in file_lines), initial=0))
    if block.takes_end and not is_open:
        return (Replacement(0, starts[-1], b"\n".join(block.new)),)
    changes: list[Replacement] = []
    for run in block.runs:
        text = b"\n".join(block.new[run.after_at : run.after_end])
        is_last = run.before_end == len(file_lines)
        # A line includes the line end after it, if there is one.
        start, end = starts[run.before_at], starts[run.before_end] - 1
        if run.before_at == run.before_end and is_last:
            changes.append(Replacement(end, end, b"\n" + text))
        elif run.before_at == run.before_end:
            changes.append(Replacement(start, start, text + b"\n"))
        elif run.after_at < run.after_end:
            changes.append(Replacement(start, end, text))
        elif is_last and is_open:
            changes.append(Replacement(start - 1, end, b""))
        else:
            changes.append(Replacement(start, end + 1, b""))
    return tuple(changes)


def _adapt_indentation(
    new: Sequence[bytes], pairs: Sequence[tuple[bytes, bytes]]
) -> list[bytes] | None:
    """Return `new` with the file's indentation; None if `pairs` of lines contradict each other."""
    known: dict[bytes, bytes] = {}
    for written, actual in pairs:
        indent = _indent(actual)
        if indent != actual and known.setdefault(_indent(written), indent) != indent:
            return None
    if len(set(known.values())) < len(known):
        return None
    return [_translate_indent(line, known) for line in new] if known else list(new)


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def _translate_indent(line: bytes, known: dict[bytes, bytes]) -> bytes:
    """Replace a line's indentation by the file's; unknown depths follow the nearest known one."""
    if not line.strip(BLANKS):
        return line
    indent = _indent(line)
    outer = [each for each in known if indent.startswith(each)]
    if outer:
        nearest = max(outer, key=len)
        return known[nearest] + line[len(nearest) :]
    shallowest = min(known, key=len)
    missing = len(shallowest) - len(indent)
    return known[shallowest][: max(0, len(known[shallowest]) - missing)] + line[len(indent) :]


Strategy = Literal[
    "exact", "trailing spaces ignored", "indentation adapted", "anchored by first and last line"
]
EXACT: Strategy = "exact"
TRAILING: Strategy = "trailing spaces ignored"
INDENTATION: Strategy = "indentation adapted"
ANCHORED: Strategy = "anchored by first and last line"
STRATEGIES = (EXACT, TRAILING, INDENTATION, ANCHORED)


@dataclass(frozen=True, slots=True)
class TextMatches:
    """All places found by one strategy."""

    strategy: Strategy
    starts: Sequence[int]
    """Where the text begins."""
    changes: Sequence[Replacement]
    """The changes at the first place, relative to its start; exact matches all have the same."""

    def replacements(self) -> Iterator[Replacement]:
        """Yield the changes of all places, ascending; lazily, because there may be 100,000."""
        for start in self.starts:
            for each in self.changes:
                yield each.moved(start)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match of a block: its first line, and the one after it."""

    line: int
    end: int
    changes: Sequence[Replacement]
    """The changes, relative to the start of the first line."""
    strategy: Strategy = EXACT


def find_text(view: bytes, old: bytes, new: bytes) -> TextMatches | None:
    """Return the changes that turn `old` into `new`; None if `old` is not found. All use LF."""
    starts = list(_occurrences(view, old, step=len(old)))
    if starts:
        # Searched as lines, of which the first and the last may be partial.
        block = LineBlock.of(old + b"\n", new + b"\n")
        is_open = any(view[(end := start + len(old)) : end + 1] != b"\n" for start in starts)
        changes = _replacements(block.old, block, is_open=is_open)
        return TextMatches(EXACT, starts, changes)
    if not old.strip():
        return None
    lines = ViewLines(view)
    places = find_block(lines, LineBlock.of(old, new), STRATEGIES[1:])
    if not places:
        return None
    starts = [lines.start(each.line) for each in places]
    return TextMatches(places[0].strategy, starts, places[0].changes)


def find_block(
    lines: ViewLines, block: LineBlock, strategies: Sequence[Strategy] = STRATEGIES
) -> list[TextMatch]:
    """Return every match of the block's old lines, by the first strategy that finds one."""
    for strategy in strategies:
        matches: list[TextMatch] = []
        for region in _regions(strategy, lines, block):
            is_adapted = strategy in (INDENTATION, ANCHORED)
            new = _adapt_indentation(block.new, region.pairs) if is_adapted else block.new
            if new is not None:
                moved = replace(block, new=new, runs=region.runs)
                is_open = region.end == len(lines.lines)
                old = lines.lines[region.line : region.end]
                changes = _replacements(old, moved, is_open=is_open)
                matches.append(TextMatch(region.line, region.end, changes, strategy))
        if matches:
            return matches
    return []


def has_overlap(view: bytes, old: bytes, start: int) -> bool:
    """Whether `old` also begins inside its own occurrence at `start`."""
    return view.find(old, start + 1, start + 2 * len(old) - 1) >= 0


def _occurrences(view: bytes, old: bytes, step: int) -> Iterator[int]:
    start = view.find(old)
    while start >= 0:
        yield start
        start = view.find(old, start + step)


def _regions(strategy: Strategy, lines: ViewLines, block: LineBlock) -> Iterator["_Region"]:
    """Yield the regions of the file that match the block's old lines by this strategy."""
    if strategy == ANCHORED:
        yield from [] if block.takes_end else _find_anchored(lines, block)
        return
    for line in lines.find(block.old, _NORMALS[strategy]):
        end = line + len(block.old)
        pairs = list(zip(block.old, lines.lines[line:end], strict=True))
        yield _Region(line, end, block.runs, pairs)


def _without_blanks(line: bytes) -> bytes:
    return line.strip(BLANKS)


_NORMALS: dict[Strategy, Callable[[bytes], bytes]] = {
    EXACT: bytes,
    TRAILING: lambda line: line.rstrip(BLANKS),
    INDENTATION: _without_blanks,
}
"""Functions that return a line in the form in which the strategy compares it."""


MIN_SIMILARITY = 0.8
_MIN_LINE_SIMILARITY = 0.6
_MIN_BLOCK_LINES = 3
_MAX_BLOCK_LINES = 400
_MAX_REGIONS = 100
_MAX_LINE_BYTES_COMPARED = 400
"""The longest line, in bytes, that is compared: comparing takes quadratic time."""


@dataclass(frozen=True, slots=True)
class _Region:
    """A region of the file that matches a block: the lines from `line` to before `end`."""

    line: int
    end: int
    runs: Sequence[Stretch]
    """The lines to change, relative to the region."""
    pairs: Sequence[tuple[bytes, bytes]]
    """Lines of the block and of the file that are equal, or differ only in blanks."""


def _find_anchored(lines: ViewLines, block: LineBlock) -> list[_Region]:
    """Return every region that may match `block`; none if there are too many to compare."""
    wanted = [_without_blanks(line) for line in block.old]
    if not (_MIN_BLOCK_LINES <= len(wanted) <= _MAX_BLOCK_LINES and wanted[0] and wanted[-1]):
        return []
    bounds = list(islice(_anchor_pairs(lines, block.old), _MAX_REGIONS + 1))
    if len(bounds) > _MAX_REGIONS:
        return []
    regions = (_match_region(lines, block, wanted, first, last) for first, last in bounds)
    return [region for region in regions if region is not None]


def _anchor_pairs(lines: ViewLines, old: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield pairs of lines that match the first and the last one, at a similar distance."""
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


def _match_region(
    lines: ViewLines, block: LineBlock, wanted: Sequence[bytes], first: int, last: int
) -> _Region | None:
    raw = lines.lines[first : last + 1]
    actual = [_without_blanks(line) for line in raw]
    matcher = difflib.SequenceMatcher(None, wanted, actual, autojunk=False)
    where: list[int | None] = [None] * len(wanted)
    total_similarity = 0.0
    pairs = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if b - a != d - c:
            continue
        for old, new in zip(range(a, b), range(c, d), strict=True):
            similarity = 1.0 if tag == "equal" else _line_similarity(wanted[old], actual[new])
            if similarity >= _MIN_LINE_SIMILARITY:
                where[old] = new
                total_similarity += similarity
            if tag == "equal":
                pairs.append((block.old[old], raw[new]))
    inner_lines = max(len(wanted), len(actual)) - 2
    if where[0] != 0 or where[-1] != len(actual) - 1:
        return None
    if total_similarity - 2 < MIN_SIMILARITY * inner_lines:
        return None
    runs = [run for each in block.runs if (run := _map_run(each, where, len(actual)))]
    return _Region(first, last + 1, runs, pairs) if len(runs) == len(block.runs) else None


def _map_run(run: Stretch, where: Sequence[int | None], count: int) -> Stretch | None:
    """Map a run to the file's lines; None if it would change a line the model didn't write."""
    if run.before_at == run.before_end:
        before = where[run.before_at - 1] if run.before_at else -1
        after = where[run.before_at] if run.before_at < len(where) else count
        if before is None or after != before + 1:
            return None
        return Stretch(after, after, run.after_at, run.after_end)
    first, last = where[run.before_at], where[run.before_end - 1]
    if first is None or last is None or last - first != run.before_end - 1 - run.before_at:
        return None
    return Stretch(first, last + 1, run.after_at, run.after_end)


def _line_similarity(one: bytes, other: bytes) -> float:
    if max(len(one), len(other)) > _MAX_LINE_BYTES_COMPARED:
        return 0.0
    a, b = one.decode(errors="replace"), other.decode(errors="replace")
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
