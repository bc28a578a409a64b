"""Parent pointers as branches.

The last record of a journal is the tip of the current branch. To go on from an earlier point a
`branch` record is appended behind that point; nothing is moved or removed.
"""

from collections.abc import Sequence

from dirge_py.errors import SessionError
from dirge_py.session.record import Record

SESSION_WIDE = frozenset({"model", "mode", "grant", "setting", "title"})
"""What a person chose for the session: the newest counts, whatever branch it was chosen on."""


def branch(records: Sequence[Record], at: str | None = None) -> list[Record]:
    """The records from the first one to `at` (None: the last), in order.

    A record whose parent was lost, or is not before it, hangs on its neighbour in the file.

    Raises:
        SessionError: there is no record `at`.
    """
    if not records:
        return []
    places = {record.id: place for place, record in enumerate(records)}
    here = len(records) - 1 if at is None else places.get(at, -1)
    if here < 0:
        raise SessionError(f"The session has no record {at!r}.")
    path = []
    while here >= 0:
        record = records[here]
        path.append(record)
        above = here - 1 if record.parent is None else places.get(record.parent, here - 1)
        here = above if above < here else here - 1
    path.reverse()
    return path


def records_to_fork(records: Sequence[Record], at: str | None = None) -> list[Record]:
    """What a fork `at` a record starts with: its branch, and the choices made for the session.

    The choices are taken from everywhere: a grant withdrawn on another branch stays withdrawn.
    """
    path = {record.id for record in branch(records, at)}
    return [
        record
        for record in records
        if record.type in SESSION_WIDE or (record.id in path and record.type != "session")
    ]
