"""Folders for copies that are thrown away: only for their owner, and gone at the end.

What a killed program left behind is known by its lock, which nobody holds any more.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence

from dirge_py.files.resolve import is_beneath

_PREFIX = "dirge-copy-"
_LOCK = "lock"
_YOUNG_S = 60.0
"""So long after it was made, a folder without a lock may be about to get one."""


class CopyFolder:
    """A new folder in a temporary one; `top` is the folder in it, of that `name`, for the copy."""

    def __init__(self, place: str, name: str) -> None:
        """
        Raises:
            OSError: it cannot be made in `place`.
        """
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        self.top = os.path.join(self._folder, name or "root")
        try:
            self._lock = _locked(os.path.join(self._folder, _LOCK))
        except OSError:
            os.rmdir(self._folder)
            raise
        os.mkdir(self.top)

    def remove(self) -> bool:
        """Remove all of it, whatever modes it has by now. False: some of it is left. Blocks."""
        is_gone = remove_tree(self._folder)
        os.close(self._lock)
        return is_gone


def remove_leftovers(place: str) -> None:
    """Remove the copies in the folder `place` whose program is gone."""
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for folder in found:
        with contextlib.suppress(OSError):
            _remove_if_left(folder)


def _remove_if_left(folder: str) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    try:
        lock = _locked(os.path.join(folder, _LOCK), is_new=False)
    except FileNotFoundError:
        if time.time() - status.st_mtime > _YOUNG_S:
            remove_tree(folder)
        return
    try:
        remove_tree(folder)
    finally:
        os.close(lock)


def _locked(path: str, *, is_new: bool = True) -> int:
    """Raises OSError: somebody else holds it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if is_new else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def place_for_copies(outside_of: Sequence[str]) -> str:
    """The folder for temporary files that lies in none of the physical folders `outside_of`.

    Raises:
        OSError: there is none.
    """
    places = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    real = [os.path.realpath(place) for place in places if os.access(place, os.W_OK)]
    usable = [place for place in real if not is_beneath(place, outside_of)]
    if not usable:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    return usable[0]


def remove_tree(folder: str) -> bool:
    """Remove a folder of ours, with what a command may have made of it. No link is followed."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        # What is there may not be readable or writable, even for its owner.
        with contextlib.suppress(OSError, RecursionError):
            _open_up(folder)
            shutil.rmtree(folder)
    return not os.path.lexists(folder)


def _open_up(folder: str) -> None:
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
            with os.scandir(path) as entries:
                waiting += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
