"""Restores files of the working tree.

Each file is replaced atomically. Links are never followed, so nothing is written outside of the
project. Content that no snapshot holds is never overwritten or removed, so that you can undo a
restore.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from dirge_py.files.atomic import FileLocation, fill, fresh_name, new_file, replace, sync_folder
from dirge_py.files.resolve import (
    FILE,
    FOLDER,
    make_folders,
    open_beneath,
    open_folder_handle,
    reason_of,
)
from dirge_py.git.objects import TreeEntry, blob_id, read_blob
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import MAX_KEPT_BYTES, RestoreResult
from dirge_py.session.snapshots.capture import FileStamp, is_never_held, stamp_of
from dirge_py.types.errors import FileError

DAMAGED = "its stored content is damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """The file, link or folder that exists at a path."""

    kind: Literal["nothing", "file", "link", "folder", "other"] = "nothing"
    """The type of file."""
    oid: str = ""
    """The object id of its content; "" if it wasn't read."""
    is_executable: bool = False
    """Whether its owner may run it."""
    stamp: FileStamp | None = None
    """Its size, time and inode."""
    why: str = ""
    """Why its content wasn't read."""


class _PathRefused(Exception):
    """Raised for a path that must not be changed; the text says why."""


def inspect_paths(
    root: str, paths: Iterable[str], *, limit_bytes: int, kept: frozenset[str] = frozenset()
) -> dict[str, PathState]:
    """The state of these paths; files above the limit aren't read, except `kept` ones."""
    limits = {path: MAX_KEPT_BYTES if path in kept else limit_bytes for path in paths}
    with closing_descriptor(open_folder_handle(root)) as anchor:
        return {path: _inspect_path(anchor, path, limit) for path, limit in limits.items()}


def _inspect_path(anchor: int, path: str, limit_bytes: int) -> PathState:
    if not _is_inside(path):
        return PathState(kind="other", why="it is not a path in the project")
    try:
        with _folder_of(anchor, path) as folder:
            return _inspect_place(FileLocation(folder, os.path.basename(path), path), limit_bytes)
    except FileNotFoundError:
        return PathState()
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            # A file is in place of its folder; the restore may remove it.
            return PathState()
        return PathState(kind="other", why=reason_of(error))


def _inspect_place(place: FileLocation, limit_bytes: int) -> PathState:
    status = place.status()
    if status is None:
        return PathState()
    stamp = stamp_of(status)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(place.name, dir_fd=place.folder))
        return PathState(kind="link", oid=blob_id(target), stamp=stamp)
    if stat.S_ISDIR(status.st_mode):
        return PathState(kind="folder", stamp=stamp)
    if not stat.S_ISREG(status.st_mode):
        return PathState(kind="other", why="it is not a regular file")
    if status.st_size > limit_bytes:
        size = status.st_size / (1 << 20)
        why = f"it is too large for snapshots now ({size:.0f} MiB), so it would be lost"
        return PathState(kind="file", stamp=stamp, why=why)
    is_executable = bool(status.st_mode & stat.S_IXUSR)
    oid = blob_id(place.read())
    return PathState(kind="file", oid=oid, is_executable=is_executable, stamp=stamp)


def restore_paths(
    root: str,
    wanted: Mapping[str, TreeEntry | None],
    *,
    standing: Mapping[str, PathState],
    known: frozenset[str],
    contents: Path,
    folders: frozenset[str],
) -> RestoreResult:
    """Write each path as `wanted`, or remove it (None). A failure of one doesn't stop the others.

    `known` are the contents that a snapshot holds; the wanted ones are files in `contents`.
    `folders` are those that existed: other folders are removed when they become empty.
    """
    done: list[str] = []
    failed: list[tuple[str, str]] = []
    # Remove before writing, the deepest first: a removed path can block a written one.
    removed = sorted((path for path in wanted if wanted[path] is None), key=lambda p: p.count("/"))
    with closing_descriptor(open_folder_handle(root)) as anchor:
        writer = _PathWriter(anchor, known, contents, folders)
        for path in (*reversed(removed), *sorted(wanted.keys() - removed)):
            try:
                if (entry := wanted[path]) is None:
                    writer.remove(path, standing[path])
                else:
                    writer.write(path, entry, standing[path])
                done.append(path)
            except OSError as error:
                failed.append((path, reason_of(error)))
            except (_PathRefused, FileError, ValueError) as error:
                failed.append((path, str(error)))
    return RestoreResult(done=tuple(sorted(done)), failed=tuple(sorted(failed)))


