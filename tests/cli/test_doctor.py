"""`dirge doctor` and `/doctor`: the findings are true, and the terminal stays as it was."""

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.cli.arguments import takes_only_flags
from dirge_py.cli.doctor import doctor
from dirge_py.config.schema import config_from
from dirge_py.sdk.doctor.checks import check_programs
from dirge_py.sdk.doctor.report import as_text, exit_code, failed, passed, warn
from dirge_py.sdk.doctor.terminal import (
    SAMPLES,
    append_lines,
    check_terminal,
    check_terminal_answers,
    check_tmux,
    missing_lines,
    read_answers,
)
from dirge_py.types.errors import UsageError
from dirge_py.ui.keymap import key_problems
from tests.support.app_driver import running_app
from tests.support.product import KEY, ROOT, Product
from tests.support.project import ScriptedProject
from tests.support.requirements import as_nobody
from tests.support.terminal import Terminal, until
from tests.support.tmux import NEEDED, Tmux

GOOD = {"TERM": "xterm-256color", "LANG": "en_US.UTF-8", "COLORTERM": "truecolor"}
ANSWERS = (
    "".join(f"\x1b[1;{wide + 1}R" for wide in SAMPLES.values())
    + "\x1b[?0u\x1b[?2026;2$y\x1b[?1004;1$y\x1b[?2004;2$y\x1bP1+r4d73=x\x1b\\\x1b[?62;22;52c"
)


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(home)
    monkeypatch.chdir(project.folder)
    return project


# -- the command


def test_doctor_followed_by_words_is_a_prompt() -> None:
    words: list[list[str]] = [[], ["--json"], ["the", "tests"]]
    assert [takes_only_flags(rest) for rest in words] == [True, True, False]


def test_doctor_without_terminal_checks_everything_else(product: Product) -> None:
    result = product.run("doctor")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "skipped  answers" in result.stdout
    assert "fake/gpt-4o, key from" in result.stdout
    assert KEY not in result.stdout


def test_invalid_setting_is_a_problem(product: Product) -> None:
    product.configure("[ui]\nthemes = 1\n")
    result = product.run("doctor", "--json")
    assert result.exit_code == 1
    problems = [f for f in result.json["findings"] if f["state"] == "problem"]
    assert result.json["ok"] is False
    assert [f["name"] for f in problems] == ["settings"]
    assert "no setting `themes` in [ui]" in problems[0]["words"]


def test_key_conflicts_and_untrusted_files_are_reported(product: Product) -> None:
    product.configure('[keys]\nredraw = "ctrl+k"\npager = "ctrl+i"\n')
    product.file(".dirge/plugins/x.py", "")
    text = product.run("doctor").stdout
    assert "Ctrl+K is `redraw`, so it is not `cut_to_end`." in text
    assert "Ctrl+I of `pager` arrives as Tab" in text
    assert "has settings or plugins that are not loaded\n" in text and "fix: dirge trust" in text


def test_broken_plugin_is_a_warning_with_reason(product: Product) -> None:
    for name, body in {"good": "pass", "bad": "raise ValueError('no key')"}.items():
        file = product.config_dir / "plugins" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"def register(dirge):\n    {body}\n")
    result = product.run("doctor", "--json")
    (plugins,) = (each for each in result.json["findings"] if each["name"] == "plugins")
    assert (result.exit_code, plugins["state"]) == (0, "warning")
    assert plugins["words"].startswith("bad (failed), good (on).")
    assert "ValueError: no key (bad.py, line 2)" in plugins["words"]
    assert not list(product.state_dir.rglob("*.jsonl")), "a check begins no session"


def test_settings_that_prevent_start_are_a_problem(product: Product) -> None:
    product.configure('[tools]\nenabled = ["nope"]\n')
    result = product.run("doctor")
    assert result.exit_code == 1
    assert "there is no tool `nope`" in result.stdout


STATE = """
import os
from pathlib import Path
from dirge_py.sdk.doctor.checks import check_folders
print(*[each.state for each in check_folders(Path("/"), os.environ)])
"""


def test_missing_folder_of_cwd_flag_is_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot change to /nowhere"):
        doctor(["-C", "/nowhere"])


