"""A short text that stands for what a path leads to now, so that a later change is noticed."""

import hashlib
import os
import stat
from pathlib import Path

from dirge_py.files.regular_file import read_regular

MAX_HASHED_BYTES = 1024 * 1024
"""A larger file is known by its inode, size and times instead of its content."""

_LENGTH = 32


def fingerprint(path: str, *, with_content: bool) -> str | None:
    """What `path` leads to: its physical path, and `with_content` what stands there.

    None where nothing stands that could be looked at, and without content where no link is on the
    way, so that there is nothing to remember.
    """
    try:
        real = os.path.realpath(path)
        if not with_content:
            return short_digest(real) if real != path else None
        status = os.stat(real)
        is_file = stat.S_ISREG(status.st_mode)
        return short_digest(real, _content(real, status) if is_file else "no file")
    except (OSError, ValueError):
        return None


def stamp(status: os.stat_result) -> str:
    """Stands for a version of a file, without a look into it."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def short_digest(*parts: str) -> str:
    """One text of fixed length for all of `parts`."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


def _content(real: str, status: os.stat_result) -> str:
    if status.st_size > MAX_HASHED_BYTES:
        return stamp(status)
    try:
        content = read_regular(Path(real), MAX_HASHED_BYTES + 1)
    except PermissionError:
        return stamp(status)
    return hashlib.sha256(content).hexdigest()
