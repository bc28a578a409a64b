"""What became of the files since a session began, as one unified diff."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.file_states import file_states
from dirge_py.session.record import Record
from dirge_py.session.snapshots.base import Snapshots

Uncommitted: TypeAlias = Callable[[], Awaitable[str | None]]
"""The change since the last commit, with new files; None where that cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`diff` is empty where nothing differs. `since` says for people what it is compared with.

    `obstacle` says why there is none at all.
    """

    diff: str = ""
    since: str = ""
    obstacle: str = ""


async def since_beginning(
    records: Sequence[Record],
    snapshots: Snapshots | None,
    path: str = "",
    *,
    uncommitted: Uncommitted | None = None,
) -> Difference:
    """The oldest snapshot of the session against the files of now, whoever changed them.

    `path`, relative to the project, narrows it to one file or folder. Where no snapshots are kept
    it is the change since the last commit, of all files.

    Raises:
        SessionError: the snapshots cannot be read.
    """
    now = await snapshots.take() if snapshots is not None else None
    if snapshots is None or now is None:
        why = snapshots.unavailable if snapshots is not None else "No snapshots are kept here."
        return await _since_commit(uncommitted, why)
    states = file_states(records)
    for number, state in enumerate(states):
        if await snapshots.holds(state.tree):
            since = "the session began" if number == 0 else "the oldest snapshot that is kept"
            diff = await snapshots.difference(state.tree, now.tree, path)
            return Difference(diff=diff, since=since)
    if states:
        return await _since_commit(uncommitted, "The snapshots of this session are gone.")
    return Difference(since="the session began")


async def _since_commit(uncommitted: Uncommitted | None, why: str) -> Difference:
    diff = await uncommitted() if uncommitted is not None else None
    if diff is None:
        return Difference(obstacle=why)
    return Difference(diff=diff, since="the last commit")
