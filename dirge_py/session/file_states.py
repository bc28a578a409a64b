"""The snapshots that a journal names, and how the files now differ from them.

A snapshot can lack files that existed. It omits ignored and large files until a tool is about to
change them; going back takes such a file from the first later tree that holds it. Other files were
ignored, too large, or in another repository; going back must not remove those.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from dirge_py.git.objects import TreeChange
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.record import Record, text_member, texts_in
from dirge_py.session.snapshots.base import SNAPSHOT_RECORD, RestoreResult, Snapshot
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.session.tree import MOVE_RECORD, RewindPoint
from dirge_py.types.errors import SessionError

ChangedBy = Literal["agent", "person", "move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A snapshot that the journal names, and who made the changes since the one before."""

    seq: int
    """The number of its record."""
    tree: str
    """The id of the tree."""
    by: ChangedBy
    """Who made the changes between it and the one before."""
    at: str = ""
    """The kind of moment it was taken at; see `SnapshotMoment`."""
    run_id: str = ""
    """The run it belongs to."""
    toward: str = ""
    """The tree that a move was about to restore."""
    left_out: tuple[str, ...] = ()
    """Existing files that it doesn't hold."""
    held: tuple[str, ...] = ()
    """Paths of existing files that this state is the first to hold, unchanged since before."""


def file_states(records: Sequence[Record]) -> list[FileState]:
    """The states of the files in the journal's order, as all branches share one working tree."""
    return [state for record in records if (state := _state(record)) is not None]


def unfinished_move(records: Sequence[Record]) -> FileState | None:
    """The state before a move that was killed while it restored files; None if it finished."""
    states = file_states(records)
    last = states[-1] if states else None
    if last is None or not last.toward:
        return None
    is_over = any(record.type == MOVE_RECORD and record.seq > last.seq for record in records)
    return None if is_over else last


def state_before(states: Sequence[FileState], point: RewindPoint) -> FileState | None:
    """The files when a prompt was sent, which may be recorded after it; None if unknown."""
    if not point.run_id:
        return state_at(states, point.seq)
    of_run = (s for s in states if s.run_id == point.run_id and s.at == "before_run")
    return next(of_run, None)


def state_at(states: Sequence[FileState], seq: int) -> FileState | None:
    """The newest state that was recorded up to the record `seq`."""
    return next((state for state in reversed(states) if state.seq <= seq), None)


def _state(record: Record) -> FileState | None:
    match record.type, record.data:
        case str(kind), {"tree": str(tree), "at": str(at), **rest} if (
            kind == SNAPSHOT_RECORD and tree
        ):
            return FileState(
                seq=record.seq,
                tree=tree,
                by="agent" if at == "turn" else "person",
                at=at,
                run_id=text_member(rest, "run_id"),
                toward=text_member(rest, "toward"),
                left_out=texts_in(rest.get("left_out")),
                held=texts_in(rest.get("held")),
            )
        case str(kind), {"tree_after": str(tree)} if kind == MOVE_RECORD and tree:
            return FileState(seq=record.seq, tree=tree, by="move")
    return None


async def files_held_later(
    snapshots: SnapshotRepository, states: Sequence[FileState], state: FileState
) -> dict[str, str]:
    """Paths that `state` does not hold, each with the first tree after it that does."""
    later = [known for known in reversed(states) if known.seq > state.seq and known.held]
    whole = {tree for tree in {known.tree for known in later} if await snapshots.holds(tree)}
    return {path: known.tree for known in later if known.tree in whole for path in known.held}


async def changes_to_state(
    snapshots: SnapshotRepository, now: str, state: FileState, held: Mapping[str, str]
) -> Sequence[TreeChange]:
    """The changes to get to `state`, by path. Raises SessionError: a tree is gone."""
    changes = [
        change
        for tree in {state.tree, *held.values()}
        for change in await snapshots.changes(now, tree)
        if held.get(change.path, state.tree) == tree
    ]
    return sorted(changes, key=lambda change: change.path)


