"""Putting files of the working tree back as they were.

Each is replaced in one step; nothing follows a link, so nothing is written outside of the project.
What no snapshot holds is never overwritten or removed: going back can itself be taken back.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Literal

from dirge_py.files.atomic import (
    FileLocation,
    fill,
    fresh_name,
    new_file,
    read_all,
    replace,
    sync_folder,
)
from dirge_py.files.resolve import (
    FILE,
    FOLDER,
    make_folders,
    open_beneath,
    open_folder_handle,
    reason_of,
)
from dirge_py.git.objects import BlobReader, TreeEntry, blob_id
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import MAX_KEPT_BYTES, RestoreResult
from dirge_py.session.snapshots.capture import FileStamp, is_never_held, stamp_of
from dirge_py.types.errors import FileError

DAMAGED = "its content of then is damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """What stands at a path."""

    kind: Literal["nothing", "file", "link", "folder", "other"] = "nothing"
    """What it is."""
    oid: str = ""
    """The name of its content; "" where that was not read."""
    is_executable: bool = False
    """Whether its owner may run it."""
    stamp: FileStamp | None = None
    """Its size, time and inode."""
    why: str = ""
    """Why it was not read."""


class _PathRefused(Exception):
    """This path stays as it is; the text says why."""


def inspect_paths(
    root: str,
    paths: Iterable[str],
    *,
    limit_bytes: int,
    kept: frozenset[str] = frozenset(),
) -> dict[str, PathState]:
    """What stands at these paths below `root` now. Files above the limit are not read.

    Those `kept` because a tool was about to change them may be larger.
    """
    limits = {path: MAX_KEPT_BYTES if path in kept else limit_bytes for path in paths}
    anchor = open_folder_handle(root)
    try:
        return {path: _inspect_path(anchor, path, limit) for path, limit in limits.items()}
    finally:
        os.close(anchor)


def _inspect_path(anchor: int, path: str, limit_bytes: int) -> PathState:
    if not _is_inside(path):
        return PathState(kind="other", why="it is no path in the project")
    try:
        with _folder_of(anchor, path) as folder:
            return _inspect_place(FileLocation(folder, os.path.basename(path), path), limit_bytes)
    except FileNotFoundError:
        return PathState()
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            # Something else stands where its folder was; it may be about to go.
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
        return PathState(kind="other", why="what stands there is no regular file")
    if status.st_size > limit_bytes:
        size = status.st_size / (1 << 20)
        why = f"it is too large for snapshots now ({size:.0f} MiB), so it would be lost"
        return PathState(kind="file", stamp=stamp, why=why)
    descriptor = place.open(place.name, FILE)
    try:
        oid = blob_id(read_all(descriptor))
    finally:
        os.close(descriptor)
    is_executable = bool(status.st_mode & stat.S_IXUSR)
    return PathState(kind="file", oid=oid, is_executable=is_executable, stamp=stamp)


def restore_paths(
    root: str,
    wanted: Mapping[str, TreeEntry | None],
    *,
    standing: Mapping[str, PathState],
    known: frozenset[str],
    contents: BlobReader,
    folders: frozenset[str],
) -> RestoreResult:
    """Make the paths as they are wanted (None: removed), each for itself: one may fail alone.

    `known` are the contents that a snapshot has; `folders` those that there were: others are
    removed when nothing is left in them.
    """
    done: list[str] = []
    failed: list[tuple[str, str]] = []
    anchor = open_folder_handle(root)
    writer = _PathWriter(anchor, known=known, contents=contents, folders=folders)

    def attempt(path: str, change: Callable[[str, PathState], None]) -> None:
        try:
            change(path, standing[path])
            done.append(path)
        except _PathRefused as refusal:
            failed.append((path, str(refusal)))
        except FileError as error:
            failed.append((path, error.message))
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            failed.append((path, reason))

    try:
        # What has to go goes first, the deepest before: it may stand in the way of the rest.
        for path in sorted(wanted, key=lambda path: (-path.count("/"), path)):
            if wanted[path] is None:
                attempt(path, writer.remove)
        for path in sorted(wanted):
            if (entry := wanted[path]) is not None:
                attempt(path, partial(writer.write, entry))
    finally:
        os.close(anchor)
    return RestoreResult(done=tuple(sorted(done)), failed=tuple(sorted(failed)))


class _PathWriter:
    """Writes and removes one path at a time below the folder `anchor`."""

    def __init__(
        self, anchor: int, *, known: frozenset[str], contents: BlobReader, folders: frozenset[str]
    ) -> None:
        self._anchor = anchor
        self._known = known
        self._contents = contents
        self._folders = folders

    def remove(self, path: str, now: PathState) -> None:
        if now.kind in ("nothing", "folder"):
            # A folder was not made by a snapshot: the file that was here is gone.
            return
        self._check_known(now)
        with _folder_of(self._anchor, path) as folder:
            place = FileLocation(folder, os.path.basename(path), path)
            _check_same(place, now)
            place.unlink(place.name)
            sync_folder(folder)
        self._remove_folders(os.path.dirname(path))

    def write(self, entry: TreeEntry, path: str, now: PathState) -> None:
        if is_never_held(path) or not _is_inside(path):
            raise _PathRefused("it is no path of a snapshot")
        kind = "link" if entry.is_link else "file"
        is_same = now.kind == kind and now.oid == entry.oid
        if is_same and (entry.is_link or now.is_executable == entry.is_executable):
            return
        if now.kind not in ("nothing", "folder") and not is_same:
            self._check_known(now)
        content = self._contents.read(entry.oid)
        if content is None:
            raise _PathRefused(DAMAGED)
        with make_folders(self._anchor, path, path) as folder:
            place = FileLocation(folder, os.path.basename(path), path)
            if now.kind == "folder":
                try:
                    # It may have gone with the last file in it.
                    with contextlib.suppress(FileNotFoundError):
                        os.rmdir(place.name, dir_fd=folder)
                except OSError as error:
                    raise _PathRefused(f"a folder is in the way: {reason_of(error)}") from error
                now = PathState()
            if entry.is_link:
                _put_link(place, content, now)
            # A change of its mode would reach the file under its other names (hard links).
            elif not is_same or ((status := place.status()) and status.st_nlink > 1):
                _put_file(place, content, now)
            if not entry.is_link:
                _set_executable(place, is_executable=entry.is_executable)

    def _check_known(self, now: PathState) -> None:
        if now.why:
            raise _PathRefused(now.why)
        if now.oid not in self._known:
            raise _PathRefused("it was changed since the last snapshot")

    def _remove_folders(self, folder: str) -> None:
        """Remove folders that are left empty and were not there then."""
        while folder and folder not in self._folders:
            try:
                with _folder_of(self._anchor, folder) as above:
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
    descriptor = place.open(place.name, FILE)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if bool(mode & stat.S_IXUSR) == is_executable:
            return
        # Whoever may read it may run it, as after a checkout.
        changed = mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111
        os.fchmod(descriptor, changed)
    finally:
        os.close(descriptor)


def _check_same(place: FileLocation, now: PathState) -> None:
    status = place.status()
    if (None if status is None else stamp_of(status)) != now.stamp:
        raise _PathRefused("it changed at this very moment")


@contextlib.contextmanager
def _folder_of(anchor: int, path: str) -> Iterator[int]:
    descriptor = open_beneath(anchor, os.path.dirname(path), FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts)
