"""Where in a file the text of an edit is: exactly, else by the first forgiving strategy that fits.

Only the exact strategy may answer with several places. A forgiving one must find exactly one,
because what it changes was not written by the model to the letter.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.document import Replacement

Strategy = Literal["exact", "trailing blanks ignored", "indentation adapted"]
STRATEGIES: tuple[Strategy, ...] = ("exact", "trailing blanks ignored", "indentation adapted")

_BLANKS = b" \t"


@dataclass(frozen=True, slots=True)
class Matches:
    """All places found by one strategy: where the text begins, and what to change there.

    `change` counts from the start of the place. It is that of the first place, and holds for the
    others only if the strategy is exact.
    """

    strategy: Strategy
    starts: Sequence[int]
    change: Replacement

    def replacements(self) -> Iterator[Replacement]:
        """The changes of all places, ascending. Made one by one: there may be 100,000."""
        for start in self.starts:
            yield self.change.moved(start)


def find(view: bytes, old: bytes, new: bytes) -> Matches | None:
    """What to replace so that `old` becomes `new`; None if `old` is nowhere. All with LF.

    More than one replacement means that the place is ambiguous, unless all were asked for.
    """
    starts = list(_occurrences(view, old))
    if starts:
        return Matches("exact", starts, _trimmed(old, new))
    if not old.strip():
        return None
    wanted = _Lines.of(old, new)
    for strategy, normal, replace in (
        (STRATEGIES[1], _without_trailing_blanks, _as_written),
        (STRATEGIES[2], _without_indentation, _with_indentation_of),
    ):
        found = list(_line_matches(view, wanted, normal, replace))
        if found:
            return Matches(strategy, [start for start, _ in found], found[0][1])
    return None


def has_overlap(view: bytes, old: bytes, start: int) -> bool:
    """Whether `old` also begins inside its own occurrence at `start`."""
    return view.find(old, start + 1, start + 2 * len(old) - 1) >= 0


def _occurrences(view: bytes, old: bytes) -> Iterator[int]:
    start = view.find(old)
    while start >= 0:
        yield start
        start = view.find(old, start + len(old))


def _trimmed(old: bytes, new: bytes) -> Replacement:
    """The smallest run of lines that differs, so that lines which stay keep their own line ends."""
    lines = old.split(b"\n")
    head, tail = _common_lines(lines, new.split(b"\n"))
    before = sum(len(line) + 1 for line in lines[:head])
    after = sum(len(line) + 1 for line in lines[len(lines) - tail :])
    return Replacement(before, len(old) - after, new[before : len(new) - after])


def _common_lines(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines are equal at the head and at the tail, leaving at least one on each side."""
    limit = min(len(old), len(new)) - 1
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while head + tail < limit and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


@dataclass(frozen=True, slots=True)
class _Lines:
    """Old and new text as whole lines. `takes_end`: the last line's end goes too."""

    old: list[bytes]
    new: list[bytes]
    takes_end: bool

    @classmethod
    def of(cls, old: bytes, new: bytes) -> "_Lines":
        ends = old.endswith(b"\n")
        if ends and (new.endswith(b"\n") or not new):
            return cls(old[:-1].split(b"\n"), new[:-1].split(b"\n"), takes_end=not new)
        return cls(old.removesuffix(b"\n").split(b"\n"), new.split(b"\n"), takes_end=ends)


_Normal = Callable[[bytes], bytes]
_Replace = Callable[[_Lines, Sequence[bytes]], list[bytes] | None]
"""The lines to put in place of those that stand there; None if these do not fit after all."""


def _line_matches(
    view: bytes, wanted: _Lines, normal: _Normal, replace: _Replace
) -> Iterator[tuple[int, Replacement]]:
    lines = view.split(b"\n")
    # Joined with a newline on both sides, a run of whole lines is found as one substring.
    haystack = b"\n" + b"\n".join(map(normal, lines)) + b"\n"
    needle = b"\n" + b"\n".join(map(normal, wanted.old)) + b"\n"
    position = haystack.find(needle)
    line = offset = counted = 0
    while position >= 0:
        passed = haystack.count(b"\n", counted, position)
        offset += sum(len(each) + 1 for each in lines[line : line + passed])
        line, counted = line + passed, position
        standing = lines[line : line + len(wanted.old)]
        new = replace(wanted, standing)
        if new is not None:
            is_last = line + len(standing) == len(lines)
            yield offset, _change(standing, new, takes_end=wanted.takes_end and not is_last)
        position = haystack.find(needle, position + 1)


def _change(standing: Sequence[bytes], new: Sequence[bytes], *, takes_end: bool) -> Replacement:
    old, text = b"\n".join(standing), b"\n".join(new)
    return Replacement(0, len(old) + 1, text) if takes_end else _trimmed(old, text)


def _without_trailing_blanks(line: bytes) -> bytes:
    return line.rstrip(_BLANKS)


def _without_indentation(line: bytes) -> bytes:
    return line.strip(_BLANKS)


def _as_written(wanted: _Lines, standing: Sequence[bytes]) -> list[bytes]:
    """The new lines; those the edit leaves alone keep the blanks that stand in the file."""
    head, tail = _common_lines(wanted.old, wanted.new)
    middle = wanted.new[head : len(wanted.new) - tail]
    return [*standing[:head], *middle, *standing[len(standing) - tail :]]


def _with_indentation_of(wanted: _Lines, standing: Sequence[bytes]) -> list[bytes] | None:
    """The new lines, indented as the lines that stand in the file; None if no one way fits all."""
    known: dict[bytes, bytes] = {}
    for written, there in zip(wanted.old, standing, strict=True):
        if there.strip(_BLANKS) and known.setdefault(_indent(written), _indent(there)) != _indent(
            there
        ):
            return None
    if len(set(known.values())) < len(known):
        return None
    head, tail = _common_lines(wanted.old, wanted.new)
    middle = wanted.new[head : len(wanted.new) - tail]
    moved = [_translated(line, known) for line in middle]
    return [*standing[:head], *moved, *standing[len(standing) - tail :]]


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _translated(line: bytes, known: dict[bytes, bytes]) -> bytes:
    """`line` with its indentation exchanged for the file's; unknown depths go by the nearest."""
    if not line.strip(_BLANKS):
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
