"""What must not be made by a command, kept by an empty one of ours while commands run.

A place can only be mounted upon if something stands there: an empty folder, or a file that says
what its absence says. Ours is marked, so that one that was left behind by a crash is known again,
and locked, so that another dirge does not take it away under the commands of this one.
"""

import atexit
import fcntl
import os
import stat
from contextlib import suppress

# Only its owner, with the sticky bit: nobody has such a folder by chance.
_MARK = 0o1700
_FILE_MARK = 0o1644

_FILES = {"commondir": b".\n", "config.worktree": b""}
"""Of git. Names of what is kept by a file, and what that holds."""


class KeptPlaces:
    """What was made so far. `release` removes what is still as it was made."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def keep(self, path: str) -> str | None:
        """See to it that something stands at `path`; returns what, None if nobody can make it.

        That is `path`, or the first of the folders above it that was missing.
        """
        place = _first_missing(path)
        if self._holds(place):
            return place
        if not os.path.lexists(place):
            try:
                _make(place, _FILES.get(os.path.basename(path)) if place == path else None)
            except FileExistsError:
                pass
            except OSError:
                return None
        if _is_ours(place) and not self._hold(place) and not os.path.lexists(place):
            return self.keep(path)  # another dirge took it away in this moment
        return place

    def give_up(self, path: str) -> None:
        """Let others fill the folder at `path`, if it is one of ours."""
        if self._holds(path):
            _unmark(path)

    def release(self) -> None:
        """Remove what was kept and is still as it was, unless another dirge keeps it, too."""
        for path, descriptor in self._held.items():
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same(path, descriptor):
                    _remove(path)
            os.close(descriptor)
        self._held.clear()
        atexit.unregister(self.release)

    def _holds(self, path: str) -> bool:
        return path in self._held and _is_same(path, self._held[path])

    def _hold(self, path: str) -> bool:
        """Whether it is ours to hold now."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return False
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_same(path, descriptor):
            os.close(descriptor)
            return False
        if not self._held:
            atexit.register(self.release)
        stale = self._held.pop(path, None)
        if stale is not None:
            os.close(stale)
        self._held[path] = descriptor
        return True


def _make(path: str, content: bytes | None) -> None:
    """A marked file of this content, a folder for None."""
    if content is None:
        os.mkdir(path, 0o700)
        os.chmod(path, _MARK)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, content)
        os.fchmod(descriptor, _FILE_MARK)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    if not _is_untouched(path):
        _unmark(path)
    elif os.path.isdir(path):
        os.rmdir(path)
    else:
        os.unlink(path)


def _first_missing(path: str) -> str:
    while not os.path.lexists(above := os.path.dirname(path)):
        path = above
    return path


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
        mark = _MARK if stat.S_ISDIR(status.st_mode) else _FILE_MARK
        is_marked = status.st_mode & 0o7777 == mark and status.st_uid == os.geteuid()
        return is_marked and _is_untouched(path)
    except OSError:
        return False


def _is_untouched(path: str) -> bool:
    if os.path.isdir(path):
        return not os.listdir(path)
    content = _FILES.get(os.path.basename(path))
    if content is None or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(content) + 1) == content


def _is_same(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except OSError:
        return False


def _unmark(path: str) -> None:
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, (0o777 if os.path.isdir(path) else 0o666) & ~mask)
