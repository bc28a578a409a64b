"""The one writer of stdout: whole lines, in order, never dropped, and quiet once nobody reads."""

import os
import select
import signal
from collections.abc import Callable
from types import FrameType

HURRIED_S = 1.0
"""How long a write waits for its reader once a signal asked for the end."""


class WriteInterrupted(Exception):
    """A signal came while a slow reader held up our write."""


class Stdout:
    """Writes text to a file descriptor, waiting as long as the reader needs.

    The event loop waits meanwhile: that is the back-pressure. When the other end is closed,
    `is_closed` becomes True and later writes do nothing; so it does when a write fails, and then
    `failure` says why. `is_blocked` while the reader is slow.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self.is_closed = False
        self.failure = ""
        self.is_blocked = False
        self.is_hurried = False

    def write(self, text: str) -> None:
        """Write all of `text`. Lone surrogates are written as `?`."""
        left = memoryview(text.encode("utf-8", "replace"))
        while left and not self.is_closed:
            left = left[self._write_some(left) :]

    def _write_some(self, text: memoryview) -> int:
        try:
            self._wait()
            # What a pipe that is ready takes at once: so it is never the write that waits.
            return os.write(self._fd, text[: select.PIPE_BUF])
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError, WriteInterrupted):
            self.is_closed = True
        except OSError as error:
            self.is_closed = True
            self.failure = error.strerror or str(error)
        return 0

    def _wait(self) -> None:
        """Wait for the reader; after a signal only for one that is still there."""
        if self._is_ready(0):
            return
        self.is_blocked = True
        try:
            ready = self._is_ready(HURRIED_S if self.is_hurried else None)
        except WriteInterrupted:
            ready = self._is_ready(HURRIED_S)
        finally:
            self.is_blocked = False
        if not ready:
            raise WriteInterrupted

    def _is_ready(self, patience_s: float | None) -> bool:
        return bool(select.select([], [self._fd], [], patience_s)[1])


def on_signals(stdout: Stdout, stop: Callable[[str], None]) -> Callable[[], None]:
    """Call `stop(name)` on SIGINT, SIGTERM or SIGHUP, also while a write waits; returns the undo.

    From then on a write waits no longer than `HURRIED_S` for its reader.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        stop(signal.Signals(number).name)
        stdout.is_hurried = True
        if stdout.is_blocked:
            raise WriteInterrupted

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}

    def undo() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return undo
