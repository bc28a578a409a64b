"""Parent pointers as branches.

The last record of a journal is the tip of the current branch. To go on from an earlier point a
`branch` record is appended behind that point; nothing is moved or removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dirge_py.session.record import Record
from dirge_py.types.errors import SessionError

SESSION_WIDE = frozenset({"model", "mode", "grant", "setting", "title"})
"""What a person chose for the session: the newest counts, whatever branch it was chosen on."""

BRANCH_SETTINGS = frozenset({"todo", "plan", "files_read"})
"""Settings that are about what was said, and so are those of the branch."""

UNSENT_SETTINGS = frozenset({"draft", "queue"})
"""What a person has not sent yet. It stays where it was typed: in a fork it would come twice."""


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


def with_parents(records: Sequence[Record]) -> Iterator[tuple[Record, Record | None]]:
    """Each record in order, and the one that it hangs on, mended as in `branch`."""
    places: dict[str, int] = {}
    for place, record in enumerate(records):
        above = place - 1 if record.parent is None else places.get(record.parent, place - 1)
        yield record, records[above] if above >= 0 else None
        places[record.id] = place


def settings_at(records: Sequence[Record], at: str | None = None) -> Mapping[str, Any]:
    """The settings as they were on the branch that ends `at` a record.

    Raises:
        SessionError: there is no such record.
    """
    return {
        record.data["name"]: record.data.get("value")
        for record in branch(records, at)
        if record.type == "setting" and _setting_name(record)
    }


def records_to_fork(records: Sequence[Record], at: str | None = None) -> list[Record]:
    """What a fork `at` a record starts with: its branch, and the choices made for the session.

    The choices are taken from everywhere: a grant withdrawn on another branch stays withdrawn.
    What is not sent yet stays with the original.
    """
    path = {record.id for record in branch(records, at)}
    return [
        record
        for record in records
        if _is_chosen_for_session(record) or (record.id in path and _is_of_branch(record))
    ]


def _is_chosen_for_session(record: Record) -> bool:
    if record.type != "setting":
        return record.type in SESSION_WIDE
    return _setting_name(record) not in BRANCH_SETTINGS | UNSENT_SETTINGS


def _is_of_branch(record: Record) -> bool:
    return record.type != "session" and _setting_name(record) not in UNSENT_SETTINGS


def _setting_name(record: Record) -> str:
    if record.type != "setting" or not isinstance(record.data, Mapping):
        return ""
    name = record.data.get("name")
    return name if isinstance(name, str) else ""
