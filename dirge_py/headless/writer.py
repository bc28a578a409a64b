"""The one writer of stdout: whole lines, in order, never dropped, and quiet once nobody reads."""

import os
import select
import signal
from collections.abc import Callable
from types import FrameType


class Interrupted(Exception):
    """A signal came while a slow reader held up our write."""


class Stdout:
    """Writes text to a file descriptor, blocking as long as the reader needs.

    The event loop waits meanwhile: that is the back-pressure. When the other end is closed,
    `is_closed` becomes True and later writes do nothing.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self.is_closed = False
        self.is_writing = False

    def write(self, text: str) -> None:
        """Write all of `text`. Lone surrogates are written as `?`."""
        left = memoryview(text.encode("utf-8", "replace"))
        self.is_writing = True
        try:
            while left and not self.is_closed:
                left = left[self._write_some(left) :]
        finally:
            self.is_writing = False

    def _write_some(self, chunk: memoryview) -> int:
        try:
            return os.write(self._fd, chunk)
        except BlockingIOError:
            select.select([], [self._fd], [])
        except (BrokenPipeError, OSError, Interrupted):
            self.is_closed = True
        return 0


def on_signals(stdout: Stdout, stop: Callable[[str], None]) -> Callable[[], None]:
    """Call `stop(name)` on SIGINT, SIGTERM or SIGHUP, even during a write; returns the undo."""

    def handle(number: int, _frame: FrameType | None) -> None:
        stop(signal.Signals(number).name)
        if stdout.is_writing:
            raise Interrupted

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}

    def undo() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return undo
