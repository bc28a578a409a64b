"""New files beside old ones: where content is prepared before anything visible changes."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator

from dirge_py.files.leftovers import clear_leftovers, lock_unfinished
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

_UMASK = os.umask(0o077)
os.umask(_UMASK)
# Read once, at import: reading it means setting it for a moment, for every thread.


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder. `shown` is how errors call it."""

    folder: int
    name: str
    shown: str

    def status(self, name: str = "") -> os.stat_result | None:
        """What stands there, or under that name beside it, links not followed; None if nothing."""
        try:
            return os.stat(name or self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(
            name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=self.folder
        )

    def read(self, name: str = "") -> bytes:
        """All of the file of that name beside it; else its own content."""
        descriptor = self.open(name or self.name, os.O_RDONLY)
        try:
            return read_all(descriptor)
        finally:
            os.close(descriptor)

    def unlink(self, name: str) -> None:
        """Remove the name, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


class OwnerLost(Exception):
    """A new file could not be given the old one's owner or group."""


def fresh_name(suffix: str) -> str:
    """A name for a file of ours beside somebody's; nobody can guess it."""
    return f".dirge-{secrets.token_hex(8)}.{suffix}"


@contextlib.contextmanager
def new_file(place: Place, name: str = "") -> Iterator[tuple[str, int]]:
    """A fresh private file in the folder of `place`; gone at the end unless it was renamed."""
    name = name or fresh_name("tmp")
    clear_leftovers(place.folder)
    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        lock_unfinished(descriptor)
        yield name, descriptor
    finally:
        os.close(descriptor)
        place.unlink(name)


def fill(
    place: Place,
    descriptor: int,
    content: bytes,
    *,
    like: os.stat_result | None,
    mode: int | None = None,
) -> None:
    """Give a new file all it needs to take the place: bytes on disk, owner, attributes, mode.

    `like` is the status of the file at `place`, whose owner, attributes and mode it takes; without
    one it gets `mode`, else what the umask leaves.

    Raises:
        OwnerLost: it cannot have that owner.
        OSError: it cannot be written.
    """
    write_all(descriptor, content)
    if like is None:
        os.fchmod(descriptor, 0o666 & ~_UMASK if mode is None else mode)
    else:
        _copy_standing(place, descriptor, like)
    os.fsync(descriptor)


def refuse_unwritable(place: Place, old: os.stat_result) -> None:
    """Raises FileError or OSError if `old`, which stands at `place`, is no file we may write."""
    if not stat.S_ISREG(old.st_mode):
        raise FileError(f"{place.shown} is not a regular file.")
    # A rename would succeed on a read-only file, against what its mode says.
    try:
        os.close(place.open(place.name, os.O_WRONLY))
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise


def refuse_shared(place: Place, old: os.stat_result) -> None:
    """Raises FileError if writing in place would change the file under other names, too."""
    if old.st_nlink > 1:
        raise FileError(
            f"{place.shown} was not written: it has {old.st_nlink} names (hard links) and belongs "
            "to another user, so the others would change with it.",
            hint="Nothing was changed. Write a new file, or ask the user to change this one.",
        )


def _copy_standing(place: Place, descriptor: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner, extended attributes and mode."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            raise OwnerLost from None
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


def write_all(descriptor: int, content: bytes) -> None:
    """Write `content` into an empty file, and see that all of it arrived."""
    write_some(descriptor, content)
    if os.fstat(descriptor).st_size != len(content):
        raise OSError(errno.EIO, "the file has not the size that was written")


def write_some(descriptor: int, content: bytes) -> None:
    # One write may take less than all of it without an error, on a disk that is nearly full.
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def hint_of(error: OSError) -> str:
    """What to do about a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Nothing was changed. Free some space, then try again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Nothing was changed. The file and its folder must be writable."
    return "Nothing was changed."
