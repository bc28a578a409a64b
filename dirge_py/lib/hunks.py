"""A change of a text taken apart into hunks, and put together again from some of them.

Lines keep their ends, whatever they are, and a byte-order mark belongs to the first line: what is
put together is always made of bytes of one side or the other.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

from dirge_py.lib.lean_dataclass import dataclass

JOINED_ACROSS = 2
"""Changes with no more unchanged lines between them are one hunk: they seldom make sense apart."""

_MOST_COMPARED = 2_000
"""Lines of both sides that are compared one by one: it is quadratic. A larger stretch without
lines to hold on to is a single hunk."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines `before_at` to `before_end` of one side become `after_at` to `after_end` of the other.

    Counted from 0, the end not included; one of the two may be empty.
    """

    before_at: int
    before_end: int
    after_at: int
    after_end: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """Stretches that are taken or left together, with the few unchanged lines between them."""

    stretches: Sequence[Stretch]

    @property
    def before_at(self) -> int:
        return self.stretches[0].before_at

    @property
    def before_end(self) -> int:
        return self.stretches[-1].before_end

    @property
    def after_at(self) -> int:
        return self.stretches[0].after_at

    @property
    def after_end(self) -> int:
        return self.stretches[-1].after_end


@dataclass(frozen=True, slots=True)
class Change:
    """Two versions of a text as lines, and where they differ, in order."""

    before: Sequence[str]
    after: Sequence[str]
    hunks: Sequence[Hunk]

    def take(self, accepted: Collection[int]) -> str:
        """The text with only these hunks (their positions) applied: all give `after`."""
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
    """The hunks between two texts; none when they are the same."""
    old, new = lines_of(before), lines_of(after)
    hunks: list[Hunk] = []
    for stretch in _differences(old, new):
        if hunks and stretch.before_at - hunks[-1].before_end <= JOINED_ACROSS:
            hunks.append(Hunk((*hunks.pop().stretches, stretch)))
        else:
            hunks.append(Hunk((stretch,)))
    return Change(old, new, tuple(hunks))


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends. Only a line feed ends one, as for every tool here."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Stretch]:
    """The stretches that differ, in order. Large texts are first cut at lines they share."""
    old_at = new_at = 0
    for old_to, new_to in [*_anchors(old, new), (len(old), len(new))]:
        yield from _compare(old[old_at:old_to], new[new_at:new_to], old_at, new_at)
        old_at, new_at = old_to, new_to


def _compare(
    old: Sequence[str], new: Sequence[str], old_from: int, new_from: int
) -> Iterator[Stretch]:
    head = common_start(old, new)
    tail = common_start(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    old_from, new_from = old_from + head, new_from + head
    if len(old) + len(new) > _MOST_COMPARED:
        yield Stretch(old_from, old_from + len(old), new_from, new_from + len(new))
        return
    for tag, old_at, old_to, new_at, new_to in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            yield Stretch(
                old_from + old_at, old_from + old_to, new_from + new_at, new_from + new_to
            )


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that stand once on either side, as many as keep their order; none in small texts."""
    if len(old) + len(new) <= _MOST_COMPARED:
        return []
    once, once_new = Counter(old), Counter(new)
    where = {line: at for at, line in enumerate(new) if once_new[line] == 1}
    pairs = [(at, where[line]) for at, line in enumerate(old) if once[line] == 1 and line in where]
    # The longest rising sequence of positions: each pair remembers the best one before it.
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


def common_start(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first are the same."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
