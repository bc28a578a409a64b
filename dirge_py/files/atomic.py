"""Replacing a file's content so that every reader sees the old bytes or the new, never a mixture.

The usual way is a new file beside the old one, renamed over it. Where that would break a hard
link or lose the owner, the bytes are written in place, after a copy of the old ones is on disk.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dirge_py.errors import FileError
from dirge_py.files.beneath import FOLDER
from dirge_py.files.resolve import absolute, reason_of, resolve
from dirge_py.lib.lean_dataclass import dataclass

_UMASK = os.umask(0o077)
os.umask(_UMASK)
# Read once, at import: reading it means setting it for a moment, for every thread.


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder. `shown` is how errors call it."""

    folder: int
    name: str
    shown: str

    def status(self) -> os.stat_result | None:
        """What stands there, links not followed; None if nothing does."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(
            name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=self.folder
        )


def atomic_write(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Make `content` the whole of the file at `path`; its folder must exist.

    A link is followed and kept. An existing file keeps its mode, owner and extended attributes; a
    new one gets `mode`, else what the umask leaves of 0666. On disk when this returns.

    Raises:
        FileError: it could not be done; the old content is untouched.
    """
    real = resolve(absolute(os.fspath(path), os.getcwd())).real
    try:
        folder = os.open(os.path.dirname(real), FOLDER | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(f"{os.path.dirname(real)}: {reason_of(error)}.") from error
    try:
        replace(Place(folder, os.path.basename(real), real), content, mode=mode)
    finally:
        os.close(folder)


def replace(
    place: Place,
    content: bytes,
    *,
    check: Callable[[], None] = lambda: None,
    mode: int | None = None,
) -> os.stat_result:
    """Put `content` at `place` and return the status of the file that now stands there.

    `check` is called when everything is prepared, directly before the change becomes visible; what
    it raises stops the change.

    Raises:
        FileError: it could not be done, or what stands there is no regular file we may write.
    """
    try:
        old = place.status()
        if old is not None:
            _refuse_unwritable(place, old)
        if old is None or old.st_nlink == 1:
            with contextlib.suppress(_OwnerLost):
                return _replace_by_rename(place, content, old=old, check=check, mode=mode)
        return _replace_in_place(place, content, check=check)
    except OSError as error:
        raise FileError(
            f"{place.shown} was not written: {reason_of(error)}.", hint=_hint(error)
        ) from error


class _OwnerLost(Exception):
    """A new file could not be given the old one's owner or group."""


def _refuse_unwritable(place: Place, old: os.stat_result) -> None:
    if not stat.S_ISREG(old.st_mode):
        raise FileError(f"{place.shown} is not a regular file.")
    # A rename would succeed on a read-only file, against what its mode says.
    try:
        os.close(place.open(place.name, os.O_WRONLY))
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise


def _replace_by_rename(
    place: Place,
    content: bytes,
    *,
    old: os.stat_result | None,
    check: Callable[[], None],
    mode: int | None,
) -> os.stat_result:
    with _new_file(place) as (temporary, descriptor):
        _write_all(descriptor, content)
        if old is None:
            os.fchmod(descriptor, 0o666 & ~_UMASK if mode is None else mode)
        else:
            _copy_standing(place, descriptor, old)
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        check()
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    _sync_folder(place.folder)
    return status


def _replace_in_place(place: Place, content: bytes, *, check: Callable[[], None]) -> os.stat_result:
    descriptor = place.open(place.name, os.O_RDWR)
    try:
        before = _read_all(descriptor)
        with _new_file(place) as (_, copy):
            _write_all(copy, before)
            os.fsync(copy)
            _sync_folder(place.folder)
            check()
            _overwrite(descriptor, content, before=before)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _overwrite(descriptor: int, content: bytes, *, before: bytes) -> None:
    """Write over an open file; if that breaks off, put the old bytes back."""
    try:
        # Room is taken first, so that a full disk shows before a byte has changed.
        if hasattr(os, "posix_fallocate") and content:
            os.posix_fallocate(descriptor, 0, len(content))
        _write_from_start(descriptor, content)
    except BaseException:
        _write_from_start(descriptor, before)
        raise


def _write_from_start(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, max(os.fstat(descriptor).st_size, len(content)))
    _write_some(descriptor, content)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


@contextlib.contextmanager
def _new_file(place: Place) -> Iterator[tuple[str, int]]:
    """A fresh private file in the folder of `place`; gone at the end unless it was renamed."""
    name = f".dirge-{secrets.token_hex(8)}.tmp"
    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place.folder)


def _copy_standing(place: Place, descriptor: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner, extended attributes and mode."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            raise _OwnerLost from None
    if hasattr(os, "listxattr"):
        _copy_attributes(place, descriptor)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _copy_attributes(place: Place, descriptor: int) -> None:
    source = place.open(place.name, os.O_RDONLY)
    try:
        # Some namespaces are the kernel's own; what may not be copied is not ours to keep.
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(source):
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
    finally:
        os.close(source)


def _write_all(descriptor: int, content: bytes) -> None:
    _write_some(descriptor, content)
    if os.fstat(descriptor).st_size != len(content):
        raise OSError(errno.EIO, "the file has not the size that was written")


def _write_some(descriptor: int, content: bytes) -> None:
    # One write may take less than all of it without an error, on a disk that is nearly full.
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Nothing was changed. Free some space, then try again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Nothing was changed. The file and its folder must be writable."
    return "Nothing was changed."
