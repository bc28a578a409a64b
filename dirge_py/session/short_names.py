"""The shortest names by which sessions can be told apart."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

_SHORTEST = 4


def short_names(ids: Iterable[str]) -> Mapping[str, str]:
    """For each id of a project what is enough to find it: four characters at least, if it has them.

    It is the beginning of what follows the date, else of the whole id, else the id.
    """
    known = sorted(set(ids))
    tails = sorted(session_id.partition("-")[2] for session_id in known)
    return {session_id: _short(session_id, known, tails) for session_id in known}


def _short(session_id: str, known: Sequence[str], tails: Sequence[str]) -> str:
    tail = session_id.partition("-")[2]
    for length in range(_SHORTEST, len(tail) + 1):
        name = tail[:length]
        # The beginnings of whole ids come first when a session is looked for.
        if _beginning(tails, name) == 1 and _beginning(known, name) == 0:
            return name
    for length in range(2 * _SHORTEST, len(session_id)):
        if _beginning(known, session_id[:length]) == 1:
            return session_id[:length]
    return session_id


def _beginning(names: Sequence[str], start: str) -> int:
    """How many of the sorted names begin so; 2 stands for more."""
    at = bisect_left(names, start)
    return sum(name.startswith(start) for name in names[at : at + 2])
