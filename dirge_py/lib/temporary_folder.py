"""Temporary folders that are removed even if the program is killed: by a later one."""

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from shutil import rmtree

from dirge_py.lib.lazy import late_pattern

_PREFIX = "dirge-tmp-"
_NAME = late_pattern(_PREFIX + r"(?:[a-z]+-)*[a-z0-9_]{8}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_YOUNG_S = 60.0
"""The age below which a folder is kept, because it may not be locked yet."""
_cleaning = threading.Lock()
_state = {"is_cleaned": False}


class TemporaryFolder:
    """A new folder in the system's temporary folder, until `remove`. Its lock says it is in use.

    The first one of a process also removes, in the background, those of programs that were killed.
    """

    def __init__(self, kind: str) -> None:
        """Create the folder, with the word `kind` in its name. Raises OSError."""
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-"))
        self._lock = os.open(self.path, _FOLDER)
        with contextlib.suppress(OSError):  # without locks there, nobody takes it for abandoned
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clean_once(os.path.dirname(self.path))

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with its contents. A second call changes nothing."""
        if self._lock >= 0:
            rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _clean_once(place: str) -> None:
    with _cleaning:
        is_cleaned, _state["is_cleaned"] = _state["is_cleaned"], True
    if not is_cleaned:
        threading.Thread(target=remove_abandoned, args=(place,), daemon=True).start()


def remove_abandoned(place: str) -> None:
    """Remove the folders of programs that have ended without removing them. Never raises."""
    with contextlib.suppress(OSError):
        for name in filter(_NAME.fullmatch, os.listdir(place)):
            with contextlib.suppress(OSError):  # it is in use, or not ours
                _remove_if_abandoned(Path(place, name))


def _remove_if_abandoned(folder: Path) -> None:
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not is_ours or time.time() - status.st_mtime < _YOUNG_S:
        return
    descriptor = os.open(folder, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