@dataclass(frozen=True, slots=True)
class _PathWriter:
    """Writes and removes one path at a time below the folder `anchor`."""

    anchor: int
    known: frozenset[str]
    contents: Path
    folders: frozenset[str]

    def remove(self, path: str, now: PathState) -> None:
        if now.kind in ("nothing", "folder"):
            # Snapshots hold no folders: the file that was here is already gone.
            return
        self._check_known(now)
        with _folder_of(self.anchor, path) as folder:
            place = FileLocation(folder, os.path.basename(path), path)
            _check_same(place, now)
            place.unlink(place.name)
            sync_folder(folder)
        self._remove_folders(os.path.dirname(path))

    def write(self, path: str, entry: TreeEntry, now: PathState) -> None:
        if is_never_held(path) or not _is_inside(path):
            raise _PathRefused("it is not a path of a snapshot")
        kind = "link" if entry.is_link else "file"
        is_same = now.kind == kind and now.oid == entry.oid
        if is_same and (entry.is_link or now.is_executable == entry.is_executable):
            return
        if now.kind not in ("nothing", "folder") and not is_same:
            self._check_known(now)
        content = read_blob(self.contents, entry.oid)
        if content is None:
            raise _PathRefused(DAMAGED)
        with make_folders(self.anchor, path, path) as folder:
            place = FileLocation(folder, os.path.basename(path), path)
            if now.kind == "folder":
                try:
                    # Snapshots hold no empty folders: those inside go with it.
                    for _, inner, _, inside in os.fwalk(place.name, topdown=False, dir_fd=folder):
                        for name in inner:
                            os.rmdir(name, dir_fd=inside)
                    os.rmdir(place.name, dir_fd=folder)
                except FileNotFoundError:
                    pass  # It was removed with the last file in it.
                except OSError as error:
                    raise _PathRefused(f"a folder is in the way: {reason_of(error)}") from error
                now = PathState()
            if entry.is_link:
                _put_link(place, content, now)
            # Changing the mode in place would change the file's other hard links, too.
            elif not is_same or ((status := place.status()) and status.st_nlink > 1):
                _put_file(place, content, now)
            if not entry.is_link:
                _set_executable(place, is_executable=entry.is_executable)

    def _check_known(self, now: PathState) -> None:
        if now.why:
            raise _PathRefused(now.why)
        if now.oid not in self.known:
            raise _PathRefused("it was changed since the last snapshot")

    def _remove_folders(self, folder: str) -> None:
        """Remove empty folders that didn't exist at the time of the snapshot."""
        while folder and folder not in self.folders:
            try:
                with _folder_of(self.anchor, folder) as above:
                    os.rmdir(os.path.basename(folder), dir_fd=above)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _put_file(place: FileLocation, content: bytes, now: PathState) -> None:
    if now.kind == "file":
        replace(place, content, check=lambda: _check_same(place, now))
        return
    with new_file(place) as (name, descriptor):
        fill(place, descriptor, content, like=None)
        _check_same(place, now)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    sync_folder(place.folder)


def _put_link(place: FileLocation, target: bytes, now: PathState) -> None:
    name = fresh_name("tmp")
    os.symlink(os.fsdecode(target), name, dir_fd=place.folder)
    try:
        _check_same(place, now)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        place.unlink(name)
        raise
    sync_folder(place.folder)


def _set_executable(place: FileLocation, *, is_executable: bool) -> None:
    with closing_descriptor(place.open(place.name, FILE)) as descriptor:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if bool(mode & stat.S_IXUSR) != is_executable:
            # Everyone who may read it may run it, as after a git checkout.
            changed = mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111
            os.fchmod(descriptor, changed)


def _check_same(place: FileLocation, now: PathState) -> None:
    status = place.status()
    if (None if status is None else stamp_of(status)) != now.stamp:
        raise _PathRefused("it changed during the restore")


def _folder_of(anchor: int, path: str) -> contextlib.AbstractContextManager[int]:
    return closing_descriptor(open_beneath(anchor, os.path.dirname(path), FOLDER))


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts)
