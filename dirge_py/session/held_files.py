"""Files that snapshots leave out until a tool is about to change them.

From then on they are held. Going back behind that moment takes them from the first tree that has
them: until the tool changed them, they were as they are there.
"""

import os
from collections.abc import Mapping, Sequence

from dirge_py.session.file_states import FileState, file_states
from dirge_py.session.ownership import changes_between
from dirge_py.session.record import Record
from dirge_py.session.snapshots.base import Restored, Snapshot, Snapshots, TreeChange


async def taken(snapshots: Snapshots | None, records: Sequence[Record]) -> Snapshot | None:
    """The files as they are now, with those that were held at any time in these records."""
    if snapshots is None:
        return None
    held = {path for known in file_states(records) for path in known.held}
    return await snapshots.take([os.path.join(snapshots.root, path) for path in sorted(held)])


async def held_later(
    snapshots: Snapshots, states: Sequence[FileState], state: FileState
) -> dict[str, str]:
    """Paths that `state` does not hold, each with the first tree after it that does."""
    later = [known for known in reversed(states) if known.seq > state.seq and known.held]
    whole = {tree for tree in {known.tree for known in later} if await snapshots.holds(tree)}
    return {path: known.tree for known in later if known.tree in whole for path in known.held}


async def changes_to(
    snapshots: Snapshots, now: str, state: FileState, held: Mapping[str, str]
) -> Sequence[TreeChange]:
    """What going to `state` would change, by path. Raises SessionError: a tree is gone."""
    found = [
        change
        for change in await changes_between(snapshots, now, state.tree)
        if change.path not in held
    ]
    for tree in set(held.values()):
        since = await changes_between(snapshots, now, tree)
        found += [change for change in since if held.get(change.path) == tree]
    return sorted(found, key=lambda change: change.path)


async def restore(
    snapshots: Snapshots, paths: Sequence[str], state: FileState, held: Mapping[str, str]
) -> Restored:
    """Make these paths as they were. Raises SessionError: a tree is gone."""
    done: list[str] = []
    failed: list[tuple[str, str]] = []
    trees = {path: held.get(path, state.tree) for path in paths}
    for tree in dict.fromkeys(trees.values()):
        one = await snapshots.restore(tree, [path for path in paths if trees[path] == tree])
        done += one.done
        failed += one.failed
    return Restored(done=tuple(sorted(done)), failed=tuple(sorted(failed)))
