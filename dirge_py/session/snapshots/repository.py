"""The snapshots of one project: a private git repository that the project knows nothing of.

`SnapshotReader` looks into the store in use, and behind it into those that were moved aside.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.ids import project_id, project_root
from dirge_py.session.snapshots.base import RestoreResult, Snapshot, TreeChange
from dirge_py.session.snapshots.capture import (
    ProjectTooLarge,
    SnapshotCapture,
    SnapshotLimits,
    is_in_index,
)
from dirge_py.session.snapshots.git import (
    TREE_ID,
    BlobReader,
    Git,
    GitFailed,
    TreeEntry,
    find_git,
    parse_changes,
    parse_tree,
    private_git,
)
from dirge_py.session.snapshots.ignore_rules import (
    ignored_by,
    is_never_held,
    personal_excludes,
    project_git,
    rules_in,
)
from dirge_py.session.snapshots.restore import DAMAGED, WantedEntry, inspect_paths, restore_paths
from dirge_py.session.snapshots.store import (
    StoreFolder,
    StoreLease,
    StorePruner,
    acquire_lease,
    sessions_in_use,
)
from dirge_py.types.errors import SessionError

_READ_S = 60.0
_MOST_DAMAGED = 50
"""Contents that are passed over in one restore, each of which costs another start of git."""


class SnapshotReader:
    """Reads trees and contents. Nothing is written into a store."""

    def __init__(self, git: Git, folder: StoreFolder) -> None:
        damaged = folder.damaged()
        usable = [folder.path] if folder.is_whole else []
        self._git = git
        self._folder = folder
        self._stores = [*usable, *damaged] or [folder.path]

    async def _run(self, *commands: str) -> None:
        store, *others = self._stores
        await self._git.run(*commands, store=store, alternates=others, timeout_s=_READ_S)

    async def holds(self, tree: str) -> bool:
        """Whether all that the tree consists of is there. Contents are looked at when needed.

        Raises GitFailed: that cannot be told now.
        """
        if not TREE_ID.fullmatch(tree):
            return False
        with self._folder.scratch() as scratch:
            found = scratch / "found"
            everything = self._git.command("rev-list", "--objects", "--no-object-names", tree)
            check = self._git.command("cat-file", "--batch-check", "--buffer", stdout=found)
            try:
                await self._run(f"{everything} | {check}")
            except GitFailed as error:
                if error.tells_nothing:
                    raise
                return False
            return b" missing\n" not in found.read_bytes()

    async def should_hold(self, tree: str) -> bool:
        """Whether a ref of the store in use says that it is kept. Raises as `holds`."""
        if not TREE_ID.fullmatch(tree):
            return False
        with self._folder.scratch() as scratch:
            refs = scratch / "refs"
            listed = self._git.command(
                "for-each-ref", "--format=%(refname)", "refs/dirge", stdout=refs
            )
            try:
                await self._run(listed)
            except GitFailed as error:
                if error.tells_nothing:
                    raise
                return True
            return f"/{tree}\n".encode() in refs.read_bytes()

    async def is_damaged(self) -> bool:
        """Whether something that the refs of the store in use lead to is missing or unreadable."""
        check = self._git.command(
            "fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress"
        )
        try:
            await self._git.run(check, store=self._folder.path, timeout_s=_READ_S)
        except GitFailed as error:
            return not error.tells_nothing
        return False

    async def entries(self, tree: str) -> dict[str, TreeEntry]:
        """The files of the tree. Raises SessionError if it is gone."""
        if not TREE_ID.fullmatch(tree):
            raise _tree_gone(tree)
        with self._folder.scratch() as scratch:
            listed = scratch / "listed"
            try:
                await self._run(self._git.command("ls-tree", "-r", "-z", tree, stdout=listed))
            except GitFailed as error:
                raise _tree_gone(tree, error) from error
            return parse_tree(listed.read_bytes())

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        """What differs, by path. Raises SessionError if a tree is gone."""
        for tree in (before, after):
            if not TREE_ID.fullmatch(tree):
                raise _tree_gone(tree)
        with self._folder.scratch() as scratch:
            listed = scratch / "changes"
            options = ["-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--raw"]
            try:
                with_lines = self._git.command(
                    "diff-tree", *options, "--numstat", before, after, stdout=listed
                )
                await self._run(with_lines)
            except GitFailed:
                # Lines need contents, and one of those may be damaged; the trees may yet be whole.
                try:
                    plain = self._git.command("diff-tree", *options, before, after, stdout=listed)
                    await self._run(plain)
                except GitFailed as error:
                    raise _tree_gone(before, error) from error
            return parse_changes(listed.read_bytes())

    async def difference(self, before: str, after: str, path: str = "") -> str:
        """What differs, as a unified diff. Raises SessionError if a tree or a content is gone."""
        for tree in (before, after):
            if not TREE_ID.fullmatch(tree):
                raise _tree_gone(tree)
        options = ["-r", "-p", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv"]
        only = ["--", path] if path else []
        with self._folder.scratch() as scratch:
            written = scratch / "difference"
            command = self._git.command("diff-tree", *options, before, after, *only, stdout=written)
            try:
                await self._run(command)
            except GitFailed as error:
                raise _tree_gone(before, error) from error
            return written.read_bytes().decode("utf-8", "replace")

    async def known(self, oids: Iterable[str]) -> frozenset[str]:
        """Those of the contents that some store has."""
        wanted = sorted(set(oids))
        if not wanted:
            return frozenset()
        with self._folder.scratch() as scratch:
            asked, found = scratch / "asked", scratch / "found"
            asked.write_text("".join(f"{oid}\n" for oid in wanted), encoding="ascii")
            check = self._git.command(
                "cat-file", "--batch-check=%(objectname)", "--buffer", stdin=asked, stdout=found
            )
            with contextlib.suppress(GitFailed):
                await self._run(check)
            lines = found.read_text(encoding="ascii").splitlines()
        return frozenset(line for line in lines if " " not in line)

    async def ignored(
        self, paths: Sequence[str], *, rules: Mapping[str, bytes], files: Sequence[Path | None]
    ) -> Collection[str]:
        """See `ignored_by`. What cannot be told counts as ignored."""
        with self._folder.scratch() as scratch:
            try:
                return await ignored_by(
                    self._git,
                    paths,
                    rules=rules,
                    files=files,
                    store=self._stores[0],
                    scratch=scratch,
                )
            except (GitFailed, OSError):
                return frozenset(paths)

    @contextlib.asynccontextmanager
    async def contents(self, oids: Iterable[str]) -> AsyncIterator[BlobReader]:
        """The contents, for the time of the block; those that cannot be read are not among them."""
        with self._folder.scratch() as scratch:
            contents = BlobReader()
            left = sorted(set(oids))
            for number in range(_MOST_DAMAGED):
                if not left:
                    break
                file = scratch / f"contents-{number}"
                is_whole = await self._fetch(left, scratch / "asked", file)
                contents.add(file)
                if is_whole:
                    break
                # Git stops at one that it cannot read: it is the first of those that did not come.
                left = [oid for oid in left if oid not in contents][1:]
            yield contents

    async def _fetch(self, oids: Sequence[str], asked: Path, target: Path) -> bool:
        asked.write_text("".join(f"{oid}\n" for oid in oids), encoding="ascii")
        command = self._git.command("cat-file", "--batch", stdin=asked, stdout=target)
        try:
            await self._run(command)
        except GitFailed as error:
            if error.tells_nothing:
                raise SessionError(f"The files of then could not be read: {error}") from error
            return False
        return True


def _tree_gone(tree: str, error: GitFailed | None = None) -> SessionError:
    if error is not None and error.tells_nothing:
        return SessionError(f"The files of then could not be read: {error}")
    return SessionError(
        "The files of then are no longer kept.",
        hint=f"There is no snapshot {tree[:12]!r}; going back in the conversation still works.",
    )


T = TypeVar("T")
NO_GIT = "Without git, `/undo` and `/rewind` bring back the conversation only: install git."
_FRESH_S = 10.0
"""So long, a tree found whole is not looked through again: lists ask about the same ones."""
_ONLY = "`/undo` and `/rewind` bring back the conversation only"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRetention:
    """How long and how much is kept: days, and bytes of one project's store."""

    days: int = 30
    max_bytes: int = 2_000_000_000