def test_unwritable_state_folder_is_a_problem(open_tmp_path: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    environment = {"PYTHONPATH": str(ROOT), "HOME": "/", "DIRGE_STATE_DIR": f"{tmp_path}/state/x"}

    def state(*prefix: str) -> str:
        command = [*prefix, sys.executable, "-c", STATE]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/")
        return result.stdout.split()[0]

    assert state() == "ok"
    assert state(*as_nobody()) == "problem"


# -- asking the terminal


def query_terminal(cwd: Path, answer: str) -> bytes:
    """Return the output of `doctor` on a terminal with these answers; checks restored modes."""
    terminal = Terminal(("-m", "dirge_py", "doctor"), cwd=cwd, **GOOD)
    terminal.read_until("\x1b[c")
    terminal.press(answer)
    terminal.read_until("keymap")
    assert termios.tcgetattr(terminal.master) == terminal.before
    terminal.finish()
    return terminal.output


def test_terminal_is_queried_and_restored(tmp_path: Path) -> None:
    text = query_terminal(tmp_path, ANSWERS)
    assert b"every key arrives" in text
    assert b"wide characters and emoji have the expected width" in text
    assert b"the terminal supports OSC 52" in text


def test_silent_terminal_times_out(tmp_path: Path) -> None:
    assert b"the terminal didn't answer within 200 ms" in query_terminal(tmp_path, "")


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


HANGING = "from dirge_py.sdk.doctor.terminal import ask_terminal; ask_terminal(0, 1, limit_s=60)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_during_terminal_query_restores_terminal(
    tmp_path: Path, number: signal.Signals
) -> None:
    terminal = Terminal(("-c", HANGING), cwd=tmp_path)
    terminal.read_until("\x1b[c")
    assert termios.tcgetattr(terminal.master) != terminal.before
    # A signal sent before the wait begins would be noticed only at its end.
    until(lambda: is_asleep(terminal.child.pid))
    terminal.child.send_signal(number)
    terminal.child.wait(20)
    assert termios.tcgetattr(terminal.master) == terminal.before
    assert terminal.finish() == 128 + number


@given(st.binary(), st.integers(min_value=0, max_value=len(ANSWERS)))
def test_any_terminal_answer_is_parsed(noise: bytes, cut: int) -> None:
    answers = ANSWERS.encode()
    assert read_answers(answers).has_kitty_keys
    found = read_answers(answers[:cut] + noise)
    assert [each.state for each in check_terminal_answers(found, GOOD)]


def test_mode_that_tmux_knows_without_saying_so_is_no_problem() -> None:
    answers = read_answers(ANSWERS.replace("\x1b[?2004;2$y", "").encode())
    inside = {
        each.name: each.state for each in check_terminal_answers(answers, GOOD | {"TMUX": "x"})
    }
    outside = {each.name: each.state for each in check_terminal_answers(answers, GOOD)}
    assert (inside["bracketed paste"], outside["bracketed paste"]) == ("ok", "warning")


# -- single findings


def states(environment: dict[str, str], size: tuple[int, int] | None = (80, 24)) -> dict[str, str]:
    return {each.name: each.state for each in check_terminal(environment, size)}


@pytest.mark.parametrize(
    ("changed", "name", "state"),
    [
        ({}, "terminal", "ok"),
        ({"TERM": "dumb"}, "terminal", "problem"),
        ({"LC_ALL": "C"}, "locale", "warning"),
        ({"COLORTERM": ""}, "colors", "warning"),
        ({"VTE_VERSION": "7600"}, "vte", "warning"),
        ({"STY": "1.x"}, "screen", "warning"),
        ({"SSH_TTY": "/dev/pts/1"}, "ssh", "ok"),
        ({"WSL_DISTRO_NAME": "Debian"}, "wsl", "ok"),
    ],
)
def test_environment_variables_decide_terminal_findings(
    changed: dict[str, str], name: str, state: str
) -> None:
    assert states(GOOD | changed)[name] == state


def test_small_terminal_is_reported() -> None:
    sizes = [(80, 24), (30, 10), (19, 4)]
    assert [states(GOOD, size)["size"] for size in sizes] == ["ok", "warning", "problem"]


def test_missing_programs_are_reported_with_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {each.name: each for each in check_programs({"EDITOR": "nvim -f"})}
    assert (found["git"].state, found["git"].fix) == ("problem", "install git")
    assert found["editor"].words == "nvim -f is not found: Ctrl+G won't work"
    assert {found[name].state for name in ("rg", "pager", "editor")} == {"warning"}


