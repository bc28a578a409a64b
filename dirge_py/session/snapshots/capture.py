"""Capturing one snapshot: changed files go into the private index, and that into a tree.

Git lists what differs since the last snapshot; the sizes of the files decide what is left out. Many
new files are written as one pack: a file per object takes ten times as long.
"""

import asyncio
import hashlib
import json
import os
import shlex
import stat
import struct
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import MAX_KEPT_BYTES, Snapshot
from dirge_py.session.snapshots.git import Git, GitFailed, blob_id
from dirge_py.session.snapshots.ignore_rules import ProjectGit, ignore_options, is_never_held
from dirge_py.session.snapshots.store import StoreLease
from dirge_py.types.errors import SessionError

FileStamp: TypeAlias = tuple[int, int, int]
"""Size, time of the last change in ns, inode: another one means another content."""
_LENGTH_BITS = 0xFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCandidates:
    """Paths to take in anew, paths that are not held any more, and what is left out.

    `large` are all files above the limit; `nested` are folders of other repositories.
    """

    present: Sequence[str] = ()
    absent: Sequence[str] = ()
    large: Mapping[str, FileStamp] = field(default_factory=dict)
    nested: Sequence[str] = ()
    unreadable: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not self.present and not self.absent


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
    nested: list[str] = []
    unreadable: list[str] = []
    held = dict.fromkeys(changed, True)
    for path, is_held in {**dict.fromkeys(others, False), **held}.items():
        if is_never_held(path):
            continue
        if path.endswith("/"):
            nested.append(path)
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
                unreadable.append(path)
        if is_held:
            absent.append(path)
    return SnapshotCandidates(
        present=present, absent=absent, large=large, nested=nested, unreadable=unreadable
    )


def _may_be_held(status: os.stat_result, path: str) -> bool:
    if stat.S_ISREG(status.st_mode):
        return True
    # Git takes no link of this name, as it would follow it when it looks for its settings.
    return stat.S_ISLNK(status.st_mode) and os.path.basename(path).lower() != ".gitmodules"


def stamp_of(status: os.stat_result) -> FileStamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


def stamps(root: str, paths: Iterable[str]) -> dict[str, FileStamp]:
    """The stamps of those that are there."""
    found = {path: _status(f"{root}/{path}") for path in paths}
    return {path: stamp_of(status) for path, status in found.items() if status is not None}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def read_names(file: Path) -> list[str]:
    """The paths in a list of git's, each ended by a NUL."""
    return [os.fsdecode(name) for name in file.read_bytes().split(b"\0") if name]


def write_names(file: Path, names: Iterable[str]) -> None:
    file.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in names))


def write_absent(file: Path, names: Iterable[str]) -> None:
    """Lines for `git update-index --index-info` that take these paths out."""
    nothing = b"0 " + b"0" * 40 + b"\t"
    file.write_bytes(b"".join(nothing + os.fsencode(name) + b"\0" for name in names))


def is_in_index(index: Path, path: str) -> bool:
    """Whether an index holds this path; False for none, or one that is none."""
    name = os.fsencode(path)
    try:
        content = index.read_bytes()
    except OSError:
        return False
    # Each name ends with a NUL and has its length in front; longer paths may end alike.
    at = content.find(name + b"\0")
    while at >= 0:
        length = int.from_bytes(content[max(0, at - 2) : at], "big") & _LENGTH_BITS
        if length == min(len(name), _LENGTH_BITS):
            return content.startswith(b"DIRC")
        at = content.find(name + b"\0", at + 1)
    return False


def count_index_entries(index: Path) -> int:
    """How many files an index holds; 0 for none, or one that is none."""
    try:
        with open(index, "rb") as stream:
            signature, _version, count = struct.unpack(">4sII", stream.read(12))
    except (OSError, struct.error):
        return 0
    return int(count) if signature == b"DIRC" else 0


