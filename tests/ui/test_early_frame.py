"""The first frame of the last start is painted before anything is imported, or nothing is."""

import os
import signal
import stat
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte
import pytest

from dirge_py.cli.arguments import parse
from dirge_py.ui.terminal import early_frame
from tests.support.terminal import Terminal, hand, until
from tests.ui.test_terminal import left_on

SIZE = (80, 24)
PROMPT = "hat do you want to do?"  # The first letter is under the cursor.

# Shows the early frame, and goes on when the file `go` exists: by default with dirge itself.
HELD = """
import os, sys, time
sys.argv[1:], rest = sys.argv[1:2], sys.argv[2:]
from dirge_py.ui.terminal import early_frame
painted = early_frame.paint
def paint(argv):
    painted(argv)
    end = time.monotonic() + 60
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.002)
    exec("".join(rest))
early_frame.paint = paint
sys.argv[1:] = []
from dirge_py.cli.entry import main
main()
"""
# Says whether a frame would be painted for the arguments, without more.
ASKED = """
import sys
from dirge_py.ui.terminal import early_frame
early_frame.paint(sys.argv[1:])
was_shown = early_frame.shown() is not None
early_frame.erase()
print("early frame" if was_shown else "nothing", flush=True)
"""


@pytest.fixture
def file(home: Path) -> Path:
    """The place of the stored frame."""
    return home / ".local" / "state" / "dirge" / early_frame.NAME


@pytest.fixture
def folder(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    return folder


def start(
    folder: Path, *arguments: str, size: tuple[int, int] = SIZE, is_fresh: bool = False, **more: str
) -> Terminal:
    words = arguments or ("-m", "dirge_py")
    return Terminal(words, cwd=folder, size=size, is_fresh=is_fresh, **more)


def end(terminal: Terminal) -> None:
    terminal.press("\x04")
    assert terminal.finish() == 0


@pytest.fixture
def stored(folder: Path, file: Path) -> Path:
    """The file of a frame that the next start in `folder` paints."""
    terminal = start(folder)
    terminal.read_until("ready")
    until(file.exists)
    end(terminal)
    return file


def is_painted(folder: Path, *arguments: str, size: tuple[int, int] = SIZE, **more: str) -> bool:
    terminal = start(folder, "-c", ASKED, *arguments, size=size, is_fresh=True, **more)
    assert terminal.finish() == 0
    assert left_on(terminal.output) == []
    return b"early frame" in terminal.output


def screens(output: bytes) -> Sequence[str]:
    """What a terminal shows after each piece of the output; pieces end with an escape sequence."""
    screen = pyte.Screen(*SIZE)
    stream = pyte.ByteStream(screen)
    shown = []
    for piece in output.replace(b"\x1b[?2026$p", b"").replace(b"\x1b[>25u", b"").split(b"\x1b"):
        stream.feed(b"\x1b" + piece if piece else b"")
        shown.append("\n".join(line.rstrip() for line in screen.display).strip())
    return shown


def test_early_frame_loads_nothing_but_itself() -> None:
    bare = _modules("pass")
    more = _modules("import dirge_py.ui.terminal.early_frame") - bare
    assert {name for name in more if not name.startswith("dirge_py")} == set()
    assert len(more) <= 9


def _modules(code: str) -> set[str]:
    code += "\nimport sys; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_screen_is_the_same_from_early_frame_until_session_is_open(
    stored: Path, folder: Path
) -> None:
    terminal = start(folder, is_fresh=True)
    terminal.read_until("ready")
    end(terminal)
    output = terminal.output.partition(b"ready")[0]
    assert output.index(PROMPT.encode()) < output.index(b"\x1b[?1000h"), "not before the app"
    assert output.count(early_frame.ENTER.encode()) == 1
    seen = screens(output[: output.rindex(b"\x1b]2;")])
    first = next(number for number, screen in enumerate(seen) if "starting" in screen)
    assert set(seen[first:]) == {seen[first]}
    assert left_on(terminal.output) == []


def test_keys_typed_at_early_frame_are_shown_and_arrive_in_order(
    stored: Path, folder: Path
) -> None:
    terminal = start(folder, "-c", HELD)
    terminal.read_until(PROMPT)
    terminal.press("hel")
    terminal.read_until("hel")
    terminal.press("lo\x7f\x7f\x1b[200~\rp, then\x1b[201~")
    (folder / "go").touch()
    terminal.press(" more")
    terminal.read_until("ready")
    terminal.read_until("then")
    until_shown = screens(terminal.output)[-1]
    end_by(terminal)
    assert "❯ hel\n" in until_shown
    assert "\n   p, then more" in until_shown


def end_by(terminal: Terminal) -> None:
    terminal.child.send_signal(signal.SIGTERM)
    terminal.finish()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (signal.SIGINT, 130)],
)
def test_signal_at_early_frame_restores_terminal(
    stored: Path, folder: Path, number: signal.Signals, code: int
) -> None:
    terminal = start(folder, "-c", HELD, is_fresh=True)
    terminal.read_until(PROMPT)
    assert "alternate screen" in left_on(terminal.output)
    terminal.child.send_signal(number)
    terminal.read_until(early_frame.LEAVE)
    terminal.child.wait(20)
    assert termios.tcgetattr(terminal.master) == terminal.before
    assert terminal.finish() == code
    assert left_on(terminal.output) == []


