"""Removing the unfinished files that a killed process left beside the ones it was writing.

An unfinished file is locked by its writer, so one that can be locked belongs to nobody any more.
Each folder is looked through once by a process: when it first writes a file there.
"""

import contextlib
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Iterable

UNFINISHED = re.compile(r"\.dirge-[0-9a-f]{16}\.(tmp|new)")
"""New content on its way. What ends in `.old` may be the only whole copy of something: it stays."""

_LOCKED_AFTER_S = 5.0
"""A file is there a moment before it is locked."""
_SURELY_LEFT_S = 60 * 60.0
"""For those that cannot be locked: links, and several files that change together."""

_guard = threading.Lock()
_seen: set[tuple[int, int]] = set()


def lock_unfinished(descriptor: int) -> None:
    """Show other processes that this unfinished file is being written, until it is closed."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def clear_leftovers_in(reals: Iterable[str]) -> None:
    """`clear_leftovers` of the folders at these physical paths."""
    for real in reals:
        with contextlib.suppress(OSError):
            folder = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                clear_leftovers(folder)
            finally:
                os.close(folder)


def clear_leftovers(folder: int) -> None:
    """`remove_leftovers`, the first time this process asks for that folder."""
    with contextlib.suppress(OSError):
        status = os.fstat(folder)
        with _guard:
            if (status.st_dev, status.st_ino) in _seen:
                return
            _seen.add((status.st_dev, status.st_ino))
        remove_leftovers(folder)


def remove_leftovers(folder: int) -> None:
    """Remove what killed processes left in this open folder. Raises OSError: it cannot be read."""
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if UNFINISHED.fullmatch(name) and _is_left(name, folder):
                os.unlink(name, dir_fd=folder)


def _is_left(name: str, folder: int) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if status.st_uid != os.geteuid():
        return False
    age_s = time.time() - status.st_mtime
    if stat.S_ISLNK(status.st_mode):
        return age_s > _SURELY_LEFT_S
    if not stat.S_ISREG(status.st_mode):
        return False
    is_free = _can_be_locked(name, folder)
    if is_free and name.endswith(".tmp"):
        return age_s > _LOCKED_AFTER_S
    return is_free is not False and age_s > _SURELY_LEFT_S


def _can_be_locked(name: str, folder: int) -> bool | None:
    """Whether no process holds the file; None where that cannot be told."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return True