def load_stamps(file: Path) -> dict[str, FileStamp] | None:
    """What `save_stamps` wrote; None if there is nothing (readable)."""
    try:
        stored = json.loads(file.read_text(encoding="ascii"))
        return {path: (size, time, node) for path, (size, time, node) in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def save_stamps(file: Path, found: Mapping[str, FileStamp]) -> None:
    file.write_text(json.dumps(found), encoding="ascii")


def changed_stamps(before: Mapping[str, FileStamp], now: Mapping[str, FileStamp]) -> list[str]:
    """The paths whose stamps are not the same, in order."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


PACK_FROM_FILES = 200
"""With so many new files, they are written as one pack."""


class ProjectTooLarge(Exception):
    """The project has too many files, or takes too long: the text says which, for the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """What is taken: files up to `file_bytes`, in trees of up to `files`, within `take_s`."""

    file_bytes: int
    files: int = 60_000
    take_s: float = 20.0


class SnapshotCapture:
    """Takes snapshots into one store, from one seat. One at a time.

    `ref` is the folder of refs that keep them; `own_folder` is our state folder in the project.
    """

    def __init__(
        self,
        git: Git,
        seat: StoreLease,
        *,
        project: ProjectGit,
        personal: Path | None,
        own_folder: str,
        ref: str,
        terms: SnapshotLimits,
    ) -> None:
        self._git = git
        self._seat = seat
        self._store = seat.folder.parent.parent
        self._project = project
        self._personal = personal
        self._own_folder = own_folder
        self._ref = ref
        self._terms = terms
        self._tree = ""
        self._tracked: tuple[str, ...] = ()
        self._tracked_of: Mapping[str, FileStamp] | None = None
        self._tracked_stamps: Mapping[str, FileStamp] = {}
        self._kept: dict[str, FileStamp | None] = {}
        self._named: set[str] = set()
        self._deadline = 0.0

    async def take(self, date: int, also: Sequence[str] = ()) -> Snapshot:
        """The work tree as it is now; `date` in seconds is kept with it.

        The files `also`, relative to the project, are in it although rules or their size leave
        them out; from now on they are held like the others.

        Raises:
            TooLarge: there is too much of it.
            GitFailed, OSError: the store or its disk does not do.
        """
        self._deadline = time.monotonic() + self._terms.take_s
        is_first = not self._seat.index.exists()
        try:
            found = await self._found(frozenset(also))
            await self._check_count(found)
            await self._write(found, date)
        except (PackTimeout, GitFailed) as error:
            if isinstance(error, GitFailed) and not error.timed_out:
                raise
            slow = f"reading its files took longer than {self._terms.take_s:.0f} seconds"
            if is_first:
                raise ProjectTooLarge(slow) from error
            raise SessionError(f"A snapshot was not taken: {slow}.") from error
        left_out = await asyncio.to_thread(self._left_out, found)
        return Snapshot(tree=self._tree, left_out=left_out)

    async def _run(self, *commands: str, is_durable: bool = False) -> None:
        await self._git.run(
            *commands,
            store=self._store,
            index=self._seat.index,
            is_durable=is_durable,
            timeout_s=self._deadline - time.monotonic(),
        )

    def stop(self) -> None:
        """Let a snapshot that is being taken come to nothing, soon."""
        self._deadline = 0.0

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    # -- what there is

    def _ignores(self) -> list[str]:
        files = (self._personal, self._project.exclude)
        return ignore_options(own_folder=self._own_folder, files=files)

    async def _found(self, also: frozenset[str]) -> SnapshotCandidates:
        seat, git = self._seat, self._git
        # What a killed command left would stop every one that comes.
        seat.file("index.lock").unlink(missing_ok=True)
        changed, others = seat.file("changed"), seat.file("others")
        listing, learn = self._tracked_listing()
        # All in one: beside starting a command, what it does costs little.
        await self._run(
            git.command("diff-files", "-z", "--name-only", "--no-renames", stdout=changed),
            git.command("ls-files", "-z", "--others", *self._ignores(), stdout=others),
            *listing,
        )
        tracked = [*learn(), *self._kept_now(also)]
        return await asyncio.to_thread(
            lambda: select_candidates(
                git.root,
                changed=read_names(changed),
                others=[*read_names(others), *tracked],
                limit_bytes=self._terms.file_bytes,
                also=self._kept.keys(),
            )
        )

    def _kept_now(self, also: frozenset[str]) -> list[str]:
        """What was once asked to be held and differs from what it was, with what is asked now."""
        # Git stops at a path that leads through a link.
        root = self._git.root
        named = {path for path in (*self._kept, *also) if not _is_behind_link(root, path)}
        found = stamps(root, named)
        differing = [path for path, stamp in found.items() if self._kept.get(path) != stamp]
        self._kept = {path: found.get(path) for path in (*self._kept, *also)}
        return [*differing, *(path for path in also & named if path not in differing)]

    @property
    def kept(self) -> Collection[str]:
        """The paths that this process was asked to hold."""
        return self._kept.keys()

    def _tracked_listing(self) -> tuple[Sequence[str], Callable[[], Sequence[str]]]:
        """What the project's git has although a rule ignores it, as far as it changed.

        Commands to run, if its index changed, and then a function that tells. From then on it is in
        our index, and the rules say nothing about it any more.
        """
        index = self._project.index
        if index is None:
            return (), lambda: ()
        now = stamps("", [str(index)])
        listed = self._seat.file("tracked")
        is_known = now == self._tracked_of

        def learn() -> Sequence[str]:
            if not is_known:
                self._tracked, self._tracked_of = tuple(read_names(listed)), now
            before = self._tracked_stamps
            self._tracked_stamps = stamps(self._git.root, self._tracked)
            return [p for p, stamp in self._tracked_stamps.items() if before.get(p) != stamp]

        ask = self._git.command(
            "ls-files", "-z", "--cached", "--ignored", *self._ignores(), stdout=listed
        )
        # One of a kind that cannot be read alone names nothing.
        quoted = shlex.quote(str(listed))
        command = f"{{ GIT_INDEX_FILE={shlex.quote(str(index))} {ask} || : >{quoted}; }}"
        return (() if is_known else (command,)), learn

    async def _check_count(self, found: SnapshotCandidates) -> None:
        """Raises TooLarge for an index of too many files, also without those ignored by now."""
        index, most = self._seat.index, self._terms.files
        if count_index_entries(index) + len(found.present) <= most:
            return
        ignored = self._seat.file("ignored")
        if count_index_entries(index):
            command = self._git.command(
                "ls-files", "-z", "--cached", "--ignored", *self._ignores(), stdout=ignored
            )
            await self._run(command)
            await asyncio.to_thread(write_absent, self._seat.file("gone"), read_names(ignored))
            await self._run(self._remove())
        if count_index_entries(index) + len(found.present) > most:
            raise ProjectTooLarge(f"it has more than {most:,} files")

    # -- what becomes of it

    async def _write(self, found: SnapshotCandidates, date: int) -> None:
        if found.is_empty and self._tree:
            return
        await asyncio.to_thread(write_names, self._seat.file("present"), found.present)
        await asyncio.to_thread(write_absent, self._seat.file("gone"), found.absent)
        # Hundreds of files are packed, and not waited for: a power cut costs a first snapshot.
        is_many = len(found.present) >= PACK_FROM_FILES
        commands = []
        if is_many:
            pack = self._seat.file("new.pack")
            await asyncio.to_thread(
                write_pack, self._git.root, found.present, pack, is_late=self._is_late
            )
            commands.append(
                self._git.command(
                    "index-pack", "--stdin", stdin=pack, stdout=self._seat.file("said")
                )
            )
        if found.absent:
            commands.append(self._remove())
        if found.present:
            add = self._git.command(
                *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
                stdin=self._seat.file("present"),
            )
            commands.append(add)
        await self._run(*commands, self._keep(date), is_durable=not is_many)
        self._seat.file("new.pack").unlink(missing_ok=True)
        self._tree = self._seat.file("tree").read_text(encoding="ascii").strip()
        if is_many:
            await asyncio.to_thread(self._seat.publish)

    def _remove(self) -> str:
        return self._git.command(
            "update-index", "-z", "--index-info", stdin=self._seat.file("gone")
        )

    def _keep(self, date: int) -> str:
        """Write the tree, and a commit whose ref keeps it from being pruned and dates it."""
        git, tree = shlex.quote(self._git.program), shlex.quote(str(self._seat.file("tree")))
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
        before = load_stamps(self._seat.large)
        if found.large != before:
            save_stamps(self._seat.large, found.large)
        named = changed_stamps(before, found.large) if before is not None else []
        once = {*found.nested, *found.unreadable} - self._named
        self._named |= once
        return (*named, *sorted(once))


def _is_behind_link(root: str, path: str) -> bool:
    folder = os.path.dirname(f"{root}/{path}")
    return os.path.realpath(folder) != folder


_BLOB_TYPE = 3
_PIECE = 1 << 20


class PackTimeout(Exception):
    """It took longer than it may."""


def write_pack(
    root: str, paths: Iterable[str], target: Path, *, is_late: Callable[[], bool]
) -> int:
    """Put the content of these regular files below `root` into the pack `target`; returns how many.

    Files that are gone, or cannot be read, are passed over. `is_late` is asked before each.

    Raises:
        OutOfTime: it is late.
        OSError: the pack cannot be written.
    """
    seen: set[bytes] = set()
    anchor = open_folder_handle(root)
    try:
        with open(target, "w+b") as pack:
            pack.write(_pack_header(0))
            for path in paths:
                if is_late():
                    raise PackTimeout
                content = _read_for_pack(anchor, path)
                if content is None:
                    continue
                name = bytes.fromhex(blob_id(content))
                if name not in seen:
                    seen.add(name)
                    pack.write(_pack_entry_header(len(content)) + zlib.compress(content, 1))
            pack.seek(0)
            pack.write(_pack_header(len(seen)))
            pack.seek(0)
            digest = hashlib.sha1(usedforsecurity=False)
            while piece := pack.read(_PIECE):
                digest.update(piece)
            pack.write(digest.digest())
    finally:
        os.close(anchor)
    return len(seen)


def _pack_header(count: int) -> bytes:
    return b"PACK" + struct.pack(">II", 2, count)


def _pack_entry_header(size: int) -> bytes:
    """Type and size: four bits of it, then seven in each further byte."""
    byte, size = _BLOB_TYPE << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 128)
        byte, size = size & 127, size >> 7
    head.append(byte)
    return bytes(head)


def _read_for_pack(anchor: int, path: str) -> bytes | None:
    try:
        descriptor = open_beneath(anchor, path, FILE)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            return stream.read()
        except OSError:
            return None