def test_program_inside_project_is_reported_and_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("git", "rg", "bwrap", "vi", "less", "tmux"):
        (folder / name).write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\necho git version 9\n")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    found = {each.name: each for each in check_programs({})}
    list(check_tmux({"TMUX": "/tmp/tmux,1,0"}))

    inside = f"only found inside the project, at {folder}"
    assert found["git"].state == "problem" and f"{inside}/git" in found["git"].words
    assert f"{inside}/rg" in found["rg"].words
    assert f"{inside}/vi" in found["editor"].words
    assert found["pager"].words == "none"
    assert not (tmp_path / "ran").exists()


def test_only_problems_give_failure_exit_code() -> None:
    assert exit_code([passed("a", ""), warn("b", "")]) == 0
    assert exit_code([passed("a", ""), failed("b", "")]) == 1
    assert as_text([warn("b", "\x1b[2Jx", "do")]).splitlines()[:2] == [
        "warning  b  x",
        "            fix: do",
    ]


@pytest.mark.parametrize(
    ("key", "arrives"),
    [
        *[(key, False) for key in ("ctrl+i", "ctrl+m", "ctrl+[", "ctrl+enter", "ctrl+1")],
        *[(key, False) for key in ("ctrl+,", "super+k", "ctrl+shift+k", "shift+space")],
        *[(key, True) for key in ("ctrl+k", "alt+enter", "shift+tab", "ctrl+up", "f5", "alt+1")],
        *[(key, True) for key in ("ctrl+_", "ctrl+@", "ctrl+space", "ctrl+x [", "alt+shift+k")],
    ],
)
def test_key_that_terminal_cannot_send_is_reported(key: str, arrives: bool) -> None:
    config = config_from({"keys": {"/mode plan": [key]}})
    lost = [problem for problem in key_problems(config, False) if "kitty" in problem]
    assert (not lost) == arrives
    assert not [problem for problem in key_problems(config, True) if "kitty" in problem]


# -- tmux


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tmux]:
    made = Tmux(tmp_path)
    monkeypatch.setenv("TMUX", f"{tmp_path / 'tmux'},1,0")
    yield made
    made.close()


@NEEDED
def test_suggested_tmux_settings_fix_findings(tmux: Tmux, tmp_path: Path) -> None:
    lines = missing_lines(list(check_tmux(os.environ)))
    assert "set -s extended-keys on" in lines and "set -sg escape-time 10" in lines

    append_lines(lines, tmp_path)
    subprocess.run(["tmux", "source-file", str(tmp_path / ".tmux.conf")], check=True)

    assert missing_lines(list(check_tmux(os.environ))) == []


def test_existing_tmux_settings_are_kept(tmp_path: Path) -> None:
    settings = tmp_path / ".tmux.conf"
    settings.write_text("set -g mouse on")
    copies = [append_lines(["set -g a"], tmp_path) for _ in range(2)]
    assert [copy and copy.read_text() for copy in copies] == [
        "set -g mouse on",
        "set -g mouse on\n# for dirge\nset -g a\n",
    ]


@NEEDED
@pytest.mark.parametrize("is_agreed", [True, False])
async def test_tmux_settings_are_written_only_after_approval(
    tmux: Tmux, project: ScriptedProject, is_agreed: bool
) -> None:
    settings = Path.home() / ".tmux.conf"
    async with running_app(project, size=(100, 50)) as driver:
        await driver.send("/terminal-setup")
        await driver.until(
            lambda: (
                driver.panel and driver.panel.has_focus and "Append these lines" in driver.screen
            )
        )
        assert "set -g focus-events on" in driver.text
        await driver.pilot.press("2" if is_agreed else "1", "enter")
        await driver.until(lambda: not driver.panel)
        if is_agreed:
            await driver.until(lambda: "Appended to ~/.tmux.conf." in driver.text)
    assert settings.exists() == is_agreed


async def test_doctor_command_shows_findings_in_ui(project: ScriptedProject, home: Path) -> None:
    plugins = home / "config" / "plugins"
    plugins.mkdir()
    (plugins / "good.py").write_text("def register(dirge):\n    pass\n")
    async with running_app(project, size=(100, 50)) as driver:
        await driver.send("/doctor")
        await driver.until(lambda: "skipped  answers" in driver.text and "keymap" in driver.text)
        assert "good (on)" in driver.text
