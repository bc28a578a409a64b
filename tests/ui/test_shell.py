"""`! command`: the user's own commands, in a terminal above the input."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.style import Style
from textual import events

from dirge_py.types.messages import UserMessage
from dirge_py.ui.panels.emulator import SCROLLBACK_LINES, Emulator
from dirge_py.ui.user_shell import bytes_of, paste_of
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("TERM", "xterm-256color")


def stored(driver: AppDriver) -> list[str]:
    return [
        m.text
        for m in driver.conversation.messages
        if isinstance(m, UserMessage) and m.origin == "shell"
    ]


def is_open(driver: AppDriver) -> bool:
    return driver.app.shell.box.is_open and driver.app.shell.box.has_focus


async def test_shell_command_is_shown_stored_and_sent_to_model(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.send("! echo out; exit 3")
        await driver.until(lambda: stored(driver))

        assert stored(driver) == ["The person ran `echo out; exit 3` (exit 3):\nout"]
        assert not driver.app.controller.is_running and not project.model.seen
        await driver.until(lambda: "out" in driver.text)
        await driver.send("why?")
        await driver.until(lambda: project.model.seen)
        assert project.prompts_of_call() == [stored(driver)[0], "why?"]
        assert driver.app.composer.prompts.older("") == "why?"
        assert driver.app.composer.prompts.older("") == "! echo out; exit 3"


async def test_double_bang_command_is_not_sent_to_model(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await driver.send("!! echo secret; pwd")
        await driver.until(lambda: "secret" in driver.text)

        assert str(project.folder) in driver.text.replace("\n", "")
        assert list(driver.conversation.messages) == []


async def test_keys_go_to_running_shell_command_while_its_box_has_focus(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.send("! read -p 'name: ' x; echo got:$x")
        await driver.until(lambda: is_open(driver) and "name:" in driver.screen)
        assert "Esc ends it" in driver.screen
        await driver.type("ada")
        await driver.until(lambda: "name: ada" in driver.screen)
        await driver.pilot.press("enter")
        await driver.until(lambda: stored(driver))

        assert stored(driver)[0].endswith("(exit 0):\nname: ada\ngot:ada")
        assert not driver.app.shell.box.display and driver.app.composer.has_focus


async def test_paste_and_ctrl_c_go_to_running_shell_command(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await driver.send("! trap 'echo caught; exit 9' INT; read x; echo got:$x; sleep 60")
        await driver.until(lambda: is_open(driver))
        driver.app.shell.box.post_message(events.Paste("two words\n"))
        await driver.until(lambda: "got:two words" in driver.screen)
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: stored(driver))

        assert "(exit 9)" in stored(driver)[0] and "caught" in stored(driver)[0]
        assert driver.app.is_running


async def test_esc_kills_shell_command_and_its_children(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.send("! setsid sleep 77 & echo $! > pid; sleep 78")
        await driver.until(lambda: is_open(driver) and (project.folder / "pid").exists())
        pid = int((project.folder / "pid").read_text())
        await driver.pilot.press("escape")
        await driver.until(lambda: stored(driver))

        assert "stopped by the person" in stored(driver)[0]
        assert not Path(f"/proc/{pid}").exists()
        await driver.send("and now?")
        await driver.until(lambda: "Nothing more to do." in driver.text)


async def test_full_screen_command_gets_esc_and_ctrl_backslash_ends_it(
    project: ScriptedProject,
) -> None:
    full = r"printf '\033[?1049h'; stty raw -echo; echo ready; head -c 1 | od -An -tx1; sleep 78"
    async with running_app(project) as driver:
        await driver.send(f"! {full}")
        await driver.until(lambda: is_open(driver) and "Ctrl+\\ ends it" in driver.screen)
        await driver.until(lambda: "ready" in driver.screen)
        await driver.pilot.press("escape")
        await driver.until(lambda: "1b" in driver.screen)
        await driver.pilot.press("ctrl+backslash")
        await driver.until(lambda: stored(driver))
        assert "stopped by the person" in stored(driver)[0]


async def test_shell_command_is_told_terminal_size(project: ScriptedProject) -> None:
    async with running_app(project, size=(80, 30)) as driver:
        await driver.send("! trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done")
        await driver.until(lambda: "12 78" in driver.screen)
        await driver.pilot.resize_terminal(60, 12)
        await driver.until(lambda: "4 58" in driver.screen)
        await driver.pilot.press("escape")
        await driver.until(lambda: stored(driver))


async def test_flooding_command_can_be_stopped_and_its_output_is_truncated(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.send("! yes flooding")
        # The pilot's pause would wait until the program is idle, which never happens here.
        await busily(lambda: is_open(driver) and "flooding" in driver.screen)
        driver.app.shell.box.post_message(events.Key("escape", None))
        await busily(lambda: stored(driver))

        assert len(stored(driver)[0]) < 20_000
        assert "left out" in stored(driver)[0]


async def busily(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0)


async def test_output_of_shell_command_during_run_is_delivered_at_next_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("I saw it.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await driver.until(lambda: driver.app.feed.has_calls_running)
        await driver.send("! echo mine")
        await driver.until(lambda: driver.conversation.inserts.waiting)
        assert driver.text.count("\n  mine") == 1
        driver.release_command()
        await driver.until(lambda: "I saw it." in driver.text)
        await driver.idle()
        assert driver.text.count("\n  mine") == 1

    assert project.prompts_of_call() == ["build it", "The person ran `echo mine` (exit 0):\nmine"]


async def test_second_shell_command_stays_in_input_while_first_runs(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.send("! sleep 60")
        await driver.until(lambda: is_open(driver))
        driver.app.composer.focus()
        await driver.send("! echo two")
        await driver.until(lambda: driver.app.composer.text == "! echo two")
        driver.app.focus_input()
        await driver.pilot.press("escape")
        await driver.until(lambda: stored(driver))

        assert "two" not in stored(driver)[0]


async def test_shell_output_withheld_by_guardrail_is_shown_but_not_sent(
    project: ScriptedProject,
) -> None:
    project.configure('[[guardrail]]\non = "input"\nname = "words"\npattern = "hush"\n')
    async with running_app(project) as driver:
        await driver.send("! echo hush")
        await driver.until(lambda: "guardrail" in driver.text)

        assert "\n  hush" in driver.text
        assert list(driver.conversation.messages) == []


async def test_bang_shows_target_of_output_and_bang_alone_shows_help(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.type("!")
        await driver.until(lambda: "the model sees it" in driver.screen)
        assert "❯" not in driver.screen
        await driver.type("!")
        await driver.until(lambda: "the model does not see it" in driver.screen)
        await driver.pilot.press("enter")
        await driver.until(lambda: "! COMMAND runs in your shell" in driver.screen)

        assert "❯" in driver.screen
        assert list(driver.conversation.messages) == []


async def test_space_before_bang_makes_text_a_prompt(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await driver.send(" ! is a sign")
        await driver.until(lambda: "Nothing more to do." in driver.text)

        assert driver.sent == [" ! is a sign"]


@pytest.mark.parametrize(
    ("hidden", "meant"), [("! touch ran", " ! touch ran"), ("/mode yolo", "/mode yolo")]
)
async def test_pasted_placeholder_is_never_run_as_command(
    project: ScriptedProject, hidden: str, meant: str
) -> None:
    rest = "\n# and more" * 12
    async with running_app(project) as driver:
        await driver.paste(hidden + rest)
        assert driver.app.composer.text == "[13 lines pasted]"
        await driver.pilot.press("enter")
        await driver.until(lambda: "Nothing more to do." in driver.text)

        assert driver.sent == [meant + rest]
        assert driver.conversation.settings.mode == "standard"
        assert not (project.folder / "ran").exists()


async def test_returned_shell_command_appended_to_draft_is_not_run(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await driver.type("a thought")
        driver.app.give_back("! touch ran")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Nothing more to do." in driver.text)

        assert driver.sent == ["a thought\n! touch ran"]
        assert not (project.folder / "ran").exists()


async def test_leaving_session_ends_shell_command(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await driver.send("! echo $$ > pid; exec sleep 99")
        await driver.until(lambda: is_open(driver) and (project.folder / "pid").exists())
        pid = (project.folder / "pid").read_text().strip()
        await driver.app.controller.close()

        assert not Path(f"/proc/{pid}").exists()
        await driver.until(lambda: not driver.app.shell.box.is_open)


def key(name: str, character: str | None = None) -> bytes:
    return bytes_of(events.Key(name, character))


def test_keys_are_encoded_as_xterm_sequences() -> None:
    assert [key("a", "a"), key("ctrl+c", "\x03"), key("enter", "\r"), key("up")] == [
        b"a",
        b"\x03",
        b"\r",
        b"\x1b[A",
    ]
    assert [key("ctrl+left"), key("f5"), key("alt+b"), key("shift+tab"), key("f99")] == [
        b"\x1b[1;5D",
        b"\x1b[15~",
        b"\x1bb",
        b"\x1b[Z",
        b"",
    ]
    assert bytes_of(events.Key("up", None), application=True) == b"\x1bOA"


def test_paste_cannot_end_bracketed_paste() -> None:
    assert paste_of("a\nb\x1b[201~c", brackets=True) == b"\x1b[200~a\rbc\x1b[201~"
    assert paste_of("a\r\nb", brackets=False) == b"a\rb"


def drawn(emulator: Emulator, row: int, back: int = 0) -> str:
    return "".join(text for text, _ in emulator.line(row, Style(), back=back)).rstrip()


def test_emulator_answers_queries_keeps_scrollback_and_survives_garbage() -> None:
    received: list[bytes] = []
    emulator = Emulator(rows=3, columns=20, answer=received.append)
    emulator.feed(b"".join(b"line %d\r\n" % n for n in range(500)) + b"\x1b[6n")
    while emulator.work(1):
        pass
    assert drawn(emulator, 1) == "line 499"
    assert drawn(emulator, 0, back=64) == "line 434"
    assert emulator.scrolled == SCROLLBACK_LINES
    assert received == [b"\x1b[3;1R"]

    emulator.feed(
        b"\x1b[>4;2m\x1b[<u\x1bP+q544e\x1b\\\x1b[38;5mok\x1b]0;title\x07" + bytes(range(256)) * 4
    )
    emulator.feed(b"\x1bc\x1b[2J\x1b[Hstill there")
    while emulator.work(1):
        pass
    assert "still there" in [drawn(emulator, row) for row in range(3)]