async def restore_files(
    snapshots: SnapshotRepository, paths: Sequence[str], state: FileState, held: Mapping[str, str]
) -> RestoreResult:
    """Restore these paths to `state`. Raises SessionError: a tree is gone."""
    done: list[str] = []
    failed: list[tuple[str, str]] = []
    trees = {path: held.get(path, state.tree) for path in paths}
    for tree in dict.fromkeys(trees.values()):
        restored = await snapshots.restore(tree, [path for path in paths if trees[path] == tree])
        done += restored.done
        failed += restored.failed
    return RestoreResult(done=tuple(sorted(done)), failed=tuple(sorted(failed)))


_MAX_EARLIER_TREES = 50
"""How many earlier trees are searched for a file that was ignored at the time."""


async def find_hidden_files(
    snapshots: SnapshotRepository,
    changes: Sequence[TreeChange],
    *,
    state: FileState,
    states: Sequence[FileState],
    now: Snapshot,
) -> frozenset[str]:
    """The removed files that may have existed at `state`. Raises SessionError: a tree is gone."""
    removed = [change.path for change in changes if change.kind == "removed"]
    if not removed:
        return frozenset()
    since = {path for known in states if known.seq > state.seq for path in known.left_out}
    names = {*since, *state.left_out, *now.left_out}
    folders = tuple(p for known in states for p in known.left_out if p.endswith("/"))
    hidden = {path for path in removed if path in names or path.startswith(folders)}
    ignored = set(await snapshots.ignored_then(state.tree, removed)) - hidden
    return frozenset(hidden | await _never_held(snapshots, ignored, state, states))


async def _never_held(
    snapshots: SnapshotRepository, paths: set[str], state: FileState, states: Sequence[FileState]
) -> set[str]:
    """The paths that no earlier state holds; a held file stays held until it is deleted."""
    left = set(paths)
    before = [known.tree for known in states if known.seq < state.seq and known.tree != state.tree]
    for tree in list(dict.fromkeys(reversed(before)))[:_MAX_EARLIER_TREES]:
        if not left:
            break
        if await snapshots.holds(tree):
            gone = await snapshots.changes(tree, state.tree)
            left -= {change.path for change in gone if change.kind == "removed"}
    return left


async def files_changed_by_person(
    snapshots: SnapshotRepository, state: FileState, later: Sequence[FileState], now: Snapshot
) -> set[str] | None:
    """The paths that changed since `state` while no run was active; None if unknown."""
    changed: set[str] = set()
    try:
        for known in (*later, FileState(seq=0, tree=now.tree, by="person")):
            if known.by == "person":
                since = {c.path for c in await snapshots.changes(state.tree, known.tree)}
                if since and state.toward:
                    # A killed move had already restored some of these files.
                    other = await snapshots.changes(state.toward, known.tree)
                    since &= {change.path for change in other}
                changed |= since
            state = known
    except SessionError:
        return None
    return changed


UncommittedDiff: TypeAlias = Callable[[], Awaitable[str | None]]
"""Returns the diff since the last commit, with new files; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDiff:
    """The changes to the files since the session began."""

    diff: str = ""
    """The unified diff; empty if nothing differs."""
    since: str = ""
    """The base of the comparison, in words."""
    obstacle: str = ""
    """Why there is no diff; empty if there is one."""


async def diff_since_beginning(
    records: Sequence[Record],
    snapshots: SnapshotRepository | None,
    path: str = "",
    *,
    uncommitted: UncommittedDiff | None = None,
) -> SessionDiff:
    """The difference between the oldest snapshot of the session and the files now.

    `path`, relative to the project, limits it to one file or folder. Without snapshots, it is the
    diff of all files since the last commit. Raises SessionError: the snapshots can't be read.
    """
    now = await snapshots.take_snapshot() if snapshots is not None else None
    if snapshots is None or now is None:
        why = snapshots.unavailable if snapshots is not None else "This project has no snapshots."
    else:
        states = file_states(records)
        for number, state in enumerate(states):
            if await snapshots.holds(state.tree):
                since = "the session began" if number == 0 else "the oldest snapshot that is kept"
                diff = await snapshots.difference(state.tree, now.tree, path)
                return SessionDiff(diff=diff, since=since)
        if not states:
            return SessionDiff(since="the session began")
        why = "The snapshots of this session are gone."
    changed = await uncommitted() if uncommitted is not None else None
    if changed is None:
        return SessionDiff(obstacle=why)
    return SessionDiff(diff=changed, since="the last commit")
