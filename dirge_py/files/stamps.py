"""How a change of a file is noticed: stamps, values cached by stamp, fingerprints of content."""

import hashlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from dirge_py.files.safe_read import read_regular

T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, and the times of the last change of content and of attributes."""
SETTLED_NS = 2_000_000_000
"""What changed this recently may change again within one tick of the file system's clock."""


def stamp_of(path: str, *, follow: bool = True) -> Stamp:
    """What differs after every change of a file or folder, also of one that sets its time back.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(path, follow_symlinks=follow)
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_settled(stamp: Stamp) -> bool:
    """Whether a further change would surely give the file another stamp."""
    return time.time_ns() - max(stamp[3:]) > SETTLED_NS


class StampCache(Generic[T]):
    """Values by path, each read again once the path's stamp has changed.

    It holds at most `most` of them: one more, and it begins anew.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, tuple[Stamp, T]] = {}

    def get(self, path: str, read: Callable[[str], T], *, follow: bool = True) -> T:
        """The value that `read` gives for the path now. Without `follow` a link is its own file.

        Raises:
            OSError: the path cannot be looked at. And whatever `read` raises.
        """
        stamp = stamp_of(path, follow=follow)
        known = self._values.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        value = read(path)
        if is_settled(stamp):
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[path] = (stamp, value)
        return value


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


def version_text(status: os.stat_result) -> str:
    """Stands for a version of a file, without a look into it."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def short_digest(*parts: str) -> str:
    """One text of fixed length for all of `parts`."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


def _content(real: str, status: os.stat_result) -> str:
    if status.st_size > MAX_HASHED_BYTES:
        return version_text(status)
    try:
        content = read_regular(Path(real), MAX_HASHED_BYTES + 1)
    except PermissionError:
        return version_text(status)
    return hashlib.sha256(content).hexdigest()
