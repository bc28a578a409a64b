"""One process at a time in the index."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PATIENCE_S = 10.0
_STEP_S = 0.01


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`. Others wait: nobody keeps it for longer than one answer takes.

    Raises:
        OSError: it cannot be made or locked, or is held for longer than ten seconds.
    """
    fd = os.open(path, _FLAGS, 0o600)
    try:
        _wait(fd, time.monotonic() + _PATIENCE_S)
        yield
    finally:
        os.close(fd)


def _wait(fd: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_STEP_S)
