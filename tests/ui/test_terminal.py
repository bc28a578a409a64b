"""The terminal is restored however the program ends, and dirge ends with its terminal."""

import os
import re
import signal
import termios
from pathlib import Path

import pytest

from tests.support.fake_service import FakeService, ModelReply
from tests.support.terminal import Terminal, is_alive, until

ENDS_WITHIN_S = 2.0


SWITCHES = {
    "alternate screen": 1049,
    "clicks": 1000,
    "all mouse movement": 1003,
    "SGR mouse encoding": 1006,
    "urxvt mouse encoding": 1015,
    "SGR pixel mouse encoding": 1016,
    "focus reports": 1004,
    "bracketed paste": 2004,
    "resize reports": 2048,
}


def left_on(output: bytes) -> list[str]:
    """The terminal modes that were switched on and not off."""

    def last(mark: str) -> int:
        return output.rfind(mark.encode())

    found = [
        name
        for name, number in SWITCHES.items()
        if last(f"\x1b[?{number}h") > last(f"\x1b[?{number}l")
    ]
    found += ["hidden cursor"] if last("\x1b[?25l") > last("\x1b[?25h") else []
    found += ["no line wrap"] if last("\x1b[?7l") > last("\x1b[?7h") else []
    is_balanced = len(re.findall(rb"\x1b\[>\d+u", output)) == output.count(b"\x1b[<u")
    found += [] if is_balanced else ["kitty keys"]
    # Titles are pushed before they are changed.
    is_titled = len(re.findall(rb"\x1b\][012];", output)) and not output.count(b"\x1b[23")
    return [*found, *(["title"] if is_titled else [])]


@pytest.mark.parametrize(
    ("begin", "end", "code"),
    [
        ("", signal.SIGTERM, 128 + signal.SIGTERM),
        ("", signal.SIGHUP, 128 + signal.SIGHUP),
        ("", signal.SIGINT, 128 + signal.SIGINT),
        ("", "\x04", 0),
        ("", "\x03\x03", 0),
        ("\x1b[200~half a paste", signal.SIGTERM, 128 + signal.SIGTERM),
        ("\x1b[?2048;2$y\x1b[<0;1", signal.SIGTERM, 128 + signal.SIGTERM),
        ("\x1bm", signal.SIGTERM, 128 + signal.SIGTERM),
    ],
)
def test_terminal_is_restored_on_exit(
    tmp_path: Path, begin: str, end: signal.Signals | str, code: int
):
    terminal = Terminal(cwd=tmp_path, is_fresh=end == signal.SIGHUP)
    terminal.read_until("ready")
    assert set(left_on(terminal.output)) >= {"alternate screen", "clicks", "hidden cursor"}
    terminal.press(begin)
    if isinstance(end, str):
        terminal.press(end)
    else:
        terminal.child.send_signal(end)
    terminal.read_until("\x1b[?1049l")
    terminal.child.wait(20)

    assert termios.tcgetattr(terminal.master) == terminal.before
    assert terminal.finish() == code
    assert left_on(terminal.output) == []


CRASHING = """
import sys
from dirge_py.cli import main
from dirge_py.ui.status import StatusBar

def render_line(self, y):
    raise ZeroDivisionError("drawn")

def watch_status(self, status):
    if status is not None:
        type(self).render_line = render_line

StatusBar.watch_status = watch_status
sys.exit(main.run([]))
"""


def test_terminal_is_restored_after_crash_while_drawing(tmp_path: Path):
    terminal = Terminal(("-c", CRASHING), cwd=tmp_path)
    terminal.read_until("ZeroDivisionError: drawn")
    terminal.child.wait(20)
    assert termios.tcgetattr(terminal.master) == terminal.before
    assert terminal.finish() == 1
    assert left_on(terminal.output) == []


CRASHING_AT_WORK = CRASHING.replace(
    "if status is not None", "if status and status.state == 'working'"
)
TITLE_AND_PROGRESS = re.compile(rb"\x1b\](?:2;|9;4;\d)|\x1b\[2[23];2t")


