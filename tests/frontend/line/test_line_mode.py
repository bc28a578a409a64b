"""Line mode as a program: on a terminal, on a dumb terminal, and its imports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_imports import loaded, scripted
from tests.support.terminal import ROOT, Terminal
from tests.support.tmux import NEEDED, Tmux

__all__ = ["scripted"]

ASKING = {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}


@pytest.fixture
def project(home: Path) -> Path:
    """A home whose model calls a command and then answers."""
    replies = {"replies": [ASKING, {"text": "Made it.", "chunk_chars": 2}]}
    (home / "replies.json").write_text(json.dumps(replies))
    settings = home / ".config" / "dirge" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '[providers.s]\ntype = "scripted"\nmodel = "m"\n'
        f'script = "{home / "replies.json"}"\n[session]\nsnapshots = false\n'
    )
    (home / "shop").mkdir()
    return home / "shop"


def test_dumb_terminal_gets_lines_without_escape_codes(project: Path) -> None:
    terminal = Terminal(cwd=project, owns_it=True, TERM="dumb", DIRGE_MODEL="s/m")
    terminal.read_until("> ")
    terminal.press("make it\nhalf a thou")
    terminal.read_until("Not sent: half a thou")
    terminal.read_until("answer:")
    terminal.press("\x04")

    assert terminal.finish() == 0
    assert b"\x1b" not in terminal.output
    assert not (project / "made").exists()
    assert b"To come back: dirge --line -r " in terminal.output


def test_resume_with_all_lists_the_sessions_of_other_projects(project: Path) -> None:
    terminal = Terminal(("-m", "dirge_py", "--line", "hello"), cwd=project, DIRGE_MODEL="s/m")
    terminal.read_until("answer:")
    terminal.press("\x04")
    terminal.finish()
    elsewhere = project.with_name("other")
    elsewhere.mkdir()
    words = ("-m", "dirge_py", "--line", "-r", "--all")
    terminal = Terminal(words, cwd=elsewhere, DIRGE_MODEL="s/m")
    terminal.read_until("Sessions of all projects:")
    terminal.read_until("  1: hello")
    terminal.child.send_signal(signal.SIGTERM)
    assert terminal.finish() == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_line_mode_with_exit_code_and_resume_hint(
    project: Path, number: signal.Signals
) -> None:
    terminal = Terminal(("-m", "dirge_py", "--line"), cwd=project, DIRGE_MODEL="s/m")
    terminal.read_until("/help lists")
    terminal.press("make it\r")
    terminal.read_until("answer:")
    terminal.child.send_signal(number)

    assert terminal.finish() == 128 + number
    assert not (project / "made").exists()
    assert b"To come back: dirge --line -r " in terminal.output


def test_closed_terminal_ends_line_mode(project: Path) -> None:
    terminal = Terminal(("-m", "dirge_py", "--line"), cwd=project, DIRGE_MODEL="s/m")
    terminal.read_until("/help lists")
    assert terminal.vanish() < 5
    assert terminal.child.returncode == 129


def test_line_mode_without_provider_names_config_init(home: Path) -> None:
    terminal = Terminal(
        ("-m", "dirge_py", "--line"),
        cwd=home,
        OPENAI_API_KEY="",
        OPENAI_BASE_URL="",
        DIRGE_MODEL="",
    )

    assert terminal.finish() == 2
    assert b"dirge config init" in terminal.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
def test_script_fails_when_stdout_cannot_be_written(project: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "dirge_py", "--line", "-m", "s/m"],
            input=b"make it\ny\n",
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )

    assert result.returncode == 1
    assert b"cannot write the output" in result.stderr
    assert not (project / "made").exists()


def test_script_imports_no_screen_or_line_editor(scripted: Path) -> None:
    modules = loaded(scripted, "--line", "read the note")
    assert modules.isdisjoint({"textual", "rich", "prompt_toolkit", "watchfiles"})


def test_line_editor_imports_no_screen(tmp_path: Path) -> None:
    code = (
        "import sys, dirge_py.frontend.line.editor;"
        "sys.exit(bool({'textual', 'rich'} & {*sys.modules}))"
    )
    terminal = Terminal(("-c", code), cwd=tmp_path, is_fresh=True)
    assert terminal.finish() == 0


@NEEDED
class TestInTmux:
    @pytest.fixture
    def tmux(self, project: Path) -> Iterator[Tmux]:
        tmux = Tmux(project)
        yield tmux
        tmux.close()

    def test_draft_stays_below_output(self, tmux: Tmux) -> None:
        tmux.enter(f"clear; PYTHONPATH={ROOT} {sys.executable} -m dirge_py --line -m s/m")
        tmux.sees("/help lists")
        tmux.enter("make it")
        tmux.sees("answer:")
        tmux.press("C-c")
        tmux.sees("Interrupted.")
        tmux.type("a draft")
        tmux.until(lambda: "> a draft" in tmux.screen.splitlines(), "the draft")
        lines = [line for line in tmux.screen.splitlines() if line]

        assert lines[-1] == "> a draft"
        assert "> make it" in lines
        assert not [line for line in lines if line.startswith(("working>", "asking>"))]
        tmux.press("C-c", "C-d")
        tmux.sees("To come back: dirge --line -r ")
