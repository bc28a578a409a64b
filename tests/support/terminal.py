"""The whole program on a pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.forked_process import OnTerminal

LIMIT_S = 20.0
ROOT = Path(__file__).parents[2]


def hand(takes_s: float = 0.12) -> None:
    """Wait as long as a person between two keys."""
    pressed = time.monotonic()
    until(lambda: time.monotonic() > pressed + takes_s, pause_s=0.03)


def until(holds: Callable[[], object], limit_s: float = LIMIT_S, *, pause_s: float = 0.005) -> None:
    """Poll until a condition is true, every `pause_s` seconds."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "it never came true"
        select.select([], [], [], pause_s)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Terminal:
    """A terminal without a display: bytes in, bytes out. `before`: its state at the start.

    `size` is its columns and rows; without it, the terminal doesn't know them.

    What runs on it has loaded the program already, unless `is_fresh`: then it is a start as a
    person has it, three times as dear.
    """

    child: "OnTerminal | subprocess.Popen[bytes]"

    def __init__(
        self,
        arguments: Sequence[str] = ("-m", "dirge_py"),
        *,
        cwd: Path,
        owns_it: bool = False,
        is_fresh: bool = False,
        size: tuple[int, int] = (0, 0),
        **more: str,
    ) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "DIRGE_MODEL": "openai/test",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
            **more,
        }
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(self.master)
        if is_fresh:
            self.child = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=cwd,
                env=environment,
                start_new_session=True,
                preexec_fn=_take_it if owns_it else None,
            )
            os.close(slave)
        else:
            self.child = OnTerminal(
                arguments, slave, environment=environment, cwd=cwd, owns_it=owns_it
            )
        self.output = b""

    def read_until(self, mark: str) -> None:
        end = time.monotonic() + LIMIT_S
        while mark.encode() not in self.output:
            assert time.monotonic() < end and self._read(), self.output[-2000:]

    def read_until_silent(self, quiet_s: float) -> None:
        """Read until nothing was written for `quiet_s` seconds."""
        end = time.monotonic() + LIMIT_S
        while select.select([self.master], [], [], quiet_s)[0]:
            assert time.monotonic() < end and self._read(), self.output[-2000:]

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def interrupt(self) -> int:
        """Press Ctrl+C, and again if nothing happens; returns the exit code.

        Who reads a line as the standard library does hears of a Ctrl+C that came between the
        question and the reading only with the next one.
        """
        for _ in range(2):
            self.press("\x03")
            end = time.monotonic() + LIMIT_S / 4
            while self.child.poll() is None and time.monotonic() < end:
                select.select([], [], [], 0.01)
            if self.child.poll() is not None:
                break
        return self.finish()

    def finish(self) -> int:
        """Read to the end; returns the exit code."""
        while self._read():
            pass
        os.close(self.master)
        return self.child.wait(LIMIT_S)

    def vanish(self) -> float:
        """Close the terminal; returns how long the program still ran, in seconds."""
        began = time.monotonic()
        os.close(self.master)
        self.child.wait(LIMIT_S)
        return time.monotonic() - began

    def _read(self) -> bool:
        if not select.select([self.master], [], [], LIMIT_S)[0]:
            return False
        try:
            piece = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.output += piece
        return bool(piece)


def _take_it() -> None:
    # As a login does: from now on the terminal's end is told to this process by a signal.
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
