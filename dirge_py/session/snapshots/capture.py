"""Captures one snapshot: adds changed files to the private index, and writes that as a tree.

Git lists what differs from the last snapshot; files that are too large are left out. Many new files
are written as one pack, because a file per object takes ten times as long. The ignore rules are the
project's, the user's, and dirge's.
"""

import asyncio
import contextlib
import json
import os
import shlex
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from dirge_py.git.objects import count_index_entries, read_names, write_import_stream, write_names
from dirge_py.git.repository import GitFolders
from dirge_py.git.runner import DURABLE, OWN_FILE, Git, GitFailed, ignore_options
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import MAX_KEPT_BYTES, Snapshot
from dirge_py.session.snapshots.store import StoreLease
from dirge_py.types.errors import SessionError


def is_never_held(path: str) -> bool:
    """Whether a path belongs to git or dirge: `.git`, `.dirge`, unfinished files."""
    parts = path.split("/")
    return any(part.lower() in (".git", ".dirge") for part in parts) or bool(
        OWN_FILE.fullmatch(parts[-1])
    )


FileStamp: TypeAlias = tuple[int, int, int]
"""Size, time of the last change in ns, and inode; a file with another stamp has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCandidates:
    """The changes to make to the index, and the files that it can't hold."""

    present: list[str]
    """Paths whose content is to be written."""
    absent: list[str]
    """Paths that are to be removed from the index."""
    large: dict[str, FileStamp]
    """All files above the limit."""
    left_out: set[str]
    """Folders (with a `/`) of other repositories, and files that cannot be read."""


def select_candidates(
    root: str,
    *,
    changed: Iterable[str],
    others: Iterable[str],
    limit_bytes: int,
    also: Collection[str] = (),
    most: int,
) -> SnapshotCandidates:
    """Sort what git listed: `changed` is in the index, `others` not; `also` may be large.

    Stops when more than `most` files are to be written, which is too many whatever follows.
    """
    found = SnapshotCandidates(present=[], absent=[], large={}, left_out=set())
    for path, is_held in {**dict.fromkeys(others, False), **dict.fromkeys(changed, True)}.items():
        if len(found.present) > most:
            break
        if is_never_held(path):
            continue
        if path.endswith("/"):
            found.left_out.add(path)
            continue
        full = f"{root}/{path}"
        status = _status(full)
        if status is not None and _may_be_held(status, path):
            limit = MAX_KEPT_BYTES if path in also else limit_bytes
            if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                found.large[path] = stamp_of(status)
            elif stat.S_ISLNK(status.st_mode) or os.access(full, os.R_OK):
                found.present.append(path)
                continue
            else:
                found.left_out.add(path)
        if is_held:
            found.absent.append(path)
    return found


def _may_be_held(status: os.stat_result, path: str) -> bool:
    if stat.S_ISREG(status.st_mode):
        return True
    # Git refuses a link of this name, because it would follow it when it looks for its settings.
    return stat.S_ISLNK(status.st_mode) and os.path.basename(path).lower() != ".gitmodules"


def stamp_of(status: os.stat_result) -> FileStamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _stamps(root: str, paths: Iterable[str]) -> dict[str, FileStamp]:
    statuses = {path: _status(f"{root}/{path}") for path in paths}
    return {path: stamp_of(status) for path, status in statuses.items() if status is not None}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


_REMOVED = b"0 " + b"0" * 40 + b"\t"
"""Before a path, it makes `git update-index --index-info` remove the path."""


PACK_FROM_FILES = 200
"""The number of new files from which on they are written as one pack."""