class SnapshotRepository:
    """Snapshots of the project around `project`, kept below `state_dir` for `session`.

    `path` is the search path to find git on; git in the project is not taken. `on_notice` gets
    lines for the person. Everything waits its turn; a caller that is cancelled ends no work that
    has begun.
    """

    def __init__(
        self,
        state_dir: Path,
        project: Path,
        *,
        session: str,
        path: str,
        terms: SnapshotLimits,
        keeping: SnapshotRetention | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = os.fspath(project_root(project))
        self._state = os.path.realpath(state_dir)
        self._session = _as_ref(session)
        self._terms = terms
        self._keeping = keeping or SnapshotRetention()
        self._on_notice = on_notice
        self._clock = clock
        program = find_git(path, self._root)
        self._git = private_git(program, path, self._root)
        self._folder = StoreFolder(Path(self._state, "snapshots"), project_id(project))
        self._never = _why_unavailable(self._root, program)
        self._failure = ""
        self._taking: SnapshotCapture | None = None
        self._seat: StoreLease | None = None
        self._personal: Path | None = None
        self._whole: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def root(self) -> str:
        return self._root

    @property
    def unavailable(self) -> str:
        return self._never or self._failure

    @property
    def store(self) -> Path:
        """The private repository, for whoever wants to look into it."""
        return self._folder.path

    async def take(self, also: Sequence[str] = ()) -> Snapshot | None:
        if self._never or self._is_closed:
            return None
        return await self._alone(self._take([path for path in map(self._in_project, also) if path]))

    def holds_file(self, real: str) -> bool:
        path = self._in_project(real)
        return bool(path) and not self.unavailable and self._is_held(path)

    def unheld(self, reals: Sequence[str]) -> Sequence[str]:
        if self.unavailable or self._is_closed:
            return ()
        found = [(real, self._in_project(real)) for real in reals]
        return [real for real, path in found if path and not self._is_held(path)]

    def _is_held(self, path: str) -> bool:
        return self._seat is not None and is_in_index(self._seat.index, path)

    def _in_project(self, real: str) -> str:
        """The path relative to the project, "" where no snapshot can hold a file there."""
        if not real.startswith(f"{self._root}/") or real.startswith(f"{self._state}/"):
            return ""
        path = real[len(self._root) + 1 :]
        folders = path.split("/")[:-1]
        above = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
        if is_never_held(path) or any(os.path.lexists(f"{self._root}/{at}/.git") for at in above):
            return ""
        return path

    async def holds(self, tree: str) -> bool:
        if self._is_closed or self._is_missing():
            return False
        return await self._alone(self._holds(tree))

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        self._check_there()
        return await self._alone(self._reading().changes(before, after))

    async def difference(self, before: str, after: str, path: str = "") -> str:
        self._check_there()
        return await self._alone(self._reading().difference(before, after, path))

    async def ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        self._check_there()
        return await self._alone(self._ignored_then(tree, paths)) if paths else ()

    async def restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        self._check_there()
        return await self._alone(self._restore(tree, paths))

    async def prune(self) -> None:
        """Let go of what is too old or too much; does nothing if that was done within a day.

        For the background: it may be cancelled at any moment.
        """
        if self._is_closed or self._is_missing() or self._seat is None:
            return
        pruning = StorePruner(
            self._git,
            self._folder,
            session=self._session,
            days=self._keeping.days,
            max_bytes=self._keeping.max_bytes,
            clock=self._clock,
        )
        if not await pruning.run() and not self._is_closed:
            await self._alone(self._set_aside())

    async def aclose(self) -> None:
        """Stop what is under way, and leave what was learnt to the next process."""
        self._is_closed = True
        if self._taking is not None:
            self._taking.stop()
        await self._git.runner.shutdown()
        async with self._turn:
            seat, self._seat, self._taking = self._seat, None, None
            if seat is not None:
                await asyncio.to_thread(seat.publish)
                await asyncio.to_thread(seat.leave)

    # -- one after the other

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_turn() -> T:
            async with self._turn:
                return await work

        task = asyncio.ensure_future(in_turn())
        return await asyncio.shield(task)

    # -- taking

    async def _take(self, also: Sequence[str] = ()) -> Snapshot | None:
        was_there = self._folder.is_there
        try:
            snapshot = await self._taken(also)
        except ProjectTooLarge as error:
            self._never = (
                f"No snapshots of the files are kept in {self._root}: {error}. {_ONLY}. "
                "What `.gitignore` leaves out is not counted."
            )
            if not was_there:
                await self._remove()
            return None
        except (GitFailed, SessionError, OSError) as error:
            why = error.message if isinstance(error, SessionError) else str(error)
            self._failure = f"No snapshot of the files could be taken: {why}"
            return None
        self._failure = ""
        return replace(snapshot, held=tuple(path for path in also if self._is_held(path)))

    async def _taken(self, also: Sequence[str]) -> Snapshot:
        """A snapshot; after a failure another try, then with a new index, then in a new store."""
        date = int(self._clock())
        if self._folder.is_there and not self._folder.is_whole:
            await self._set_aside()
        for mend in (self._mend_nothing, self._mend_index, self._mend_store):
            try:
                return await (await self._ready()).take(date, also)
            except GitFailed as error:
                if error.has_no_room or self._is_closed:
                    raise
                await mend()
        return await (await self._ready()).take(date, also)

    async def _ready(self) -> SnapshotCapture:
        if self._taking is not None and self._seat is not None and self._seat.index.parent.is_dir():
            return self._taking
        self._leave()
        async with self._folder.held():
            if not self._folder.is_there:
                await self._folder.make(self._git)
            self._seat = await asyncio.to_thread(acquire_lease, self._folder.path, self._session)
        project = project_git(self._root)
        self._personal = await personal_excludes(self._git, project, self._seat.file("personal"))
        own = os.path.relpath(self._state, self._root)
        self._taking = SnapshotCapture(
            self._git,
            self._seat,
            project=project,
            personal=self._personal,
            own_folder="" if own.startswith("..") else own,
            ref=f"refs/dirge/{self._session}",
            terms=self._terms,
        )
        return self._taking

    def _leave(self) -> None:
        if self._seat is not None:
            self._seat.leave()
        self._seat = self._taking = None

    async def _remove(self) -> None:
        """Leave no half store behind, unless somebody else uses it by now."""
        self._leave()
        async with self._folder.held():
            if not sessions_in_use(self._folder.path):
                await asyncio.to_thread(self._folder.remove)

    async def _mend_nothing(self) -> None:
        """A file that changed while it was read makes git stop: the next try finds it settled."""

    async def _mend_index(self) -> None:
        if self._seat is not None:
            self._seat.forget()
        self._leave()

    async def _mend_store(self) -> None:
        if await self._reading().is_damaged():
            await self._set_aside()

    async def _set_aside(self) -> None:
        """Begin a new store. What is whole in the old one can still be read."""
        self._leave()
        self._whole.clear()
        async with self._folder.held():
            aside = await asyncio.to_thread(self._folder.set_aside)
            # Through a new one the old one can be read, whatever it lacks.
            await self._folder.make(self._git)
        if aside is not None:
            self._on_notice(
                f"The snapshots of the files were damaged; they lie in {aside} now, and new ones "
                "begin. What is whole in them can still be brought back."
            )

    # -- looking back

    def _is_missing(self) -> bool:
        return not self._git.program or not (self._folder.is_there or self._folder.damaged())

    def _check_there(self) -> None:
        if self._is_missing():
            raise SessionError(
                f"There are no snapshots of {self._root}.", hint=self.unavailable or NO_GIT
            )

    def _reading(self) -> SnapshotReader:
        return SnapshotReader(self._git, self._folder)

    async def _holds(self, tree: str) -> bool:
        try:
            return await self._held(tree)
        except (GitFailed, OSError) as error:
            self._failure = f"The snapshots of the files cannot be read: {error}"
            return False

    async def _held(self, tree: str) -> bool:
        if self._folder.is_there and not self._folder.is_whole:
            await self._set_aside()
        if time.monotonic() - self._whole.get(tree, -_FRESH_S) < _FRESH_S:
            return True
        reading = self._reading()
        if await reading.holds(tree):
            self._whole[tree] = time.monotonic()
            return True
        if not await reading.should_hold(tree):
            return False
        await self._set_aside()
        return await self._reading().holds(tree)

    async def _ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        reading = self._reading()
        rules = rules_in(await reading.entries(tree))
        async with reading.contents(entry.oid for entry in rules.values()) as contents:
            texts = {path: contents.read(entry.oid) or b"" for path, entry in rules.items()}
        files = (self._personal, project_git(self._root).exclude)
        return await reading.ignored(paths, rules=texts, files=files)

    async def _restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        reading = self._reading()
        entries = await reading.entries(tree)
        wanted = {path: WantedEntry(entry=entries.get(path)) for path in paths}
        standing = await asyncio.to_thread(
            inspect_paths,
            self._root,
            wanted,
            limit_bytes=self._terms.file_bytes,
            kept=frozenset(self._taking.kept if self._taking is not None else ()),
        )
        needed = [entry.oid for path in wanted if (entry := entries.get(path)) is not None]
        known = await reading.known([found.oid for found in standing.values() if found.oid])
        async with reading.contents(needed) as contents:
            restored = await asyncio.to_thread(
                restore_paths,
                self._root,
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
    found: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return frozenset(found)


def _why_unavailable(root: str, program: str) -> str:
    """Why there can be no snapshots of the folder at all, or ""."""
    home = os.path.realpath(os.path.expanduser("~"))
    if root == "/" or os.path.commonpath((root, home)) == root:
        return (
            f"No snapshots of the files are kept in {root}, which is more than a project: {_ONLY}."
        )
    return "" if program else NO_GIT


_REF = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _as_ref(session: str) -> str:
    """The session as a part of a ref; git has its own idea of names."""
    if _REF.fullmatch(session) and not session.endswith(".lock"):
        return session
    return "session-" + hashlib.sha256(session.encode()).hexdigest()[:16]
