"""Folders for copies that are thrown away: only for their owner, and gone at the end.

What a killed program left behind is known by its lock, which nobody holds any more.
"""

import contextlib
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence

from dirge_py.files.removal import remove_tree
from dirge_py.lib.paths import is_below_any

_PREFIX = "dirge-copy-"
_NAME = re.compile(_PREFIX + "[a-z0-9_]{8}")
_LOCK = "lock"
_MARK = b"This folder belongs to a running dirge, which removes it at its end.\n"
_YOUNG_S = 60.0
"""So long after it was made, the lock of a folder may be about to be taken."""


class CopyFolder:
    """A new folder in a temporary one; `top` is the folder in it, of that `name`, for the copy."""

    def __init__(self, place: str, name: str) -> None:
        """
        Raises:
            OSError: it cannot be made in `place`.
        """
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        self.top = os.path.join(self.folder, name if name not in ("", _LOCK) else "root")
        self._lock = -1
        try:
            self._lock = _new_lock(os.path.join(self.folder, _LOCK))
            os.mkdir(self.top)
        except OSError:
            self.remove()
            raise

    def remove(self) -> bool:
        """Remove all of it, whatever modes it has by now. False: some of it is left. Blocks."""
        is_gone = remove_tree(self.folder, last=_LOCK)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return is_gone


def remove_leftovers(place: str) -> None:
    """Remove the copies in the folder `place` whose program is gone."""
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    for folder in found:
        with contextlib.suppress(OSError):
            _remove_if_left(folder)


def place_for_copies(outside_of: Sequence[str]) -> str:
    """The folder for temporary files that lies in none of the physical folders `outside_of`.

    "" where all of them do.

    Raises:
        OSError: nothing can be written to any.
    """
    places = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    real = [os.path.realpath(place) for place in places if os.access(place, os.W_OK)]
    return next((place for place in real if not is_below_any(place, outside_of)), "")


def _new_lock(path: str) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, _MARK)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_left(folder: str) -> None:
    """Raises OSError: it is somebody's."""
    status = os.lstat(folder)
    is_ours = stat.S_IFMT(status.st_mode) == stat.S_IFDIR and status.st_uid == os.geteuid()
    if not is_ours or time.time() - status.st_mtime < _YOUNG_S:
        return
    try:
        lock = os.open(
            os.path.join(folder, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except FileNotFoundError:
        # Its program got no further than this, or it is none of ours: then something is in it.
        os.rmdir(folder)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(lock, len(_MARK) + 1) == _MARK:
            remove_tree(folder, last=_LOCK)
    finally:
        os.close(lock)
