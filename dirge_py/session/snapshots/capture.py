"""Capturing one snapshot: changed files go into the private index, and that into a tree.

Git lists what differs since the last snapshot; the sizes of the files decide what is left out. Many
new files are written as one pack: a file per object takes ten times as long. What is ignored
follows the project's own rules, the person's, and ours.
"""

import asyncio
import json
import os
import shlex
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from dirge_py.git.ignore import OWN_FILE, ignore_options
from dirge_py.git.objects import (
    PackTimeout,
    count_index_entries,
    read_names,
    write_import_stream,
    write_names,
)
from dirge_py.git.repository import GitFolders
from dirge_py.git.runner import DURABLE, Git, GitFailed
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
"""Size, time of the last change in ns, inode: another one means another content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCandidates:
    """What git listed, sorted out."""

    present: Sequence[str] = ()
    """Paths whose content is to be written."""
    absent: Sequence[str] = ()
    """Paths that are to be removed from the index."""
    large: Mapping[str, FileStamp] = field(default_factory=dict)
    """All files above the limit."""
    left_out: frozenset[str] = frozenset()
    """Folders (with a `/`) of other repositories, and files that cannot be read."""


def select_candidates(
    root: str,
    *,
    changed: Iterable[str],
    others: Iterable[str],
    limit_bytes: int,
    also: Collection[str] = (),
) -> SnapshotCandidates:
    """Sort out what git listed: `changed` are held and differ, `others` are not held.

    Those of `also` are taken in up to `MAX_KEPT_BYTES`.
    """
    present: list[str] = []
    absent: list[str] = []
    large: dict[str, FileStamp] = {}
    left_out: set[str] = set()
    for path, is_held in {**dict.fromkeys(others, False), **dict.fromkeys(changed, True)}.items():
        if is_never_held(path):
            continue
        if path.endswith("/"):
            left_out.add(path)
            continue
        full = f"{root}/{path}"
        status = _status(full)
        if status is not None and _may_be_held(status, path):
            limit = MAX_KEPT_BYTES if path in also else limit_bytes
            if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                large[path] = stamp_of(status)
            elif stat.S_ISLNK(status.st_mode) or os.access(full, os.R_OK):
                present.append(path)
                continue
            else:
                left_out.add(path)
        if is_held:
            absent.append(path)
    return SnapshotCandidates(
        present=present, absent=absent, large=large, left_out=frozenset(left_out)
    )


def _may_be_held(status: os.stat_result, path: str) -> bool:
    if stat.S_ISREG(status.st_mode):
        return True
    # Git takes no link of this name, as it would follow it when it looks for its settings.
    return stat.S_ISLNK(status.st_mode) and os.path.basename(path).lower() != ".gitmodules"


def stamp_of(status: os.stat_result) -> FileStamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _stamps(root: str, paths: Iterable[str]) -> dict[str, FileStamp]:
    """The stamps of those that are there."""
    found = {path: _status(f"{root}/{path}") for path in paths}
    return {path: stamp_of(status) for path, status in found.items() if status is not None}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


_TAKE_OUT = b"0 " + b"0" * 40 + b"\t"
"""In front of a path it makes `git update-index --index-info` take that out."""


PACK_FROM_FILES = 200
"""With so many new files, they are written as one pack."""


class ProjectTooLarge(Exception):
    """The project has too many files, or takes too long: the text says which, for the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """What is taken into a snapshot."""

    file_bytes: int
    """The largest file."""
    files: int = 60_000
    """How many files a tree may have."""
    take_s: float = 20.0
    """How long one snapshot may take."""


