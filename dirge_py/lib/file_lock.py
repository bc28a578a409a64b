"""Descriptors, and lock files: one to wait for in turn, one held for long that names its holder.

The kernel releases a lock when its process ends, in whatever way.
"""

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_STEP_S = 0.01


@contextlib.contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Yield an open descriptor, and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file unless another process holds it. Raises OSError if it cannot be locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int, patience_s: float) -> None:
    """Lock an open file within `patience_s`. Raises OSError: it can't, or others hold it."""
    deadline = time.monotonic() + patience_s
    while not try_lock(descriptor):
        if time.monotonic() >= deadline:
            raise OSError(errno.EBUSY, "another process holds it")
        time.sleep(_STEP_S)


@contextlib.contextmanager
def hold_lock(path: Path, patience_s: float) -> Iterator[int]:
    """Hold the lock file at `path`; yields its descriptor. Raises OSError, as `wait_for_lock`."""
    with closing_descriptor(os.open(path, _FLAGS, 0o600)) as descriptor:
        wait_for_lock(descriptor, patience_s)
        yield descriptor


class LockHeld(Exception):
    """Another process, or another part of this one, holds the lock; `pid` is None if unknown."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"process {pid}" if pid else "another process")
        self.pid = pid


class FileLock:
    """A held lock file that says who holds it (id and start of the process), removed at release."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, path: Path) -> "FileLock":
        """Take the lock at once. Raises LockHeld, or OSError (no `filename`: no locks there)."""
        while True:
            descriptor = os.open(path, _FLAGS, 0o600)
            try:
                if not try_lock(descriptor):
                    raise LockHeld(_holder(descriptor))
                # A holder removes the file before it releases the lock. A process that opened it
                # just before has now locked a deleted file, which keeps no other process out.
                if _is_still_at(path, descriptor):
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_identity(os.getpid())).encode(), 0)
        return cls(path, descriptor)

    def release(self) -> None:
        """Release the lock. A second call changes nothing."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def lock_holder(path: Path) -> int | None:
    """Return the process that holds the `FileLock` at `path`, if that is known; locks nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with closing_descriptor(descriptor):
        return _holder(descriptor)


def _is_still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> int | None:
    """Return the process that wrote its id into the lock, if that process still runs."""
    try:
        written = json.loads(os.pread(descriptor, 4096, 0))
        pid = int(written["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return pid if written == _identity(pid) else None


def _identity(pid: int) -> dict[str, object]:
    """Return an identity of a process: ids are reused, so with its start, from /proc."""
    boot_id = started = ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # Field 22; the second one may itself hold spaces and brackets.
        status = Path(f"/proc/{pid}/stat").read_bytes()
        started = status.rpartition(b")")[2].split()[19].decode()
    return {"pid": pid, "boot_id": boot_id, "started": started}
