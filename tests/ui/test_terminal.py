"""However the program ends, the terminal is as it was; and it ends when the terminal does."""

import signal
from pathlib import Path

import pytest

from tests.providers.server import FakeService, Say
from tests.ui.on_a_pty import Terminal, is_alive, until

ENDS_WITHIN_S = 2.0


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
        (signal.SIGINT, 128 + signal.SIGINT),
        ("\x04", 0),
        ("\x03\x03", 0),
    ],
)
def test_the_terminal_is_restored(tmp_path: Path, end: signal.Signals | str, code: int):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    if isinstance(end, str):
        terminal.press(end)
    else:
        terminal.child.send_signal(end)

    assert terminal.finish() == code
    for switched_off in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert terminal.output.rfind(switched_off) > terminal.output.rfind(
            switched_off[:-1] + (b"l" if switched_off.endswith(b"h") else b"h")
        )


def test_commands_that_end_with_the_session_are_named_where_it_can_be_read(tmp_path: Path):
    call = ("bash", {"command": "sleep 100", "background": True})
    with FakeService([Say(calls=[call]), Say(text="It runs.")]) as service:
        arguments = ("-m", "dirge_py", "--yolo", "go")
        terminal = Terminal(arguments, cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        terminal.read_until("It runs.")
        terminal.press("\x04")
        assert terminal.finish() == 0

    shell = terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
    assert "Ended with the session: sh1 (`sleep 100`).\r\nTo come back: dirge -r " in shell
    assert "goes on in memory" not in shell


def test_no_color_means_none(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path, NO_COLOR="1")
    terminal.read_until("ready")
    terminal.press("\x04")
    terminal.finish()
    assert b"[38;" not in terminal.output
    assert b"[48;" not in terminal.output


FIRST_FRAME = """
import sys
from dataclasses import replace
from dirge_py.cli.screen import start_of
from dirge_py.errors import ConfigError
from dirge_py.ui.run import run_tui

def look():
    heavy = {"httpx", "pydantic", "markdown_it", "pygments", "pathspec"}
    raise ConfigError(f"loaded: {sorted(heavy & set(sys.modules))}")

start = start_of(None, None, prompt="", pick_session=False, config_file=None)
run_tui(replace(start, prepare=look))
"""


def test_nothing_heavy_is_needed_for_the_first_frame(tmp_path: Path):
    terminal = Terminal(["-c", FIRST_FRAME], cwd=tmp_path)
    terminal.finish()
    assert "❯".encode() in terminal.output
    assert b"loaded: []" in terminal.output


def test_settings_that_do_not_hold_are_told_on_the_restored_screen(tmp_path: Path):
    settings = tmp_path / "config.toml"
    settings.write_text("[ui]\nanimations = true\n")
    terminal = Terminal(["-m", "dirge_py", "--config", str(settings)], cwd=tmp_path)
    assert terminal.finish() == 2
    told = terminal.output[terminal.output.rfind(b"\x1b[?1049l") :]
    assert b"config.toml:2: no setting `animations` in [ui]." in told


def test_a_bug_ends_the_program_without_showing_what_it_held(tmp_path: Path):
    broken = """
import sys
from dirge_py.cli import main, screen
def prepare():
    key = "sk-" + "secret"
    return key / 2
from dirge_py.ui import start
screen.start_of = lambda *a, **k: start.TuiStart(open_first=None, open_other=None, prepare=prepare)
sys.exit(main.run([]))
"""
    terminal = Terminal(["-c", broken], cwd=tmp_path)
    assert terminal.finish() == 1
    assert b"dirge failed in a way it should not: TypeError" in terminal.output
    assert b"sk-secret" not in terminal.output


# -- a terminal that is gone


@pytest.mark.parametrize("owns_it", [True, False])
@pytest.mark.parametrize("mark", ["", "\x1b[?1049h", "❯", "ready"])
def test_the_program_ends_when_its_terminal_does(tmp_path: Path, mark: str, owns_it: bool):
    terminal = Terminal(cwd=tmp_path, owns_it=owns_it)
    terminal.read_until(mark)
    assert terminal.vanish() < ENDS_WITHIN_S


@pytest.mark.parametrize("owns_it", [True, False])
@pytest.mark.parametrize("mode", ["yolo", "standard"])
def test_so_it_does_while_a_command_runs_or_a_question_is_open(
    tmp_path: Path, mode: str, owns_it: bool
):
    pid = tmp_path / "pid"
    call = ("bash", {"command": f"echo $$ > {pid}; exec sleep 300"})
    with FakeService([Say(calls=[call])]) as service:
        terminal = Terminal(
            ["-m", "dirge_py", "--permission-mode", mode, "go"],
            cwd=tmp_path,
            owns_it=owns_it,
            OPENAI_BASE_URL=service.openai_url,
        )
        if mode == "yolo":
            terminal.read_until("working")
            until(lambda: pid.exists() and pid.read_text())
        else:
            terminal.read_until("Allow once")
        assert terminal.vanish() < ENDS_WITHIN_S
    assert not pid.exists() or not is_alive(int(pid.read_text()))


def test_so_it_does_while_an_answer_streams(tmp_path: Path):
    with FakeService([Say(text="word " * 5000, delta_chars=5, gap_s=0.01)]) as service:
        terminal = Terminal(
            ["-m", "dirge_py", "go"], cwd=tmp_path, OPENAI_BASE_URL=service.openai_url
        )
        terminal.read_until("word word")
        assert terminal.vanish() < ENDS_WITHIN_S
