"""The name somebody probably meant."""

from collections.abc import Iterable


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The one candidate that `name` is most likely a slip of, or None.

    Compared without case. Half of the name may differ, but at most three letters; two candidates
    that are equally near are no suggestion, because a wrong one costs more than none.
    """
    budget = min(max(len(name) // 2, 1), 3)
    near = sorted(
        (_distance(name.lower(), candidate.lower()), candidate)
        for candidate in set(candidates)
        if candidate != name and abs(len(candidate) - len(name)) <= budget
    )
    if not near or near[0][0] > budget:
        return None
    if len(near) > 1 and near[1][0] == near[0][0]:
        return None
    return near[0][1]


def _distance(left: str, right: str) -> int:
    """Levenshtein's: insertions, deletions and substitutions between the two."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]
