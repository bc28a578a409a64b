"""The corner of a store that one process works in: its index, its scratch files, its lock.

The lock says that the process lives, and for which session: what that one holds is not pruned.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FOLDER = "dirge"
_LOCK = "lock"
_KEPT = ("index", "large.json")
"""What the next process begins with: which files were seen, and what is too large."""


class Seat:
    """One process's place in the store. Open until `leave`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.index = folder / "index"
        self.large = folder / "large.json"
        self._lock = lock

    def file(self, name: str) -> Path:
        """A scratch file of this process."""
        return self.folder / name

    def publish(self) -> None:
        """Let processes that come later begin with what this one knows."""
        for name in _KEPT:
            with contextlib.suppress(OSError):
                _copy(self.folder / name, self.folder.parent / name)

    def forget(self) -> None:
        """Let go of the index, which nobody may begin with either."""
        for name in _KEPT:
            (self.folder / name).unlink(missing_ok=True)
            (self.folder.parent / name).unlink(missing_ok=True)

    def leave(self) -> None:
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)


def take_seat(store: Path, session: str) -> Seat:
    """A seat in the store, with the newest index that somebody left. The store is held meanwhile.

    Raises:
        OSError: it cannot be made.
    """
    above = store / _FOLDER
    above.mkdir(mode=0o700, exist_ok=True)
    abandoned = [folder for folder in _seats(above) if _user_of(folder) is None]
    folder = Path(tempfile.mkdtemp(prefix="seat-", dir=above))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, session.encode())
    left = [place for place in (above, *abandoned) if (place / "index").is_file()]
    if left:
        newest = max(left, key=lambda place: (place / "index").stat().st_mtime_ns)
        for name in _KEPT:
            with contextlib.suppress(FileNotFoundError):
                _copy(newest / name, folder / name)
    for stale in abandoned:
        shutil.rmtree(stale, ignore_errors=True)
    return Seat(folder, lock)


def sessions_in_use(store: Path) -> set[str]:
    """The sessions that some process works on, as far as they take snapshots."""
    users = [_user_of(folder) for folder in _seats(store / _FOLDER)]
    return {user for user in users if user is not None}


def _seats(above: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from above.glob("seat-*")


def _user_of(folder: Path) -> str | None:
    """The session of the process that holds the seat; None if it is gone."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return os.read(descriptor, 4096).decode(errors="replace")
    else:
        return None
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    """Copy in one step, with the time of the original.

    Git compares the time of an index with those of files to tell which it must look into again.
    """
    status = source.stat()
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, fresh)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.rename(fresh, target)
