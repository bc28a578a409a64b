"""A shell in tmux, and its screen."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.terminal import hand, until

NEEDED = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Tmux:
    """One tmux server with one shell; `close` ends both."""

    def __init__(self, folder: Path, *, size: tuple[int, int] = (100, 30)) -> None:
        self._socket = str(folder / "tmux")
        self._run("-f", "/dev/null", "new-session", "-d", "-c", str(folder), "env", "PS1=$ ", "sh")
        self.resize(*size)
        self.sees("$")

    def close(self) -> None:
        self._run("kill-server")

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def state(self, name: str) -> str:
        """A state of the terminal in tmux, such as `alternate_on` or `mouse_any_flag`."""
        return self._run("display-message", "-p", f"#{{{name}}}").strip()

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def answer(self, key: str, shows: str = "") -> None:
        """Select and confirm a choice of the open question, at the speed of a person."""
        self.sees("select, then Enter")
        self.press(key)
        self.sees(shows or f"▸ {key}")
        hand()
        self.press("Enter")

    def enter(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def sees(self, text: str) -> None:
        self.until(lambda: text in self.screen, text)

    def until(self, holds: Callable[[], object], what: str = "") -> None:
        try:
            # Each look is a program of its own, and takes what the program under test wants.
            until(holds, pause_s=0.03)
        except AssertionError:
            pytest.fail(f"never saw {what!r}; on the screen:\n{self.screen}")

    def _run(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
