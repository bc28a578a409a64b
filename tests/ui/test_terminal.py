"""The whole program on a pseudo-terminal: however it ends, the terminal is as it was."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LAUNCHER = """
import sys
from dirge_py.ui.run import run_tui
from dirge_py.ui.start import TuiStart
from tests.ui.fake import FakeConversation, user_text

def open_it(asker, session_id=None):
    return FakeConversation(asker, messages=[user_text("hello")])

def warm_up():
    # Nothing of this may be needed for the first frame.
    heavy = {"httpx", "pydantic", "markdown_it", "pygments", "pathspec"} & set(sys.modules)
    assert not heavy, heavy

sys.exit(run_tui(TuiStart(open_first=open_it, open_other=open_it, warm_up=warm_up)))
"""
LIMIT_S = 20.0


class Terminal:
    def __init__(self, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "TERM": "xterm-256color", **environment},
            start_new_session=True,
        )
        os.close(slave)
        self.output = b""

    def read_until(self, mark: bytes) -> None:
        end = time.monotonic() + LIMIT_S
        while mark not in self.output:
            assert time.monotonic() < end, self.output[-2000:]
            if not self._read():
                assert mark in self.output, self.output[-2000:]

    def finish(self) -> int:
        while self._read():
            pass
        os.close(self.master)
        return self.child.wait(LIMIT_S)

    def _read(self) -> bool:
        if not select.select([self.master], [], [], LIMIT_S)[0]:
            return False
        try:
            piece = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.output += piece
        return bool(piece)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
        (signal.SIGINT, 128 + signal.SIGINT),
        (b"\x04", 0),
        (b"\x03\x03", 0),
    ],
)
def test_the_terminal_is_restored(end: signal.Signals | bytes, code: int):
    terminal = Terminal()
    terminal.read_until(b"ready")
    if isinstance(end, bytes):
        os.write(terminal.master, end)
    else:
        terminal.child.send_signal(end)

    assert terminal.finish() == code
    for switched_off in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert terminal.output.rfind(switched_off) > terminal.output.rfind(
            switched_off[:-1] + (b"l" if switched_off.endswith(b"h") else b"h")
        )
    assert b"To come back: dirge -r s-1" in terminal.output


def test_no_color_means_none():
    terminal = Terminal(NO_COLOR="1")
    terminal.read_until(b"ready")
    terminal.child.send_signal(signal.SIGTERM)
    terminal.finish()
    assert b"[38;" not in terminal.output
    assert b"[48;" not in terminal.output
