"""Whose changes stand between two states of the files: those of a person are theirs to keep."""

from collections.abc import Sequence

from dirge_py.session.file_states import FileState
from dirge_py.session.snapshots.base import Snapshot, Snapshots, TreeChange
from dirge_py.types.errors import SessionError


async def changed_by_person(
    snapshots: Snapshots, state: FileState, later: Sequence[FileState], now: Snapshot
) -> set[str] | None:
    """The paths that changed since `state` while no run went on; None where that cannot be told."""
    found: set[str] = set()
    try:
        for known in (*later, FileState(seq=0, tree=now.tree, by="person")):
            if known.by == "person":
                found |= await _by_person(snapshots, state, known)
            state = known
    except SessionError:
        return None
    return found


async def changes_between(snapshots: Snapshots, before: str, after: str) -> Sequence[TreeChange]:
    """What differs. Raises SessionError: a tree is gone."""
    return await snapshots.changes(before, after) if before != after else ()


async def _by_person(snapshots: Snapshots, before: FileState, after: FileState) -> set[str]:
    changed = {c.path for c in await changes_between(snapshots, before.tree, after.tree)}
    if not changed or not before.toward:
        return changed
    # A move that was killed had put back some of these: they are as it wanted them.
    other = await changes_between(snapshots, before.toward, after.tree)
    return changed & {change.path for change in other}