class SnapshotCapture:
    """Takes snapshots into one store, with the index of one lease. One at a time.

    `ref` is the folder of refs that keep them; `own_folder` is our state folder in the project.
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
        self._tracked_stamps: Mapping[str, FileStamp] = {}
        self._held: dict[str, FileStamp | None] = {}
        self._named: set[str] = set()
        self._deadline = 0.0

    async def take_snapshot(self, date: int, also: Sequence[str] = ()) -> Snapshot:
        """The work tree as it is now; `date` in seconds is kept with it.

        The files `also`, relative to the project, are in it although rules or their size leave
        them out; from now on they are held like the others.

        Raises:
            ProjectTooLarge: there is too much of it.
            GitFailed, OSError: the store or its disk does not do.
        """
        self._deadline = time.monotonic() + self._limits.take_s
        is_first = not self._lease.index.exists()
        try:
            found = await self._list_candidates(frozenset(also))
            await self._check_count(found)
            await self._write(found, date)
        except (PackTimeout, GitFailed) as error:
            if isinstance(error, GitFailed) and not error.timed_out:
                raise
            slow = f"reading its files took longer than {self._limits.take_s:.0f} seconds"
            if is_first:
                raise ProjectTooLarge(slow) from error
            raise SessionError(f"A snapshot was not taken: {slow}.") from error
        left_out = await asyncio.to_thread(self._left_out, found)
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

    @property
    def held(self) -> Collection[str]:
        """The paths that this process was asked to hold."""
        return self._held.keys()

    # -- listing files

    def _listing(self, *options: str, stdout: Path) -> str:
        """The command that lists files by the rules of what is ignored."""
        files = (self._personal, self._exclude)
        ignores = ignore_options(own_folder=self._own_folder, files=files)
        return self._git.command("ls-files", "-z", *options, *ignores, stdout=stdout)

    async def _list_candidates(self, also: frozenset[str]) -> SnapshotCandidates:
        # What a killed command left would stop every one that comes.
        (self._scratch / "index.lock").unlink(missing_ok=True)
        changed, others = self._scratch / "changed", self._scratch / "others"
        differing = ("diff-files", "-z", "--name-only", "--no-renames")
        now = _stamps("", [str(self._project_index)]) if self._project_index is not None else None
        # All in one: beside starting a command, what it does costs little.
        await self._run(
            self._git.command(*differing, stdout=changed),
            self._listing("--others", stdout=others),
            *([] if now == self._tracked_of else [self._tracked_listing()]),
        )
        if now != self._tracked_of:
            self._tracked = tuple(read_names(self._scratch / "tracked"))
            self._tracked_of = now
        before, self._tracked_stamps = self._tracked_stamps, _stamps(self._git.root, self._tracked)
        tracked = [path for path, s in self._tracked_stamps.items() if before.get(path) != s]
        asked_for = self._asked_for(also)
        return await asyncio.to_thread(
            lambda: select_candidates(
                self._git.root,
                changed=read_names(changed),
                others=[*read_names(others), *tracked, *asked_for],
                limit_bytes=self._limits.file_bytes,
                also=self._held.keys(),
            )
        )

    def _tracked_listing(self) -> str:
        """The command that lists what the project's git has although a rule ignores it.

        From then on it is in our index, and the rules say nothing about it any more.
        """
        listed = self._scratch / "tracked"
        ask = self._listing("--cached", "--ignored", stdout=listed)
        # An index of a kind that cannot be read alone names nothing.
        index, quoted = shlex.quote(str(self._project_index)), shlex.quote(str(listed))
        return f"{{ GIT_INDEX_FILE={index} {ask} || : >{quoted}; }}"

    def _asked_for(self, also: frozenset[str]) -> list[str]:
        """What was once asked to be held and differs from what it was, with what is asked now."""
        # Git stops at a path that leads through a link.
        root = self._git.root
        named = {path for path in (*self._held, *also) if not _is_behind_link(root, path)}
        found = _stamps(root, named)
        differing = [path for path, stamp in found.items() if self._held.get(path) != stamp]
        self._held = {path: found.get(path) for path in (*self._held, *also)}
        return [*differing, *(path for path in also & named if path not in differing)]

    async def _check_count(self, found: SnapshotCandidates) -> None:
        """Raises ProjectTooLarge: too many files, also without those that are ignored by now."""
        index, most = self._lease.index, self._limits.files
        count = count_index_entries(index)
        if count + len(found.present) <= most:
            return
        if count:
            ignored, gone = self._scratch / "ignored", self._scratch / "gone"
            await self._run(self._listing("--cached", "--ignored", stdout=ignored))
            await asyncio.to_thread(write_names, gone, read_names(ignored), _TAKE_OUT)
            await self._run(self._take_out(gone))
        if count_index_entries(index) + len(found.present) > most:
            raise ProjectTooLarge(f"it has more than {most:,} files")

    # -- writing it

    async def _write(self, found: SnapshotCandidates, date: int) -> None:
        if self._tree and not found.present and not found.absent:
            return
        present, gone = self._scratch / "present", self._scratch / "gone"
        await asyncio.to_thread(write_names, present, found.present)
        await asyncio.to_thread(write_names, gone, found.absent, _TAKE_OUT)
        # Hundreds of files are packed, and not waited for: a power cut costs a first snapshot.
        is_many = len(found.present) >= PACK_FROM_FILES
        commands = []
        stream = self._scratch / "contents"
        if is_many:
            await asyncio.to_thread(
                write_import_stream,
                self._git.root,
                found.present,
                stream,
                deadline=lambda: self._deadline,
            )
            options = ("-c", "pack.compression=1", "fast-import", "--quiet", "--depth=0")
            commands.append(self._git.command(*options, stdin=stream))
        if found.absent:
            commands.append(self._take_out(gone))
        if found.present:
            add = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            commands.append(self._git.command(*add, stdin=present))
        await self._run(*commands, self._commit(date), is_durable=not is_many)
        stream.unlink(missing_ok=True)
        self._tree = (self._scratch / "tree").read_text(encoding="ascii").strip()
        if is_many:
            await asyncio.to_thread(self._lease.publish)

    def _take_out(self, gone: Path) -> str:
        return self._git.command("update-index", "-z", "--index-info", stdin=gone)

    def _commit(self, date: int) -> str:
        """Write the tree, and a commit whose ref keeps it from being pruned and dates it."""
        git, tree = shlex.quote(self._git.program), shlex.quote(str(self._scratch / "tree"))
        # Without the sign git takes a number of few digits, or of too many, for no date at all.
        when = f"@{max(0, date)} +0000"
        return (
            f"{git} write-tree >{tree} && "
            f'commit=$(GIT_AUTHOR_DATE="{when}" GIT_COMMITTER_DATE="{when}" '
            f'{git} commit-tree -m snapshot "$(<{tree})") && '
            f'{git} update-ref "{self._ref}/$(<{tree})" "$commit"'
        )

    def _left_out(self, found: SnapshotCandidates) -> tuple[str, ...]:
        """Files that changed and are or were too large to be held; once, what is never held."""
        stored = self._scratch / "large.json"
        named: Iterable[str] = ()
        try:
            before = {p: tuple(stamp) for p, stamp in json.loads(stored.read_text("ascii")).items()}
            named = {path for path, _ in before.items() ^ found.large.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            before = None
        if found.large != before:
            stored.write_text(json.dumps(found.large), encoding="ascii")
        once = found.left_out - self._named
        self._named |= once
        return (*sorted(named), *sorted(once))


def _is_behind_link(root: str, path: str) -> bool:
    folder = os.path.dirname(f"{root}/{path}")
    return os.path.realpath(folder) != folder
