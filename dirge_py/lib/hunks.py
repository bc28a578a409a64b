"""The difference of two texts as hunks, any of which can be applied.

Lines keep their line ends, and a byte-order mark belongs to the first line, so a result always
consists of bytes of one side or the other.
"""

import io
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from dirge_py.lib.lean_dataclass import dataclass

JOINED_ACROSS = 2
"""The most unchanged lines between two changes of one hunk."""

_MAX_PAIRS = 250_000
"""The most pairs of lines to compare (quadratic); a larger stretch is split at unique lines."""
_MAX_CUTS = 6
"""How often a part is split again; a stretch that is still too large differs as a whole."""
L = TypeVar("L", str, bytes)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Replaces lines `before_at` to `before_end` (from 0, end excluded) by the other text's."""

    before_at: int
    before_end: int
    after_at: int
    after_end: int


@dataclass(frozen=True, slots=True)
class Hunk(Stretch):
    """Stretches that are applied together, with the few unchanged lines between them."""

    stretches: Sequence[Stretch]


@dataclass(frozen=True, slots=True)
class Change:
    """Two versions of a text as lines, and where they differ, in order."""

    before: Sequence[str]
    after: Sequence[str]
    hunks: Sequence[Hunk]

    def apply(self, accepted: Collection[int]) -> str:
        """Return the text with only these hunks (by position) applied."""
        parts: list[str] = []
        at = 0
        for number, hunk in enumerate(self.hunks):
            parts += self.before[at : hunk.before_at]
            if number in accepted:
                parts += self.after[hunk.after_at : hunk.after_end]
            else:
                parts += self.before[hunk.before_at : hunk.before_end]
            at = hunk.before_end
        return "".join([*parts, *self.before[at:]])


def diff_hunks(before: str, after: str) -> Change:
    """Return the hunks between two texts; none if they are equal."""
    old, new = lines_of(before), lines_of(after)
    return Change(old, new, tuple(join_near(find_differences(old, new), JOINED_ACROSS)))


def join_near(stretches: Iterable[Stretch], most_between: int) -> Iterator[Hunk]:
    """Join stretches with at most this many unchanged lines between them."""
    group: list[Stretch] = []
    for stretch in (*stretches, None):
        if group and (stretch is None or stretch.before_at - group[-1].before_end > most_between):
            a, b = group[0], group[-1]
            yield Hunk(a.before_at, b.before_end, a.after_at, b.after_end, tuple(group))
            group = []
        group += [stretch] if stretch else []


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends. Only a line feed ends one."""
    return list(io.StringIO(text))


def find_differences(
    old: Sequence[L], new: Sequence[L], within: Stretch | None = None
) -> Iterator[Stretch]:
    """Yield the stretches of lines that differ, in order, in bounded time."""
    budget = 4 * _MAX_PAIRS
    waiting = [(within or Stretch(0, len(old), 0, len(new)), _MAX_CUTS)]
    while waiting:
        whole, cuts = waiting.pop()
        before = old[whole.before_at : whole.before_end]
        after = new[whole.after_at : whole.after_end]
        head = common_start(before, after)
        tail = common_start(before[head:][::-1], after[head:][::-1])
        at, new_at = whole.before_at + head, whole.after_at + head
        part = Stretch(at, whole.before_end - tail, new_at, whole.after_end - tail)
        pairs = (part.before_end - part.before_at) * (part.after_end - part.after_at)
        if part.before_at == part.before_end and part.after_at == part.after_end:
            continue
        if pairs <= 1:
            yield part
        elif pairs <= min(_MAX_PAIRS, budget):
            budget -= pairs
            before = old[at : part.before_end]
            after = new[new_at : part.after_end]
            matcher = SequenceMatcher(None, before, after, autojunk=False)
            for tag, a, b, c, d in matcher.get_opcodes():
                if tag != "equal":
                    yield Stretch(at + a, at + b, new_at + c, new_at + d)
        elif cuts and (pieces := _split_at_unique_lines(old, new, part)) != [part]:
            waiting += [(piece, cuts - 1) for piece in reversed(pieces)]
        else:
            yield part


def _split_at_unique_lines(old: Sequence[L], new: Sequence[L], part: Stretch) -> list[Stretch]:
    """Split the stretch at lines that are unique and equal on both sides."""
    pieces = []
    start, new_start = part.before_at, part.after_at
    before, after = old[part.before_at : part.before_end], new[part.after_at : part.after_end]
    for at, new_at in _common_unique_lines(before, after):
        end, new_end = part.before_at + at, part.after_at + new_at
        if start < end or new_start < new_end:
            pieces.append(Stretch(start, end, new_start, new_end))
        start, new_start = end + 1, new_end + 1
    pieces.append(Stretch(start, part.before_end, new_start, part.after_end))
    return pieces


def _common_unique_lines(old: Sequence[L], new: Sequence[L]) -> list[tuple[int, int]]:
    """Return positions of lines that occur once on either side, in order; n log n time."""
    once, once_new = Counter(old), Counter(new)
    where = {line: at for at, line in enumerate(new) if once_new[line] == 1}
    pairs = [(at, where[line]) for at, line in enumerate(old) if once[line] == 1 and line in where]
    # The longest increasing sequence of positions: each pair stores its best predecessor.
    ends: list[int] = []
    chosen: list[int] = []
    previous: list[int] = []
    for number, (_, position) in enumerate(pairs):
        at = bisect_left(ends, position)
        previous.append(chosen[at - 1] if at else -1)
        ends[at : at + 1] = [position]
        chosen[at : at + 1] = [number]
    rising: list[tuple[int, int]] = []
    number = chosen[-1] if chosen else -1
    while number >= 0:
        rising.append(pairs[number])
        number = previous[number]
    return rising[::-1]


def common_start(one: Sequence[L], other: Sequence[L]) -> int:
    """Return how many of the first items are equal; comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low