class ProjectTooLarge(Exception):
    """The project has too many files, or reading them takes too long; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """The limits of the snapshots of one project."""

    file_bytes: int
    """The size of the largest file that a snapshot holds."""
    files: int = 60_000
    """The most files that a snapshot may have."""
    take_s: float = 20.0
    """The most seconds that taking one may last."""
    days: int = 30
    """How many days a snapshot is kept."""
    max_bytes: int = 2_000_000_000
    """The most bytes of all snapshots together."""


class SnapshotCapture:
    """Takes snapshots into one store, one at a time, with the index of one lease.

    `ref` is the folder of the refs that keep them. `own_folder` is dirge's state folder relative to
    the project, "" if it is elsewhere.
    """

    def __init__(
        self,
        git: Git,
        lease: StoreLease,
        *,
        project: GitFolders | None,
        personal: Path | None,
        own_folder: str,
        ref: str,
        limits: SnapshotLimits,
    ) -> None:
        self._git = git
        self._lease = lease
        self._scratch = lease.folder
        self._exclude = project.exclude if project is not None else None
        self._project_index = project.index if project is not None else None
        self._personal = personal
        self._own_folder = own_folder
        self._ref = ref
        self._limits = limits
        self._tree = ""
        self._tracked: tuple[str, ...] = ()
        self._tracked_of: Mapping[str, FileStamp] | None = None
        self._stamps: Mapping[str, FileStamp] = {}
        self.held: set[str] = set()
        """The paths that this process was asked to hold."""
        self._reported: set[str] = set()
        self._deadline = 0.0

    async def take_snapshot(self, date: int, also: Sequence[str] = ()) -> Snapshot:
        """Take a snapshot of the work tree; `date` in seconds is stored with it.

        The files `also`, relative to the project, are in it even if they are ignored or large; from
        now on they are held like the others.

        Raises:
            ProjectTooLarge: the project has too many files, or the first snapshot takes too long.
            SessionError: another snapshot takes too long.
            GitFailed, OSError: git can't write to the store.
        """
        self._deadline = time.monotonic() + self._limits.take_s
        is_first = not self._lease.index.exists()
        try:
            candidates = await self._list_candidates(frozenset(also))
            await self._check_count(candidates)
            await self._write(candidates, date)
        except (TimeoutError, GitFailed) as error:
            if isinstance(error, GitFailed) and not error.timed_out:
                raise
            slow = f"reading its files took longer than {self._limits.take_s:.0f} seconds"
            if is_first:
                raise ProjectTooLarge(slow) from error
            raise SessionError(f"A snapshot was not taken: {slow}.") from error
        left_out = await asyncio.to_thread(self._left_out, candidates)
        return Snapshot(tree=self._tree, left_out=left_out)

    async def _run(self, *commands: str, is_durable: bool = False) -> None:
        await self._git.run(
            *commands,
            store=self._scratch.parent.parent,
            index=self._lease.index,
            settings=DURABLE if is_durable else (),
            timeout_s=self._deadline - time.monotonic(),
        )

    def stop(self) -> None:
        """Make a snapshot that is being taken fail soon."""
        self._deadline = 0.0

    # -- listing files

    def _listing(self, *options: str, stdout: Path) -> str:
        files = (self._personal, self._exclude)
        ignores = ignore_options(own_folder=self._own_folder, files=files)
        return self._git.command("ls-files", "-z", *options, *ignores, stdout=stdout)

    async def _list_candidates(self, also: frozenset[str]) -> SnapshotCandidates:
        # The lock of a killed command would stop all later ones.
        (self._scratch / "index.lock").unlink(missing_ok=True)
        changed, others = self._scratch / "changed", self._scratch / "others"
        diff = ("diff-files", "-z", "--name-only", "--no-renames")
        now = _stamps("", [str(self._project_index)]) if self._project_index is not None else None
        # Start them together, because starting costs more than listing.
        await self._run(
            self._git.command(*diff, stdout=changed),
            self._listing("--others", stdout=others),
            *(() if now == self._tracked_of else (self._tracked_listing(),)),
        )
        if now != self._tracked_of:
            self._tracked = tuple(read_names(self._scratch / "tracked"))
            self._tracked_of = now
        # No rule lists these. Git would stop at a path that leads through a link.
        self.held |= also
        forced = {*self._tracked, *self.held}
        folders = {path: os.path.dirname(f"{self._git.root}/{path}") for path in forced}
        named = [path for path, folder in folders.items() if os.path.realpath(folder) == folder]
        before, self._stamps = self._stamps, _stamps(self._git.root, named)
        stamps = self._stamps.items()
        differing = [path for path, stamp in stamps if path in also or before.get(path) != stamp]
        return await asyncio.to_thread(
            lambda: select_candidates(
                self._git.root,
                changed=read_names(changed),
                others=[*read_names(others), *differing],
                limit_bytes=self._limits.file_bytes,
                also=self.held,
                most=self._limits.files,
            )
        )

    def _tracked_listing(self) -> str:
        """The command that lists ignored files that the project's git tracks, to hold them, too."""
        output = self._scratch / "tracked"
        listing = self._listing("--cached", "--ignored", stdout=output)
        # A split index can't be read alone; it yields an empty list.
        index, quoted = shlex.quote(str(self._project_index)), shlex.quote(str(output))
        return f"{{ GIT_INDEX_FILE={index} {listing} || : >{quoted}; }}"

    async def _check_count(self, candidates: SnapshotCandidates) -> None:
        """Check the number of files that aren't ignored. Raises ProjectTooLarge: too many."""
        index, most = self._lease.index, self._limits.files
        count = count_index_entries(index)
        if count + len(candidates.present) <= most:
            return
        if count:
            ignored = self._scratch / "ignored"
            await self._run(self._listing("--cached", "--ignored", stdout=ignored))
            await self._run(await self._removal(read_names(ignored)))
        if count_index_entries(index) + len(candidates.present) > most:
            raise ProjectTooLarge(f"it has more than {most:,} files")

    # -- writing the snapshot

    async def _write(self, candidates: SnapshotCandidates, date: int) -> None:
        if self._tree and not candidates.present and not candidates.absent:
            return
        present, stream = self._scratch / "present", self._scratch / "contents"
        await asyncio.to_thread(write_names, present, candidates.present)
        # Don't flush a pack of many files: a power cut would cost only the first snapshot.
        is_many = len(candidates.present) >= PACK_FROM_FILES
        commands = []
        if is_many:
            sources = (self._git.root, candidates.present, stream)
            await asyncio.to_thread(write_import_stream, *sources, deadline=lambda: self._deadline)
            fast = ("fast-import", "--quiet", "--depth=0")
            commands.append(self._git.command("-c", "pack.compression=1", *fast, stdin=stream))
        if candidates.absent:
            commands.append(await self._removal(candidates.absent))
        if candidates.present:
            add = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            commands.append(self._git.command(*add, stdin=present))
        await self._run(*commands, self._commit(date), is_durable=not is_many)
        stream.unlink(missing_ok=True)
        self._tree = (self._scratch / "tree").read_text(encoding="ascii").strip()
        if is_many:
            await asyncio.to_thread(self._lease.publish)

    async def _removal(self, paths: Sequence[str]) -> str:
        """The command that removes these paths from the index."""
        gone = self._scratch / "gone"
        await asyncio.to_thread(write_names, gone, paths, _REMOVED)
        return self._git.command("update-index", "-z", "--index-info", stdin=gone)

    def _commit(self, date: int) -> str:
        """Write the tree, and a commit whose ref keeps it from being pruned and dates it."""
        git, tree = shlex.quote(self._git.program), shlex.quote(str(self._scratch / "tree"))
        # Without the `@`, git reads only numbers of certain lengths as a date.
        when = f"@{max(0, date)} +0000"
        return (
            f"{git} write-tree >{tree} && "
            f'commit=$(GIT_AUTHOR_DATE="{when}" GIT_COMMITTER_DATE="{when}" '
            f'{git} commit-tree -m snapshot "$(<{tree})") && '
            f'{git} update-ref "{self._ref}/$(<{tree})" "$commit"'
        )

    def _left_out(self, candidates: SnapshotCandidates) -> tuple[str, ...]:
        """Changed files that are or were too large; paths that are never held only once."""
        stored = self._scratch / "large.json"
        changed: Iterable[str] = ()
        before = None
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            before = {p: tuple(stamp) for p, stamp in json.loads(stored.read_text("ascii")).items()}
            changed = {path for path, _ in before.items() ^ candidates.large.items()}
        if candidates.large != before:
            stored.write_text(json.dumps(candidates.large), encoding="ascii")
        new = candidates.left_out - self._reported
        self._reported |= new
        return (*sorted(changed), *sorted(new))
