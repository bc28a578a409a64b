"""Lines by which two long texts can be laid side by side: those that occur once in both."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence


def common_unique_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs of positions of such lines, the longest row that ascends on both sides.

    Takes n log n time, however different the texts are.
    """
    in_new = {line: at for at, line in enumerate(new)}
    counts = Counter(new)
    seen = Counter(old)
    pairs = [
        (at, in_new[line])
        for at, line in enumerate(old)
        if seen[line] == 1 and counts.get(line) == 1
    ]
    return _longest_ascending(pairs)


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ends: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        place = bisect_left(ends, value)
        before.append(holders[place - 1] if place else -1)
        ends[place : place + 1] = [value]
        holders[place : place + 1] = [index]
    row = []
    at = holders[-1] if holders else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]
