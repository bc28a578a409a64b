"""Reads a file that an untrusted party may have created."""

import errno
import os
import stat
from pathlib import Path

from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.own_file import UnsafeFile, weakness_of


def read_regular(path: Path, max_bytes: int, *, follow: bool = True, is_own: bool = False) -> bytes:
    """Return at most `max_bytes` of a regular file. Opening a pipe or a device never blocks.

    Raises:
        UnsafeFile: `is_own`, and another user could have written it.
        OSError: it is missing, unreadable, not a regular file, or a link although not `follow`.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with closing_descriptor(os.open(path, flags)) as descriptor:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        weakness = weakness_of(os.fspath(path), status) if is_own else None
        if weakness is not None:
            raise UnsafeFile(os.fspath(path), weakness)
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(max_bytes)
