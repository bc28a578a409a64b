"""The snapshots of one project, in a private git repository outside of the project."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dirge_py.git.objects import TreeChange, is_in_index, read_blob
from dirge_py.git.repository import git_folders
from dirge_py.git.runner import Git, GitFailed, find_git, personal_excludes
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import upwards
from dirge_py.session.ids import project_id, project_root
from dirge_py.session.snapshots.base import RestoreResult, Snapshot
from dirge_py.session.snapshots.capture import (
    ProjectTooLarge,
    SnapshotCapture,
    SnapshotLimits,
    is_never_held,
)
from dirge_py.session.snapshots.store import (
    StoreFolder,
    StoreLease,
    acquire_lease,
    prune_store,
    sessions_in_use,
)
from dirge_py.types.errors import SessionError
from dirge_py.types.extensions import Extension

_MOST_ATTEMPTS = 4
"""How often one snapshot is tried."""
T = TypeVar("T")
NO_GIT = "Without git, `/undo` and `/rewind` bring back the conversation only: install git."
_FRESH_S = 10.0
"""How long a tree counts as whole after a check, because lists ask about the same trees."""
_ONLY = "`/undo` and `/rewind` bring back the conversation only"


class SnapshotRepository:
    """Snapshots of the project around `project`, kept below `state_dir` for `session`.

    `path` is the search path for git; a git inside the project is never used. `on_notice` gets
    lines for the user. Operations run one at a time; cancelling a caller doesn't stop an operation
    that has begun.
    """

    def __init__(
        self,
        state_dir: Path,
        project: Path,
        *,
        session: str,
        path: str,
        limits: SnapshotLimits,
        on_notice: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = os.fspath(project_root(project))
        """The physical folder of the project."""
        self._state = os.path.realpath(state_dir)
        self._session = _as_ref(session)
        self._limits = limits
        self._on_notice = on_notice
        self._clock = clock
        program = find_git(path, self.root)
        self._git = Git(program=program, path=path, root=self.root)
        self._folder = StoreFolder(Path(self._state, "snapshots"), project_id(project), self._git)
        self._never = _why_unavailable(self.root, program)
        self._failure = ""
        self._capture: SnapshotCapture | None = None
        self._lease: StoreLease | None = None
        self._personal: Path | None = None
        self._whole: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def unavailable(self) -> str:
        """Why there are no snapshots, for the user; "" if there are."""
        return self._never or self._failure

    @property
    def store(self) -> Path:
        """The path of the private repository."""
        return self._folder.path

    async def take_snapshot(self, also: Sequence[str] = ()) -> Snapshot | None:
        """Take a snapshot of the working tree; None if that fails (see `unavailable`).

        The files `also` (absolute, physical paths) are held from now on even if git ignores them,
        and in this snapshot even if they are large; files that can't be held are skipped.
        """
        if self._never or self._is_closed:
            return None
        return await self._alone(self._take([path for path in map(self._in_project, also) if path]))

    def holds_file(self, real: str) -> bool:
        """Whether the newest snapshot holds the file at this physical path."""
        path = self._in_project(real)
        return bool(path) and not self.unavailable and self._is_held(path)

    def unheld(self, reals: Sequence[str]) -> Sequence[str]:
        """The files among these physical paths that only `take_snapshot(also=…)` would hold."""
        if self.unavailable or self._is_closed:
            return ()
        paths = {real: self._in_project(real) for real in reals}
        return [real for real, path in paths.items() if path and not self._is_held(path)]

    def _is_held(self, path: str) -> bool:
        return self._lease is not None and is_in_index(self._lease.index, path)

    def _in_project(self, real: str) -> str:
        """The path relative to the project; "" if no snapshot can hold a file there."""
        if not real.startswith(f"{self.root}/") or real.startswith(f"{self._state}/"):
            return ""
        path = real[len(self.root) + 1 :]
        above = filter(None, upwards(os.path.dirname(path)))
        if is_never_held(path) or any(os.path.lexists(f"{self.root}/{at}/.git") for at in above):
            return ""
        return path

    async def holds(self, tree: str) -> bool:
        """Whether the tree exists and is whole; it may be pruned, or the store damaged."""
        if self._is_closed or self._is_missing():
            return False
        return await self._alone(self._holds(tree))

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        """The changes between two trees, by path. Raises SessionError: one of them is gone."""
        return await self._read(self._folder.changes(before, after)) if before != after else ()

    async def difference(self, before: str, after: str, path: str = "") -> str:
        """The unified diff of two trees, of `path` or all. Raises SessionError: one is gone."""
        return await self._read(self._folder.difference(before, after, path))

    async def ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        """The paths that rules in the tree ignore: they may have existed. Raises as `changes`."""
        return await self._read(self._ignored_then(tree, paths))

    async def restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        """Make these paths of the project match `tree`. Raises SessionError: it is gone."""
        return await self._read(self._restore(tree, paths))

    async def prune(self) -> None:
        """Remove snapshots beyond the limits, at most once a day; may be cancelled any time."""
        if self._is_closed or self._is_missing() or self._lease is None:
            return
        is_whole = await prune_store(
            self._folder,
            session=self._session,
            days=self._limits.days,
            max_bytes=self._limits.max_bytes,
            clock=self._clock,
        )
        if not is_whole and not self._is_closed:
            await self._alone(self._set_aside())

    async def aclose(self) -> None:
        """Stop running operations, and leave the index to the next process."""
        self._is_closed = True
        if self._capture is not None:
            self._capture.stop()
        await self._git.runner.shutdown()
        async with self._turn:
            if self._lease is not None:
                await asyncio.to_thread(self._lease.publish)
            await asyncio.to_thread(self._release)

    # -- one after the other

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_turn() -> T:
            async with self._turn:
                return await work

        return await asyncio.shield(asyncio.ensure_future(in_turn()))

    async def _read(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_missing():
            work.close()
            raise SessionError(
                f"There are no snapshots of {self.root}.", hint=self.unavailable or NO_GIT
            )
        return await self._alone(work)

    # -- taking

    async def _take(self, also: Sequence[str] = ()) -> Snapshot | None:
        was_there = self._folder.is_there
        try:
            snapshot = await self._taken(also)
        except ProjectTooLarge as error:
            self._never = (
                f"No snapshots of the files are kept in {self.root}: {error}. {_ONLY}. "
                "What `.gitignore` leaves out is not counted."
            )
            self._release()
            async with self._folder.locked():
                # Remove a partly made store, unless another process uses it by now.
                if not was_there and not sessions_in_use(self._folder.path):
                    await asyncio.to_thread(shutil.rmtree, self._folder.path, True)
            return None
        except (GitFailed, SessionError, OSError) as error:
            if self._is_closed:  # it was stopped
                return None
            why = error.message if isinstance(error, SessionError) else str(error)
            self._failure = f"Cannot take a snapshot of the files: {why}"
            return None
        self._failure = ""
        return replace(snapshot, held=tuple(path for path in also if self._is_held(path)))

    async def _taken(self, also: Sequence[str]) -> Snapshot:
        """Take a snapshot. After a failure, retry, then with a new index, then in a new store."""
        date = int(self._clock())
        if self._folder.is_there and not self._folder.is_whole:
            await self._set_aside()
        for attempt in range(1, _MOST_ATTEMPTS):
            try:
                return await (await self._ready()).take_snapshot(date, also)
            except GitFailed as error:
                if error.is_disk_full or self._is_closed:
                    raise
            # Git stops if a file changes while it is read; a retry usually works.
            if attempt == 2:
                if self._lease is not None:
                    self._lease.forget_index()
                self._release()
            elif attempt == 3 and await self._folder.is_damaged():
                await self._set_aside()
        return await (await self._ready()).take_snapshot(date, also)

    async def _ready(self) -> SnapshotCapture:
        if self._capture is not None and self._lease is not None and self._lease.folder.is_dir():
            return self._capture
        self._release()
        async with self._folder.locked():
            if not self._folder.is_there:
                await self._folder.make()
            self._lease = await asyncio.to_thread(acquire_lease, self._folder.path, self._session)
        project = git_folders(self.root)
        self._personal = await personal_excludes(
            self._git, project, self._lease.folder / "personal"
        )
        own = os.path.relpath(self._state, self.root)
        self._capture = SnapshotCapture(
            self._git,
            self._lease,
            project=project,
            personal=self._personal,
            own_folder="" if own.startswith("..") else own,
            ref=f"refs/dirge/{self._session}",
            limits=self._limits,
        )
        return self._capture

    def _release(self) -> None:
        lease, self._lease, self._capture = self._lease, None, None
        if lease is not None:
            lease.release()

    async def _set_aside(self) -> None:
        """Move the store aside and begin a new one; intact objects of the old one stay readable."""
        self._release()
        self._whole.clear()
        async with self._folder.locked():
            aside = await asyncio.to_thread(self._folder.set_aside)
            # A new store can read objects of the old one even if files of that are missing.
            await self._folder.make()
        if aside is not None:
            self._on_notice(
                f"The snapshots of the files were damaged. dirge moved them to {aside} and began "
                "new ones. Intact snapshots can still be restored."
            )

    # -- looking back

    def _is_missing(self) -> bool:
        return not self._git.program or not (self._folder.is_there or self._folder.damaged())

    async def _holds(self, tree: str) -> bool:
        try:
            if self._folder.is_there and not self._folder.is_whole:
                await self._set_aside()
            if time.monotonic() - self._whole.get(tree, -_FRESH_S) < _FRESH_S:
                return True
            if await self._folder.holds(tree):
                self._whole[tree] = time.monotonic()
                return True
            if not await self._folder.should_hold(tree):
                return False
            await self._set_aside()
            return await self._folder.holds(tree)
        except (GitFailed, OSError) as error:
            self._failure = f"Cannot read the snapshots of the files: {error}"
            return False

    async def _ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        entries = await self._folder.entries(tree)
        # Git follows no link to a file of rules.
        names = [path for path in entries if os.path.basename(path) == ".gitignore"]
        names = [path for path in names if not entries[path].is_link]
        async with self._folder.contents(entries[path].oid for path in names) as contents:
            rules = {path: read_blob(contents, entries[path].oid) or b"" for path in names}
        project = git_folders(self.root)
        files = (self._personal, project.exclude if project is not None else None)
        return await self._folder.ignored(paths, rules=rules, files=files)

    async def _restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        from dirge_py.session.snapshots.restore import DAMAGED, inspect_paths, restore_paths

        entries = await self._folder.entries(tree)
        wanted = {path: entries.get(path) for path in paths}
        standing = await asyncio.to_thread(
            inspect_paths,
            self.root,
            wanted,
            limit_bytes=self._limits.file_bytes,
            kept=frozenset(self._capture.held if self._capture is not None else ()),
        )
        needed = [entry.oid for entry in wanted.values() if entry is not None]
        known = await self._folder.known([found.oid for found in standing.values() if found.oid])
        async with self._folder.contents(needed) as contents:
            restored = await asyncio.to_thread(
                restore_paths,
                self.root,
                wanted,
                standing=standing,
                known=known,
                contents=contents,
                folders=_folders(entries),
            )
        if any(why == DAMAGED for _, why in restored.failed):
            await self._set_aside()
        return restored


def _folders(paths: Iterable[str]) -> frozenset[str]:
    """Every folder that has one of these files somewhere below it."""
    direct = set(map(os.path.dirname, paths))
    return frozenset(folder for at in direct for folder in upwards(at) if folder)


def _why_unavailable(root: str, program: str) -> str:
    """Why dirge can't take snapshots of the folder; "" if it can."""
    home = os.path.realpath(os.path.expanduser("~"))
    if root == "/" or os.path.commonpath((root, home)) == root:
        return f"dirge keeps no snapshots of {root}, which contains more than one project: {_ONLY}."
    return "" if program else NO_GIT


_REF = late_pattern(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _as_ref(session: str) -> str:
    """The session id as a part of a ref, which git restricts to certain characters."""
    if _REF.fullmatch(session) and not session.endswith(".lock"):
        return session
    return "session-" + hashlib.sha256(session.encode()).hexdigest()[:16]


class ProjectSnapshots(Extension):
    """The extension that provides snapshots; a conversation without it has none."""

    name = "snapshots"
    summary = "restores the project's files with /undo and /rewind"
    stage = "first"
    snapshots: SnapshotRepository