def test_error_at_early_frame_restores_terminal_before_it_is_shown(
    stored: Path, folder: Path
) -> None:
    (folder / "go").touch()
    fails = "import dirge_py.ui.terminal.textual_parts as parts; parts.PRIVATE_PARTS = {'no': ()}"
    terminal = start(folder, "-c", HELD, "", fails, is_fresh=True)
    assert terminal.finish() == 1
    shown = terminal.output.partition(early_frame.LEAVE.encode())[2]
    assert b"dirge does not work with Textual" in shown
    assert left_on(terminal.output) == []


@pytest.mark.parametrize("flag", ["", *sorted(early_frame.FLAGS)])
def test_flags_with_early_frame_start_the_ui_without_a_prompt(flag: str) -> None:
    flags = parse([flag] if flag else [])
    assert not (flags.print or flags.line or flags.prompt or flags.resume is not None)
    assert flags.config is None


def test_frame_is_private_and_painted_again(stored: Path, folder: Path) -> None:
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert is_painted(folder)
    assert is_painted(folder, "--yolo", "-c")


def test_frame_is_painted_in_project_that_has_nothing_to_trust(folder: Path, file: Path) -> None:
    (folder / ".dirge" / "plugins").mkdir(parents=True)
    terminal = start(folder)
    terminal.read_until("ready")
    until(file.exists)
    end(terminal)
    assert is_painted(folder)
    (folder / ".dirge" / "plugins" / "lint.py").touch()
    assert not is_painted(folder)


def test_frame_is_not_written_again_by_the_same_start(stored: Path, folder: Path) -> None:
    before = stored.stat()
    terminal = start(folder)
    terminal.read_until("ready")
    end(terminal)
    after = stored.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("words", ["-p", "--line", "-r", "--version", "hello", "doctor"])
def test_nothing_is_painted_with_other_arguments(stored: Path, folder: Path, words: str) -> None:
    assert not is_painted(folder, words)


def _change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)


def _link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "changed": _change,
    "cut off": lambda file: os.truncate(file, 500),
    "empty": lambda file: os.truncate(file, 0),
    "not text": lambda file: file.write_bytes(b"\xff\x00" * 999),
    "readable by others": lambda file: file.chmod(0o644),
    "a link": _link,
    "missing": lambda file: file.unlink(),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file, 0o600)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_is_painted_from_unusable_file(stored: Path, folder: Path, damage: str) -> None:
    DAMAGE[damage](stored)
    assert not is_painted(folder)


@pytest.mark.parametrize(
    "more", [{"NO_COLOR": "1"}, {"TERM": "xterm"}, {"DIRGE_PROVIDER": "x"}, {"LC_ALL": "C"}]
)
def test_nothing_is_painted_in_another_environment(
    stored: Path, folder: Path, more: dict[str, str]
) -> None:
    assert not is_painted(folder, **more)


def test_nothing_is_painted_on_terminal_of_another_size(stored: Path, folder: Path) -> None:
    assert not is_painted(folder, size=(81, 24))


def test_nothing_is_painted_after_change_of_settings(
    stored: Path, folder: Path, home: Path
) -> None:
    settings = home / ".config" / "dirge" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[ui]\ntheme = "light"\n', encoding="utf-8")
    assert not is_painted(folder)


def test_nothing_is_painted_in_project_whose_trust_may_be_asked(stored: Path, folder: Path) -> None:
    plugins = folder / ".dirge" / "plugins"
    plugins.mkdir(parents=True)
    (folder / "below").mkdir()
    assert not is_painted(folder / "below")


def test_start_that_asks_for_trust_stores_nothing(folder: Path, file: Path) -> None:
    plugins = folder / ".dirge" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "lint.py").write_text("def register(dirge): pass\n", encoding="utf-8")
    terminal = start(folder)
    terminal.read_until("restricted")
    hand(0.5)
    terminal.press("\x1b")
    terminal.read_until("ready")
    end(terminal)
    assert not file.exists()

    terminal = start(folder)
    terminal.read_until("ready")
    until(file.exists)
    end(terminal)
    assert is_painted(folder)
    (plugins / "lint.py").write_text("def register(dirge): print()\n", encoding="utf-8")
    assert not is_painted(folder)


def test_background_of_last_start_is_that_of_next_early_frame(folder: Path, file: Path) -> None:
    def background() -> tuple[str, bool]:
        frame = early_frame.decode(file.read_bytes())
        return frame.background, bool(frame.picture)

    for expected in (("light", False), ("light", True)):
        terminal = start(folder)
        terminal.read_until("\x1b]11;?")
        terminal.press("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")
        terminal.read_until("ready")
        until(lambda shown=expected: file.exists() and background() == shown)
        end(terminal)


def test_frame_is_stored_without_text_that_was_typed_before_it(folder: Path, file: Path) -> None:
    terminal = start(folder, is_fresh=True)
    terminal.press("secret")
    terminal.read_until("secret")
    terminal.read_until("ready")
    until(file.exists)
    terminal.press("\x15")
    end(terminal)
    assert "secret" not in early_frame.decode(file.read_bytes()).picture
