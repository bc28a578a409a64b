"""`!` in the whole program, on a real terminal."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.terminal import LIMIT_S, Terminal, is_alive, until


@pytest.mark.parametrize("end", ["hang up", "kill"])
def test_shell_command_ends_with_program(tmp_path: Path, end: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    state = {"HOME": str(tmp_path), "DIRGE_STATE_DIR": str(tmp_path / "state")}
    terminal = Terminal(cwd=project, owns_it=True, SHELL="/bin/bash", **state)
    terminal.read_until("help")
    # The prompt differs from the typed text, which is echoed before the command runs.
    terminal.press("! read -p name$((40+2)) x; echo $$ > pid; echo hello $x; exec sleep 55\r")
    terminal.read_until("name42")
    terminal.press("ada\r")
    terminal.read_until("hello ada")
    until(lambda: (project / "pid").exists() and (project / "pid").read_text().strip())
    pid = int((project / "pid").read_text())
    assert is_alive(pid)

    if end == "kill":
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.child.wait(LIMIT_S)
        os.close(terminal.master)
    else:
        terminal.vanish()

    until(lambda: not is_alive(pid))
