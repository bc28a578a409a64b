"""Replaces a file's content so that every reader sees the old bytes or the new, never a mixture.

Usually a new file beside the old one is renamed over it; other names of the old one (hard links)
keep the old content. Where that would lose the owner, the bytes are written in place, after a copy
of the old ones is on disk; a file with other names is refused then.

A killed process leaves unfinished files behind. A writer locks its own, so an unlocked one was
abandoned; a process removes those from each folder that it writes to, once.
"""

import contextlib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dirge_py.files.resolve import FOLDER, absolute, reason_of, resolve
from dirge_py.lib.file_lock import closing_descriptor, try_lock
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

# Read once, at import: reading it means changing it for a moment, for every thread.
_UMASK = os.umask(0o077)
os.umask(_UMASK)

UNFINISHED = late_pattern(r"\.dirge-[0-9a-f]{16}\.(tmp|new)")
"""Names of unfinished files, without `.old`: such a file may be the only complete copy."""

_LOCKED_AFTER_S = 5.0
"""The age below which an unlocked file is kept: a file exists a moment before it is locked."""
_SURELY_LEFT_S = 60 * 60.0
"""The same for files that cannot be locked: links, and several files that change together."""
_guard = threading.Lock()
_seen: set[tuple[int, int]] = set()


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A name in an open folder. `shown` is its name in errors."""

    folder: int
    name: str
    shown: str

    def status(self, name: str = "") -> os.stat_result | None:
        """Return the status of the file, or of `name` beside it; None if missing."""
        try:
            return os.stat(name or self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(
            name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=self.folder
        )

    def read(self, name: str = "") -> bytes:
        """Return the content of the file, or of `name` beside it."""
        with open(self.open(name or self.name, os.O_RDONLY), "rb") as file:
            return file.read()

    def unlink(self, name: str) -> None:
        """Remove the name, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


class OwnerLost(Exception):
    """A new file could not get the old one's owner or group."""


