"""What was read from a file or folder, kept for as long as that has surely not changed."""

import os
import time
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

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
