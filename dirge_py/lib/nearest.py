"""Suggestions for misspelled names."""

from collections.abc import Iterable

_CUTOFF = 0.66
"""The least similarity of a suggestion: `file_path` is no typo of `path`."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `name` is most likely a typo of, or None.

    Compared without case, by `difflib`'s measure. Two equally near candidates give no suggestion,
    because a wrong one costs more than none.
    """
    from difflib import get_close_matches

    others = sorted({candidate for candidate in candidates if candidate != name})
    near = get_close_matches(name.lower(), [other.lower() for other in others], n=2, cutoff=_CUTOFF)
    if not near or (len(near) > 1 and _likeness(near[0], name) == _likeness(near[1], name)):
        return None
    return next(other for other in others if other.lower() == near[0])


def is_one_edit(typed: str, name: str) -> bool:
    """Whether `typed` is `name` with one letter missing, added, wrong, or swapped with the next."""
    if typed == name or abs(len(typed) - len(name)) > 1:
        return False
    start = next(
        (at for at, (a, b) in enumerate(zip(typed, name, strict=False)) if a != b),
        min(len(typed), len(name)),
    )
    left, right = typed[start:], name[start:]
    swapped = right[1:2] + right[:1] + right[2:]
    return left[1:] in (right, right[1:]) or left == right[1:] or left == swapped


def _likeness(candidate: str, name: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, candidate, name.lower()).ratio()
