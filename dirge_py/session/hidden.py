"""Files that may have been there although the snapshot of then does not hold them.

Going back removes what was not there then. These must stay: a file that was ignored until the rule
was taken out of `.gitignore`, one that was too large until it shrank, one in a folder that was
another repository.
"""

from collections.abc import Sequence

from dirge_py.session.file_states import FileState
from dirge_py.session.snapshots.base import Snapshot, Snapshots, TreeChange

_MOST_EARLIER = 50
"""Trees in which a file is looked for that was ignored then."""


async def hidden_then(
    snapshots: Snapshots,
    changes: Sequence[TreeChange],
    *,
    state: FileState,
    states: Sequence[FileState],
    now: Snapshot,
) -> frozenset[str]:
    """Of the files that `changes` would remove to get to `state`, those that may have been there.

    `states` are all that are known, in order. Raises SessionError: a tree is gone.
    """
    removed = [change.path for change in changes if change.kind == "removed"]
    if not removed:
        return frozenset()
    since = {path for known in states if known.seq > state.seq for path in known.left_out}
    names = {*since, *state.left_out, *now.left_out}
    folders = tuple(p for known in states for p in known.left_out if p.endswith("/"))
    found = {path for path in removed if path in names or path.startswith(folders)}
    ignored = set(await snapshots.ignored_then(state.tree, removed)) - found
    return frozenset(found | await _never_held(snapshots, ignored, state, states))


async def _never_held(
    snapshots: Snapshots, paths: set[str], state: FileState, states: Sequence[FileState]
) -> set[str]:
    """Those that no state before held: what is held once stays held, until it is not there."""
    left = set(paths)
    before = [known.tree for known in states if known.seq < state.seq and known.tree != state.tree]
    for tree in list(dict.fromkeys(reversed(before)))[:_MOST_EARLIER]:
        if not left:
            break
        if await snapshots.holds(tree):
            gone = await snapshots.changes(tree, state.tree)
            left -= {change.path for change in gone if change.kind == "removed"}
    return left
