"""A run of whole lines that is to become another, and what of it changes.

Lines that stay are never written again: they keep the blanks and line ends that the file has.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.document import Replacement

BLANKS = b" \t"
_MAX_COMPARED = 250_000
"""Pairs of lines. Comparing is quadratic; a larger stretch is replaced as one."""


@dataclass(frozen=True, slots=True)
class Run:
    """Lines `old_start` to `old_end` become `new_start` to `new_end`; one may be none."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Block:
    """Lines `old` are to become `new`, by `runs`. `takes_end`: the last line's end goes too."""

    old: Sequence[bytes]
    new: Sequence[bytes]
    runs: Sequence[Run]
    takes_end: bool = False

    @classmethod
    def of(cls, old: bytes, new: bytes) -> "Block":
        """The lines of two texts. One that ends with a line end means whole lines."""
        ends = old.endswith(b"\n")
        if ends and (new.endswith(b"\n") or not new):
            old_lines, new_lines = old[:-1].split(b"\n"), new[:-1].split(b"\n")
            return cls(old_lines, new_lines, changed_runs(old_lines, new_lines), not new)
        old_lines, new_lines = old.removesuffix(b"\n").split(b"\n"), new.split(b"\n")
        return cls(old_lines, new_lines, changed_runs(old_lines, new_lines), ends)


class ViewLines:
    """The lines of a file, and where blocks of them stand."""

    def __init__(self, view: bytes) -> None:
        self.lines = view.split(b"\n")
        self._starts: list[int] = []
        self._joined: dict[Callable[[bytes], bytes], bytes] = {}

    def start(self, line: int) -> int:
        """Where that line begins in the view."""
        if not self._starts:
            self._starts = list(accumulate((len(each) + 1 for each in self.lines), initial=0))
        return self._starts[line]

    def find(self, block: Sequence[bytes], normal: Callable[[bytes], bytes]) -> Iterator[int]:
        """The numbers of the lines at which `block` stands, if each line counts as its `normal`."""
        if normal not in self._joined:
            self._joined[normal] = b"\n" + b"\n".join(map(normal, self.lines)) + b"\n"
        # Joined with a newline on both sides, a run of whole lines is found as one substring.
        haystack = self._joined[normal]
        needle = b"\n" + b"\n".join(map(normal, block)) + b"\n"
        position = haystack.find(needle)
        line = counted = 0
        while position >= 0:
            line += haystack.count(b"\n", counted, position)
            counted = position
            yield line
            position = haystack.find(needle, position + 1)


def changed_runs(old: Sequence[bytes], new: Sequence[bytes]) -> list[Run]:
    """The fewest runs of lines that differ, as far as that can be told in bounded time."""
    head, tail = _common(old, new)
    old_end, new_end = len(old) - tail, len(new) - tail
    if head == old_end and head == new_end:
        return []
    if (old_end - head) * (new_end - head) > _MAX_COMPARED:
        return [Run(head, old_end, head, new_end)]
    matcher = difflib.SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
    return [
        Run(head + a, head + b, head + c, head + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def replacements(
    standing: Sequence[bytes], block: Block, runs: Sequence[Run], *, is_open: bool
) -> tuple[Replacement, ...]:
    """The changes that `runs` make in the lines that stand there, counted from their start.

    `is_open`: behind the last of them there is no line end.
    """
    starts = list(accumulate((len(each) + 1 for each in standing), initial=0))
    if block.takes_end and not is_open:
        return (Replacement(0, starts[-1], b"\n".join(block.new)),)
    return tuple(_replacement(starts, block.new, run, is_open=is_open) for run in runs)


def _replacement(
    starts: Sequence[int], new: Sequence[bytes], run: Run, *, is_open: bool
) -> Replacement:
    """A line goes with the line end behind it, where there is one, and comes with one."""
    text = b"\n".join(new[run.new_start : run.new_end])
    is_last = run.old_end == len(starts) - 1
    start, end = starts[run.old_start], starts[run.old_end] - 1
    if run.old_start < run.old_end and run.new_start < run.new_end:
        return Replacement(start, end, text)
    if run.old_start < run.old_end:
        if is_last and is_open:
            return Replacement(start - 1, end, b"")
        return Replacement(start, end + 1, b"")
    return (
        Replacement(end, end, b"\n" + text) if is_last else Replacement(start, start, text + b"\n")
    )


def adapted(new: Sequence[bytes], pairs: Sequence[tuple[bytes, bytes]]) -> list[bytes] | None:
    """`new` indented as the file is; None if no one way fits all.

    `pairs` are lines as they were written and as they stand in the file.
    """
    known: dict[bytes, bytes] = {}
    for written, there in pairs:
        if there.strip(BLANKS):
            indent = _indent(there)
            if known.setdefault(_indent(written), indent) != indent:
                return None
    if len(set(known.values())) < len(known):
        return None
    return [_translated(line, known) for line in new] if known else list(new)


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines are equal at the head and at the tail."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while head + tail < limit and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def _translated(line: bytes, known: dict[bytes, bytes]) -> bytes:
    """`line` with its indentation exchanged for the file's; unknown depths go by the nearest."""
    if not line.strip(BLANKS):
        return line
    indent = _indent(line)
    text = line[len(indent) :]
    inner = [each for each in known if indent.startswith(each)]
    if inner:
        nearest = max(inner, key=len)
        return known[nearest] + indent[len(nearest) :] + text
    shallowest = min(known, key=len)
    missing = len(shallowest) - len(indent)
    return known[shallowest][: max(0, len(known[shallowest]) - missing)] + text