def atomic_write(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the content of the file at `path`; its folder must exist.

    A link is followed and kept. An existing file keeps its mode, owner and extended attributes; a
    new one gets `mode`, else 0666 minus the umask. The content is on disk when this returns. Raises
    FileError if it could not be written; the old content is untouched.
    """
    real = resolve(absolute(os.fspath(path), os.getcwd())).real
    try:
        folder = os.open(os.path.dirname(real), FOLDER | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(f"{os.path.dirname(real)}: {reason_of(error)}.") from error
    with closing_descriptor(folder):
        replace(FileLocation(folder, os.path.basename(real), real), content, mode=mode)


def fresh_name(suffix: str) -> str:
    """Return an unguessable name for a temporary file beside another file."""
    return f".dirge-{secrets.token_hex(8)}.{suffix}"


@contextlib.contextmanager
def new_file(place: FileLocation, name: str = "") -> Iterator[tuple[str, int]]:
    """Create a file for its owner in the folder of `place`; remove it unless it was renamed."""
    name = name or fresh_name("tmp")
    clear_leftovers(place.folder)
    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(OSError):  # other processes keep a locked file
            try_lock(descriptor)
        yield name, descriptor
    finally:
        os.close(descriptor)
        place.unlink(name)


def fill(
    place: FileLocation,
    descriptor: int,
    content: bytes,
    *,
    like: os.stat_result | None,
    mode: int | None = None,
) -> None:
    """Prepare a new file to replace another: bytes on disk, owner, attributes, mode.

    `like` is the status of the file at `place`, whose owner, attributes and mode it gets; without
    one it gets `mode`, else the default minus the umask. Raises OwnerLost: it can't have that
    owner; OSError: it can't be written.
    """
    _write_checked(descriptor, content)
    if like is None:
        os.fchmod(descriptor, 0o666 & ~_UMASK if mode is None else mode)
    else:
        new = os.fstat(descriptor)
        if (new.st_uid, new.st_gid) != (like.st_uid, like.st_gid):
            try:
                os.fchown(descriptor, like.st_uid, like.st_gid)
            except PermissionError:
                raise OwnerLost from None
        if hasattr(os, "listxattr"):
            # The kernel owns some namespaces; attributes that cannot be copied are left out.
            old = place.open(place.name, os.O_RDONLY)
            with closing_descriptor(old), contextlib.suppress(OSError):
                for attribute in os.listxattr(old):
                    with contextlib.suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(old, attribute))
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    os.fsync(descriptor)


def refuse_unwritable(place: FileLocation, old: os.stat_result) -> None:
    """Raise FileError or OSError if `old`, the file at `place`, cannot be written to."""
    if not stat.S_ISREG(old.st_mode):
        raise FileError(f"{place.shown} is not a regular file.")
    # A rename would replace even a read-only file, against its mode.
    try:
        os.close(place.open(place.name, os.O_WRONLY))
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise


def refuse_shared(place: FileLocation, old: os.stat_result) -> None:
    """Raise FileError if writing in place would change the file under other names, too."""
    if old.st_nlink > 1:
        raise FileError(
            f"{place.shown} was not written: it has {old.st_nlink} names (hard links) and belongs "
            "to another user, so the others would change with it.",
            hint="Nothing was changed. Write a new file, or ask the user to change this one.",
        )


def _write_checked(descriptor: int, content: bytes) -> None:
    """Write `content` into an empty file, and check that all of it arrived."""
    write_all(descriptor, content)
    if os.fstat(descriptor).st_size != len(content):
        raise OSError(errno.EIO, "the file does not have the size that was written")


def write_all(descriptor: int, content: bytes) -> None:
    """Write `content`, in as many writes as it takes."""
    # On a nearly full disk, one write may write only a part without an error.
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@contextlib.contextmanager
def reporting_unwritten(place: FileLocation) -> Iterator[None]:
    """Raise FileError for an OSError in the block: the file at `place` was not written."""
    try:
        yield
    except OSError as error:
        hint = "Nothing was changed."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint += " Free some space, then try again."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint += " The file and its folder must be writable."
        raise FileError(f"{place.shown} was not written: {reason_of(error)}.", hint=hint) from error


def replace(
    place: FileLocation,
    content: bytes,
    *,
    check: Callable[[], None] = lambda: None,
    mode: int | None = None,
) -> os.stat_result:
    """Put `content` at `place` and return the status of the new file.

    `check` is called when everything is prepared, directly before the change becomes visible; an
    exception in it stops the change. Raises FileError if it could not be done, or the existing file
    is not a regular, writable file.
    """
    with reporting_unwritten(place):
        old = place.status()
        if old is not None:
            refuse_unwritable(place, old)
        with contextlib.suppress(OwnerLost), new_file(place) as (temporary, descriptor):
            fill(place, descriptor, content, like=old, mode=mode)
            status = os.fstat(descriptor)
            check()
            os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            sync_folder(place.folder)
            return status
        if old is not None:
            refuse_shared(place, old)
        # If the process is killed here, the copy stays: it may be the only complete one.
        with new_file(place, fresh_name("old")) as (_, copy):
            _write_checked(copy, place.read())
            os.fsync(copy)
            sync_folder(place.folder)
            return write_in_place(place, content, check=check)


def write_in_place(
    place: FileLocation, content: bytes, *, check: Callable[[], None] = lambda: None
) -> os.stat_result:
    """Overwrite the file at `place`, which has a copy on disk; restore it on an OSError."""
    with open(place.open(place.name, os.O_RDWR), "r+b", buffering=0) as file:
        descriptor, before = file.fileno(), file.read()
        check()
        try:
            # Allocate space first, so that a full disk is noticed before any byte has changed.
            if hasattr(os, "posix_fallocate") and content:
                os.posix_fallocate(descriptor, 0, len(content))
            _write_from_start(descriptor, content)
        except BaseException:
            _write_from_start(descriptor, before)
            raise
        return os.fstat(descriptor)


def _write_from_start(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, max(os.fstat(descriptor).st_size, len(content)))
    write_all(descriptor, content)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def clear_leftovers_in(reals: Iterable[str]) -> None:
    """Call `clear_leftovers` for the folders at these physical paths."""
    for real in reals:
        with contextlib.suppress(OSError):
            folder = os.open(real, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
            with closing_descriptor(folder):
                clear_leftovers(folder)


def clear_leftovers(folder: int) -> None:
    """Call `remove_leftovers` once per folder in this process."""
    with contextlib.suppress(OSError):
        status = os.fstat(folder)
        with _guard:
            if (status.st_dev, status.st_ino) in _seen:
                return
            _seen.add((status.st_dev, status.st_ino))
        remove_leftovers(folder)


def remove_leftovers(folder: int) -> None:
    """Remove unfinished files of killed processes from this open folder. Raises OSError."""
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if UNFINISHED.fullmatch(name) and _is_left(name, folder):
                os.unlink(name, dir_fd=folder)


def _is_left(name: str, folder: int) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_file = stat.S_ISREG(status.st_mode)
    if status.st_uid != os.geteuid() or not (is_file or stat.S_ISLNK(status.st_mode)):
        return False
    left_after_s = _SURELY_LEFT_S
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):  # a link, or one that can't be opened
        descriptor = os.open(name, flags, dir_fd=folder)
        with closing_descriptor(descriptor):
            if not try_lock(descriptor):
                return False
            if name.endswith(".tmp"):
                left_after_s = _LOCKED_AFTER_S
    return time.time() - status.st_mtime > left_after_s