@pytest.mark.parametrize("end", ["signal", "exception", "suspension"])
def test_title_and_progress_are_reset_when_work_ends_early(tmp_path: Path, end: str):
    with FakeService([ModelReply(text="word " * 5000, delta_chars=5, gap_s=0.01)]) as service:
        crashing = CRASHING_AT_WORK.replace("main.run([])", "main.run(['go'])")
        terminal = Terminal(
            ["-c", crashing] if end == "exception" else ["-m", "dirge_py", "go"],
            cwd=tmp_path,
            # A process that leads its session can be stopped.
            owns_it=True,
            is_fresh=True,
            OPENAI_BASE_URL=service.openai_url,
            KONSOLE_VERSION="220000",
        )
        terminal.read_until("\x1b[22;2t")
        if end != "exception":
            terminal.read_until("\x1b]9;4;3")
        if end == "signal":
            terminal.child.send_signal(signal.SIGTERM)
        elif end == "suspension":
            terminal.press("\x1a")
            terminal.read_until("\x1b]9;4;0")
            terminal.read_until("\x1b[23;2t")
            # Sent before it has stopped, SIGCONT would be lost.
            os.waitid(os.P_PID, terminal.child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            terminal.output = b""
            terminal.child.send_signal(signal.SIGCONT)
            terminal.read_until("\x1b]9;4;3")
            terminal.child.send_signal(signal.SIGTERM)
        terminal.finish()
    assert TITLE_AND_PROGRESS.findall(terminal.output)[-3:] == [
        b"\x1b]2;",
        b"\x1b[23;2t",
        b"\x1b]9;4;0",
    ]


def test_program_starts_normally_after_kill(tmp_path: Path):
    killed = Terminal(cwd=tmp_path)
    killed.read_until("ready")
    killed.press("a draft")
    killed.child.kill()
    killed.finish()

    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    terminal.press("\x03\x04")
    terminal.press("\x04")
    assert terminal.finish() == 0
    assert left_on(terminal.output) == []


@pytest.mark.parametrize("mark", ["\x1b[?1049h", "\x1b[?25l", "❯"])
def test_ctrl_c_quits_during_start(tmp_path: Path, mark: str):
    terminal = Terminal(cwd=tmp_path, owns_it=True)
    terminal.read_until(mark)
    terminal.press("\x03\x03")
    assert terminal.finish() in (0, 128 + signal.SIGINT)
    assert left_on(terminal.output) == []
    assert b"Traceback" not in terminal.output


def test_ctrl_c_at_trust_question_quits_without_answer(tmp_path: Path):
    settings = tmp_path / ".dirge" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("[ui]\n")
    for _ in range(2):
        terminal = Terminal(cwd=tmp_path, owns_it=True)
        terminal.read_until("Trust this project?")
        terminal.press("\x03")
        assert terminal.finish() == 0
        assert left_on(terminal.output) == []


def test_ctrl_c_quits_during_setup(tmp_path: Path):
    terminal = Terminal(
        cwd=tmp_path, owns_it=True, DIRGE_MODEL="", OPENAI_API_KEY="", OPENAI_BASE_URL=""
    )
    terminal.read_until("Choose a provider")
    terminal.press("\x03\x03")
    assert terminal.finish() == 0
    assert left_on(terminal.output) == []


def test_text_typed_before_first_frame_goes_to_input(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("\x1b[?1049h")
    terminal.press("going")
    terminal.read_until("ready")
    terminal.read_until("going")
    assert terminal.vanish() < ENDS_WITHIN_S


def test_malformed_terminal_reports_are_not_typed(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    for noise in ("\x1b[<0;NaN;NaNM", "\x1b[12;34;56x", "\x1b]11;rgb:0/0/0\x07", "\x1b[<35;1"):
        terminal.press(noise)
    # Quits only on an empty input.
    terminal.press("\x1b[A\x04")
    assert terminal.finish() == 0


def test_mouse_capture_can_be_switched_off_and_on(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    terminal.press("\x1bm")
    terminal.read_until("gives it back")
    assert {"clicks", "all mouse movement"}.isdisjoint(left_on(terminal.output))
    terminal.press("\x1bm")
    terminal.read_until("dirge has the mouse")
    assert {"clicks", "all mouse movement"} <= set(left_on(terminal.output))
    terminal.press("\x04")
    assert terminal.finish() == 0


def test_background_commands_ended_on_quit_are_listed_after_exit(tmp_path: Path):
    call = ("bash", {"command": "sleep 100", "background": True})
    with FakeService([ModelReply(calls=[call]), ModelReply(text="It runs.")]) as service:
        arguments = ("-m", "dirge_py", "--yolo", "go")
        terminal = Terminal(arguments, cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        terminal.read_until("It runs.")
        terminal.press("\x04")
        assert terminal.finish() == 0

    shell = terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
    assert "Ended with the session: sh1 (`sleep 100`).\r\nTo come back: dirge -r " in shell
    assert "keeps it in memory" not in shell


def test_no_color_variable_disables_colors(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path, NO_COLOR="1")
    terminal.read_until("ready")
    terminal.press("\x04")
    terminal.finish()
    assert b"[38;" not in terminal.output
    assert b"[48;" not in terminal.output


FIRST_FRAME = """
import sys
from dataclasses import replace
from dirge_py.cli.arguments import parse
from dirge_py.cli.interactive import tui_start
from dirge_py.types.errors import ConfigError
from dirge_py.ui.run import run_tui

def look():
    heavy = {"httpx", "pydantic", "markdown_it", "pygments", "pathspec"}
    raise ConfigError(f"loaded: {sorted(heavy & set(sys.modules))}")

run_tui(replace(tui_start(parse([])), prepare=look))
"""


def test_heavy_modules_are_not_imported_before_first_frame(tmp_path: Path):
    terminal = Terminal(["-c", FIRST_FRAME], cwd=tmp_path, is_fresh=True)
    terminal.finish()
    assert "❯".encode() in terminal.output
    assert b"loaded: []" in terminal.output


def test_invalid_settings_are_reported_after_screen_is_restored(tmp_path: Path):
    settings = tmp_path / "config.toml"
    settings.write_text("[ui]\nanimations = true\n")
    terminal = Terminal(["-m", "dirge_py", "--config", str(settings)], cwd=tmp_path)
    assert terminal.finish() == 2
    output = terminal.output[terminal.output.rfind(b"\x1b[?1049l") :]
    assert b"config.toml:2: no setting `animations` in [ui]." in output


def test_internal_error_ends_program_without_leaking_values(tmp_path: Path):
    broken = """
import sys
from dirge_py.cli import interactive, main
def prepare():
    key = "sk-" + "secret"
    return key / 2
from dirge_py.ui.options import UiOptions
tui = UiOptions(open_first=None, open_other=None, prepare=prepare)
interactive.tui_start = lambda *a, **k: tui
sys.exit(main.run([]))
"""
    terminal = Terminal(["-c", broken], cwd=tmp_path)
    assert terminal.finish() == 1
    assert b"internal error: TypeError" in terminal.output
    assert b"sk-secret" not in terminal.output


# -- closed terminal


@pytest.mark.parametrize("owns_it", [True, False])
@pytest.mark.parametrize("mark", ["", "\x1b[?1049h", "❯", "ready"])
def test_program_ends_when_its_terminal_closes(tmp_path: Path, mark: str, owns_it: bool):
    # While it is still being loaded is a moment like any other.
    terminal = Terminal(cwd=tmp_path, owns_it=owns_it, is_fresh=mark not in ("❯", "ready"))
    terminal.read_until(mark)
    assert terminal.vanish() < ENDS_WITHIN_S


@pytest.mark.parametrize("owns_it", [True, False])
@pytest.mark.parametrize("mode", ["yolo", "standard"])
def test_program_ends_when_terminal_closes_during_command_or_question(
    tmp_path: Path, mode: str, owns_it: bool
):
    pid = tmp_path / "pid"
    call = ("bash", {"command": f"echo $$ > {pid}; exec sleep 300"})
    with FakeService([ModelReply(calls=[call])]) as service:
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


def test_program_ends_when_terminal_closes_during_stream(tmp_path: Path):
    with FakeService([ModelReply(text="word " * 5000, delta_chars=5, gap_s=0.01)]) as service:
        terminal = Terminal(
            ["-m", "dirge_py", "go"], cwd=tmp_path, OPENAI_BASE_URL=service.openai_url
        )
        terminal.read_until("word word")
        assert terminal.vanish() < ENDS_WITHIN_S
