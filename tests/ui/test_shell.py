"""`! command`: the person's own commands, in a terminal above the input."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.style import Style
from textual import events

from dirge_py.types.messages import UserMessage
from dirge_py.ui.panels.emulator import SCROLLBACK_LINES, Emulator
from dirge_py.ui.panels.shell_box import bytes_of, paste_of
from tests.conversation.room import Room
from tests.ui.running_app import HELD, RunningApp, running_app


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("TERM", "xterm-256color")


def stored(d: RunningApp) -> list[str]:
    return [
        m.text
        for m in d.conversation.messages
        if isinstance(m, UserMessage) and m.origin == "shell"
    ]


def is_open(d: RunningApp) -> bool:
    return d.app.shell.box.is_open and d.app.shell.box.has_focus


async def test_a_quick_command_is_shown_stored_and_told_to_the_model(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! echo out; exit 3")
        await d.until(lambda: stored(d))

        assert stored(d) == ["The person ran `echo out; exit 3` (exit 3):\nout"]
        assert not d.app.controller.is_running and not room.model.seen
        await d.until(lambda: "out" in d.text)
        await d.send("why?")
        await d.until(lambda: room.model.seen)
        assert room.heard() == [stored(d)[0], "why?"]
        assert d.app.composer.prompts.older("") == "why?"
        assert d.app.composer.prompts.older("") == "! echo out; exit 3"


async def test_of_two_signs_the_model_is_not_told(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("!! echo secret; pwd")
        await d.until(lambda: "secret" in d.text)

        assert str(room.project) in d.text.replace("\n", "")
        assert list(d.conversation.messages) == []


async def test_what_is_typed_goes_to_the_command_while_the_box_has_the_focus(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! read -p 'name: ' x; echo got:$x")
        await d.until(lambda: is_open(d) and "name:" in d.screen)
        assert "Esc ends it" in d.screen
        await d.type("ada")
        await d.until(lambda: "name: ada" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: stored(d))

        assert stored(d)[0].endswith("(exit 0):\nname: ada\ngot:ada")
        assert not d.app.shell.box.display and d.app.composer.has_focus


async def test_a_paste_and_ctrl_c_are_for_the_command(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! trap 'echo caught; exit 9' INT; read x; echo got:$x; sleep 60")
        await d.until(lambda: is_open(d))
        d.app.shell.box.post_message(events.Paste("two words\n"))
        await d.until(lambda: "got:two words" in d.screen)
        await d.pilot.press("ctrl+c")
        await d.until(lambda: stored(d))

        assert "(exit 9)" in stored(d)[0] and "caught" in stored(d)[0]
        assert d.app.is_running


async def test_esc_ends_the_command_and_what_it_started_and_the_conversation_goes_on(
    room: Room,
) -> None:
    async with running_app(room) as d:
        await d.send("! setsid sleep 77 & echo $! > pid; sleep 78")
        await d.until(lambda: is_open(d) and (room.project / "pid").exists())
        pid = int((room.project / "pid").read_text())
        await d.pilot.press("escape")
        await d.until(lambda: stored(d))

        assert "stopped by the person" in stored(d)[0]
        assert not Path(f"/proc/{pid}").exists()
        await d.send("and now?")
        await d.until(lambda: "Nothing more to do." in d.text)


async def test_an_editor_in_the_box_gets_esc_and_another_key_ends_it(room: Room) -> None:
    full = r"printf '\033[?1049h'; stty raw -echo; echo ready; head -c 1 | od -An -tx1; sleep 78"
    async with running_app(room) as d:
        await d.send(f"! {full}")
        await d.until(lambda: is_open(d) and "Ctrl+\\ ends it" in d.screen)
        await d.until(lambda: "ready" in d.screen)
        await d.pilot.press("escape")
        await d.until(lambda: "1b" in d.screen)
        await d.pilot.press("ctrl+backslash")
        await d.until(lambda: stored(d))
        assert "stopped by the person" in stored(d)[0]


async def test_the_size_of_the_screen_is_told_to_the_command(room: Room) -> None:
    async with running_app(room, size=(80, 30)) as d:
        await d.send("! trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done")
        await d.until(lambda: "12 78" in d.screen)
        await d.pilot.resize_terminal(60, 12)
        await d.until(lambda: "4 58" in d.screen)
        await d.pilot.press("escape")
        await d.until(lambda: stored(d))


async def test_a_command_that_floods_is_shown_heard_and_cut(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! yes flooding")
        # A pause of the pilot waits until the program is idle, which it is not now.
        await busily(lambda: is_open(d) and "flooding" in d.screen)
        d.app.shell.box.post_message(events.Key("escape", None))
        await busily(lambda: stored(d))

        assert len(stored(d)[0]) < 20_000
        assert "left out" in stored(d)[0]


async def busily(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0)


async def test_during_a_run_the_model_hears_of_it_at_the_next_boundary(room: Room) -> None:
    room.model.will_call("bash", command=HELD).will_say("I saw it.")
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await d.until(lambda: d.app.has_calls_running)
        await d.send("! echo mine")
        await d.until(lambda: d.conversation.inserts.waiting)
        assert d.text.count("\n  mine") == 1
        d.release_command()
        await d.until(lambda: "I saw it." in d.text)
        await d.idle()
        assert d.text.count("\n  mine") == 1

    assert room.heard() == ["build it", "The person ran `echo mine` (exit 0):\nmine"]


async def test_one_command_at_a_time_and_the_second_stays_in_the_input(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! sleep 60")
        await d.until(lambda: is_open(d))
        d.app.composer.focus()
        await d.send("! echo two")
        await d.until(lambda: d.app.composer.text == "! echo two")
        d.app.focus_input()
        await d.pilot.press("escape")
        await d.until(lambda: stored(d))

        assert "two" not in stored(d)[0]


async def test_what_a_guardrail_keeps_back_is_shown_and_not_told(room: Room) -> None:
    room.configure('[[guardrail]]\non = "input"\nname = "words"\npattern = "hush"\n')
    async with running_app(room) as d:
        await d.send("! echo hush")
        await d.until(lambda: "guardrail" in d.text)

        assert "\n  hush" in d.text
        assert list(d.conversation.messages) == []


async def test_the_sign_says_where_it_goes_and_the_sign_alone_explains_itself(room: Room) -> None:
    async with running_app(room) as d:
        await d.type("!")
        await d.until(lambda: "the model sees it" in d.screen)
        assert "❯" not in d.screen
        await d.type("!")
        await d.until(lambda: "the model does not see it" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: "! COMMAND runs in your shell" in d.screen)

        assert "❯" in d.screen
        assert list(d.conversation.messages) == []


async def test_a_blank_before_the_sign_makes_it_a_prompt(room: Room) -> None:
    async with running_app(room) as d:
        await d.send(" ! is a sign")
        await d.until(lambda: "Nothing more to do." in d.text)

        assert d.sent == [" ! is a sign"]


@pytest.mark.parametrize(
    ("hidden", "meant"), [("! touch ran", " ! touch ran"), ("/mode yolo", "/mode yolo")]
)
async def test_what_a_placeholder_hides_is_never_run(room: Room, hidden: str, meant: str) -> None:
    rest = "\n# and more" * 12
    async with running_app(room) as d:
        await d.paste(hidden + rest)
        assert d.app.composer.text == "[13 lines pasted]"
        await d.pilot.press("enter")
        await d.until(lambda: "Nothing more to do." in d.text)

        assert d.sent == [meant + rest]
        assert d.conversation.settings.mode == "standard"
        assert not (room.project / "ran").exists()


async def test_what_comes_back_makes_no_command_of_a_draft(room: Room) -> None:
    async with running_app(room) as d:
        await d.type("a thought")
        d.app.give_back("! touch ran")
        await d.pilot.press("enter")
        await d.until(lambda: "Nothing more to do." in d.text)

        assert d.sent == ["a thought\n! touch ran"]
        assert not (room.project / "ran").exists()


async def test_leaving_the_session_ends_the_command(room: Room) -> None:
    async with running_app(room) as d:
        await d.send("! echo $$ > pid; exec sleep 99")
        await d.until(lambda: is_open(d) and (room.project / "pid").exists())
        pid = (room.project / "pid").read_text().strip()
        await d.app.controller.close()

        assert not Path(f"/proc/{pid}").exists()
        await d.until(lambda: not d.app.shell.box.is_open)


def key(name: str, character: str | None = None) -> bytes:
    return bytes_of(events.Key(name, character))


def test_keys_are_those_of_an_xterm() -> None:
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


def test_a_paste_cannot_end_its_brackets() -> None:
    assert paste_of("a\nb\x1b[201~c", brackets=True) == b"\x1b[200~a\rbc\x1b[201~"
    assert paste_of("a\r\nb", brackets=False) == b"a\rb"


def drawn(emulator: Emulator, row: int, back: int = 0) -> str:
    return "".join(text for text, _ in emulator.line(row, Style(), back=back)).rstrip()


def test_the_emulator_answers_keeps_what_scrolls_out_and_survives_nonsense() -> None:
    said: list[bytes] = []
    emulator = Emulator(rows=3, columns=20, answer=said.append)
    emulator.feed(b"".join(b"line %d\r\n" % n for n in range(500)) + b"\x1b[6n")
    while emulator.work(1):
        pass
    assert drawn(emulator, 1) == "line 499"
    assert drawn(emulator, 0, back=64) == "line 434"
    assert emulator.scrolled == SCROLLBACK_LINES
    assert said == [b"\x1b[3;1R"]

    emulator.feed(
        b"\x1b[>4;2m\x1b[<u\x1bP+q544e\x1b\\\x1b[38;5mok\x1b]0;title\x07" + bytes(range(256)) * 4
    )
    emulator.feed(b"\x1bc\x1b[2J\x1b[Hstill there")
    while emulator.work(1):
        pass
    assert "still there" in [drawn(emulator, row) for row in range(3)]
