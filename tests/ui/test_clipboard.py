"""Copying: the programs that are tried, and messages that are true."""

import base64
from pathlib import Path

import pytest

from dirge_py.ui.terminal.clipboard import Clipboard, Wanted, last_copy_file
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject

KEEPS = '#!/bin/sh\ncat > "$0.kept"\n'
GIVES = '#!/bin/sh\ncat "$(dirname "$0")/{writer}.kept"\n'
FORGETS = "#!/bin/sh\ncat > /dev/null\n"
FAILS = "#!/bin/sh\ncat > /dev/null\nexit 3\n"
ANSWERS = ("First.", "Second:\n\n```sh\nmake\n```\nand\n~~~\nmake test\n~~~", "Third.")
HANGS = "#!/bin/sh\nexec sleep 60\n"


class ClipboardPrograms:
    """An environment with clipboard programs, and the result of a copy."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.environment = {"DIRGE_STATE_DIR": str(folder / "state"), **variables}
        self.sent: list[str] = []

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def copy(self, text: str, wanted: Wanted = "auto") -> str:
        return Clipboard(self.sent.append, wanted=wanted, environment=self.environment).copy(text)

    def given_to(self, name: str) -> bytes:
        return (self.folder / f"{name}.kept").read_bytes()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClipboardPrograms:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return ClipboardPrograms(tmp_path)


def test_copy_reports_success_after_reading_clipboard_back(place: ClipboardPrograms):
    place.environment["WAYLAND_DISPLAY"] = "wayland-0"
    place.program("wl-copy", KEEPS)
    place.program("wl-paste", GIVES.format(writer="wl-copy"))
    assert place.copy("für dich") == "Copied 8 characters with wl-copy."
    assert place.given_to("wl-copy") == "für dich".encode()
    assert place.sent == []


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (FORGETS, "xclip did not set the clipboard."),
        (FAILS, "xclip ended with exit code 3."),
        (HANGS, "xclip did not end within 1 s."),
    ],
)
def test_failing_clipboard_program_is_reported_and_terminal_is_used(
    place: ClipboardPrograms, script: str, why: str
):
    place.environment["DISPLAY"] = ":0"
    place.program("xclip", script)
    result = place.copy("text")
    assert result.startswith(f"{why} Sent to the terminal, unverified. `/copy --file`")
    assert place.sent == [f"\x1b]52;c;{base64.b64encode(b'text').decode()}\x07"]


def test_copy_over_ssh_uses_terminal_and_no_local_program(place: ClipboardPrograms):
    place.environment |= {"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "a 1 b 2"}
    place.program("xclip", KEEPS)
    assert place.copy("text").startswith("Sent to the terminal, unverified.")
    assert not (place.folder / "xclip.kept").exists()


def test_copy_on_wsl_sends_utf_16_to_clip_exe(place: ClipboardPrograms):
    place.environment["WSL_DISTRO_NAME"] = "Debian"
    place.program("clip.exe", KEEPS)
    assert place.copy("ü\n").startswith("Sent to clip.exe, unverified.")
    assert place.given_to("clip.exe") == "ü\n".encode("utf-16-le")


def test_copy_in_tmux_fills_buffer_and_passes_through_to_terminal(place: ClipboardPrograms):
    place.environment["TMUX"] = "/tmp/x,1,0"
    place.program(
        "tmux", '#!/bin/sh\ncase $1 in load-buffer) cat > "$0.kept";; *) cat "$0.kept";; esac\n'
    )
    assert place.copy("one\ntwo").startswith("Copied 2 lines into tmux's buffer")
    assert place.sent[0].startswith("\x1bPtmux;\x1b\x1b]52;c;")


def test_copy_warns_about_vte_terminal_and_text_too_long(place: ClipboardPrograms):
    place.environment["VTE_VERSION"] = "7600"
    assert "(VTE) ignore it. `/copy --file`" in place.copy("text")
    place.sent.clear()
    assert (
        "75,001 characters is too much to copy through a terminal (limit: 100 kB)."
        in place.copy("x" * 75_001)
    )
    assert place.sent == []


def test_native_copy_without_desktop_is_refused(place: ClipboardPrograms):
    assert place.copy("text", "native").startswith("This machine has no desktop")
    place.environment["WAYLAND_DISPLAY"] = "wayland-0"
    assert "install wl-clipboard" in place.copy("text", "native")


def test_last_copy_file_is_private_and_tolerates_lone_surrogates(
    place: ClipboardPrograms,
):
    place.copy("first")
    place.copy("half \ud800")
    kept = last_copy_file(place.environment)
    assert kept.read_text() == "half ?"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_unwritable_state_folder_is_reported_on_copy(place: ClipboardPrograms):
    (place.folder / "state").write_text("no folder")
    assert "It couldn't be saved in a file" in place.copy("text")


# -- /copy


async def answered(driver: AppDriver) -> None:
    for answer in ANSWERS:
        await driver.send("go on")
        await driver.until(
            lambda answer=answer: (
                driver.conversation.messages and driver.conversation.messages[-1].text == answer
            )
        )
        await driver.idle()


@pytest.mark.parametrize(
    ("command", "copied"),
    [("/copy", "Third."), ("/copy 3", "First."), ("/copy code", "make test")],
)
async def test_copy_command_copies_answer_or_its_code_block(
    project: ScriptedProject, command: str, copied: str
):
    for answer in ANSWERS:
        project.model.will_say(answer)
    async with running_app(project) as driver:
        await answered(driver)
        await driver.send(command)
        await driver.until(lambda: "Sent to the terminal, unverified." in driver.text)
        assert last_copy_file().read_text() == copied
        await driver.send("/copy --file")
        # A line of the screen may end within it.
        await driver.until(lambda: str(last_copy_file()) in driver.text.replace("\n  ", ""))


async def test_copy_is_not_stored_when_sessions_are_not_saved(project: ScriptedProject):
    project.configure("\n[session]\nsave = false\nsnapshots = false\n")
    project.model.will_say("An answer.")
    async with running_app(project) as driver:
        await driver.send("hello")
        await driver.until(lambda: "An answer." in driver.text)
        await driver.idle()
        await driver.send("/copy")
        await driver.until(lambda: "It isn't saved in a file" in driver.text)
    assert not last_copy_file().exists()


async def test_copy_without_answer_or_code_block_is_refused(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/copy")
        await driver.until(lambda: "There is no answer to copy yet." in driver.text)
        await driver.send("/copy code")
        await driver.until(lambda: "No answer has a code block yet." in driver.text)
