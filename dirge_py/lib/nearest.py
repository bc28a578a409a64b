"""Suggestions for misspelled names."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_CUTOFF = 0.66
"""The least similarity of a suggestion: `file_path` is no typo of `path`."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `name` is most likely a typo of, or None.

    Compared without case, by `difflib`'s measure. Two equally near candidates give no suggestion,
    because a wrong one costs more than none.
    """
    others = sorted({candidate for candidate in candidates if candidate != name})
    near = get_close_matches(name.lower(), [other.lower() for other in others], n=2, cutoff=_CUTOFF)
    if not near or (len(near) > 1 and _likeness(near[0], name) == _likeness(near[1], name)):
        return None
    return next(other for other in others if other.lower() == near[0])


def _likeness(candidate: str, name: str) -> float:
    return SequenceMatcher(None, candidate, name.lower()).ratio()
