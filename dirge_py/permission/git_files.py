"""Reads files of a git folder: regular ones of a sane size, and nothing else."""

import os
import stat
import time
from typing import TypeAlias

from dirge_py.permission.git_settings import Unreadable

_MAX_POINTER_BYTES = 64 * 1024

Stamp: TypeAlias = tuple[int, int, int, int, int]
SETTLED_NS = 2_000_000_000
"""A file that changed this recently may change again without another stamp."""


def read_text(path: str, limit: int = _MAX_POINTER_BYTES) -> str:
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError, Unreadable: it is none, cannot be read, or is larger than `limit` bytes.
    """
    # O_NONBLOCK: a pipe in a file's place must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(f"{path} is no regular file")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise Unreadable(f"{path} is too large")
    return content


def stamp_of(path: str) -> Stamp:
    """What differs after every change of a file, also of one that sets its time back.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(path)
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_settled(stamp: Stamp) -> bool:
    """Whether a further change would surely give the file another stamp."""
    return time.time_ns() - stamp[-1] > SETTLED_NS
