"""A lock file that processes wait for, in turn and not for ever."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_STEP_S = 0.01


@contextlib.contextmanager
def hold_lock(path: Path, patience_s: float) -> Iterator[None]:
    """Hold the lock file at `path`, made if it is missing; the kernel frees it, however we end.

    It is tried again and again, as a wait in the kernel would have no end.

    Raises:
        OSError: it cannot be made or locked, or is held by others for longer than `patience_s`.
    """
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        _take(descriptor, time.monotonic() + patience_s)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "another process holds it") from None
        time.sleep(_STEP_S)
