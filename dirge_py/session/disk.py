"""Files of a session as the system sees them: opened safely, written whole, made to last."""

import contextlib
import os
import stat
from pathlib import Path

from dirge_py.files.atomic import write_all
from dirge_py.types.errors import SessionError

READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file.

    Raises:
        SessionError: it cannot be opened, or is a link, folder, pipe or the like.
    """
    try:
        fd = os.open(path, flags)
    except OSError as error:
        raise SessionError(
            f"The session file {str(path)!r} cannot be opened: {error.strerror}.",
            hint="`dirge -r` lists those there are.",
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SessionError(f"{str(path)!r} is no regular file.", hint="Move it away.")
    return fd


def append_durably(path: Path, payload: bytes) -> None:
    """Add to a file, which is made if there is none; it is on the disk when this returns."""
    fd = os.open(path, APPEND_FLAGS | os.O_CREAT, 0o600)
    try:
        write_all(fd, payload)
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make a folder, closed to others, unless it is there. Its name survives a power cut."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)


def make_folders(folder: Path) -> None:
    """The same with every folder above that is missing."""
    for at in (*reversed(folder.parents), folder):
        if not at.exists():
            make_folder(at)


def sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
