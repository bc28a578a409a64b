"""Reading a file that a stranger may have put there."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, max_bytes: int, *, follow: bool = True) -> bytes:
    """At most `max_bytes` of a regular file. Opening a pipe or a device never blocks.

    Raises:
        OSError: it is absent, unreadable, no regular file, or a link although not `follow`.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(max_bytes)
    finally:
        os.close(descriptor)
