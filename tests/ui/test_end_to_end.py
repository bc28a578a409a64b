"""A whole conversation: the installed program, a terminal, a model service."""

import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.app_driver import WAITING_COMMAND
from tests.support.fake_service import FakeService, ModelReply
from tests.support.terminal import ROOT, Terminal, hand, is_alive
from tests.support.tmux import NEEDED, Tmux

pytestmark = NEEDED

PLAN = "# Plan\n\nLook **here** first.\n\n| file | lines |\n| --- | ---: |\n| a.py | 12 |\n"


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.close()


def dirge(service: FakeService, arguments: str = "", **environment: str) -> str:
    """The command line of the program."""
    variables = {
        "PYTHONPATH": str(ROOT),
        "DIRGE_MODEL": "openai/test",
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": service.openai_url,
        **environment,
    }
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"clear; env {settings} {sys.executable} -m dirge_py {arguments}"


def test_full_conversation_with_suspend_steering_interrupt_and_resume(tmux: Tmux, tmp_path: Path):
    sleep = f"echo $$ > {tmp_path}/pid; exec sleep 300"
    replies = [
        ModelReply(
            text=PLAN, calls=[("bash", {"command": WAITING_COMMAND})], delta_chars=3, gap_s=0.002
        ),
        ModelReply(text="As you say.", calls=[("bash", {"command": sleep})]),
        ModelReply(text="Still here."),
    ]
    with FakeService(replies) as service:
        tmux.enter("stty -g > before")
        tmux.enter(dirge(service))
        tmux.sees("ready")

        tmux.enter("fix it")
        tmux.sees("y Allow once")
        tmux.press("C-z")
        tmux.sees("Stopped")
        tmux.enter("fg")
        tmux.sees("y Allow once")
        tmux.sees("a.py │    12")
        tmux.answer("y")
        tmux.sees("  cc a.c")
        tmux.enter("mind the tabs")
        tmux.sees("steers next: mind the tabs")
        (tmp_path / "go").touch()
        tmux.sees("steered in → delivered at turn 2")
        tmux.sees("As you say.")
        assert "mind the tabs" in str(service.requests[1].json["messages"][-1])

        tmux.answer("y")
        tmux.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        pressed = time.monotonic()
        tmux.press("Escape")
        tmux.until(lambda: not is_alive(int((tmp_path / "pid").read_text())))
        assert time.monotonic() - pressed < 1
        tmux.sees("Interrupted.")

        tmux.enter("/quit")
        tmux.sees("To come back: dirge -r ")
        tmux.enter("stty -g > after")
        tmux.until(lambda: (tmp_path / "after").exists() and (tmp_path / "after").read_text())
        assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
        switches = ("alternate_on", "mouse_any_flag", "cursor_flag")
        assert [tmux.state(name) for name in switches] == ["0", "0", "1"]

        session = tmux.screen.split("dirge -r ")[1].split()[0]
        tmux.enter(dirge(service, f"-r {session}"))
        tmux.sees("Resumed this session")
        for said in ("› mind the tabs", "As you say.", "interrupted"):
            assert said in tmux.screen
        tmux.enter("and now?")
        tmux.sees("Still here.")
        roles = [message["role"] for message in service.requests[2].json["messages"]]
        assert roles[-2:] == ["tool", "user"]


def editor(folder: Path, script: str, name: str = "editor") -> str:
    """A program that edits the file it gets."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_external_editor_owns_screen_while_run_continues(tmux: Tmux, tmp_path: Path):
    wait = f"until test -e {tmp_path}/done; do sleep 0.01; done"
    program = editor(tmp_path, f'trap "" INT; cat "$1"; echo :edited; {wait}; echo new > "$1"')
    with FakeService(
        [ModelReply(text="word " * 60 + "\n\nthe end", delta_chars=20, gap_s=0.01)]
    ) as service:
        tmux.enter(dirge(service, EDITOR=program))
        tmux.sees("ready")
        tmux.enter("go")
        tmux.sees("word word")
        tmux.type("old")
        tmux.press("C-g")
        tmux.sees("old:edited")
        tmux.press("C-c")
        assert "ready" not in tmux.screen
        (tmp_path / "done").touch()
        tmux.sees("❯ new")
        tmux.sees("the end")
        tmux.sees("ready")


def test_screen_and_draft_are_restored_after_suspend_editor_and_pager(tmux: Tmux, tmp_path: Path):
    wait = f"until test -e {tmp_path}/done; do sleep 0.01; done"
    pager = editor(tmp_path, f'cat "$1"; echo :paged; {wait}', "pager")
    failing = editor(tmp_path, 'echo work > "$1"; exit 3')
    with FakeService([ModelReply(text="the **answer**")]) as service:
        tmux.enter(dirge(service, PAGER=pager, EDITOR=failing, TMPDIR=str(tmp_path)))
        tmux.sees("ready")
        tmux.type("my draft")

        # The shell: everything is drawn again.
        tmux.press("C-z")
        tmux.sees("Stopped")
        switches = ("alternate_on", "mouse_any_flag", "cursor_flag")
        assert [tmux.state(name) for name in switches] == ["0", "0", "1"]
        tmux.enter("fg")
        tmux.sees("ready")
        assert [tmux.state(name) for name in switches[:2]] == ["1", "1"]
        for seen in ("dirge ", "/help lists commands", "❯ my draft"):
            assert seen in tmux.screen

        # An editor that fails: neither draft nor work is lost.
        tmux.press("C-g")
        tmux.sees("What it wrote is in")
        tmux.sees("❯ my draft")
        assert [path.read_text() for path in tmp_path.glob("dirge-*.md")] == ["work\n"]

        # The pager and the doctor.
        tmux.press("C-u")
        tmux.enter("go")
        tmux.sees("the answer")
        tmux.press("C-x", "[")
        tmux.sees(":paged")
        assert "answer" in tmux.screen and "ready" not in tmux.screen
        (tmp_path / "done").touch()
        tmux.sees("ready")
        tmux.enter("/doctor")
        tmux.sees("PageDown scrolls down")
        tmux.type("draft")
        tmux.sees("❯ draft")


def test_reattach_and_resize_redraw_whole_screen(tmux: Tmux, tmp_path: Path):
    attach = f"import os; os.execvp('tmux', ['tmux', '-S', {str(tmp_path / 'tmux')!r}, 'attach'])"
    with FakeService() as service:
        tmux._run("set-option", "-g", "focus-events", "on")
        tmux.resize(80, 23)
        tmux.enter(dirge(service))
        tmux.sees("ready")
        tmux.type("my draft")
        for _ in range(2):
            looking = Terminal(("-c", attach), cwd=tmp_path, TERM="xterm-256color", TMUX="")
            looking.read_until("my draft")
            looking.read_until("ready")
            tmux._run("detach-client")
            looking.finish()
        for size in ((60, 20), (100, 30)):
            tmux.resize(*size)
            for seen in ("dirge ", "/help lists commands", "❯ my draft", "ready"):
                tmux.sees(seen)


@pytest.mark.parametrize("size", [(40, 12), (20, 5)])
def test_question_can_be_answered_on_small_terminal(
    tmux: Tmux, tmp_path: Path, size: tuple[int, int]
):
    tmux.resize(*size)
    call = ("bash", {"command": "touch made"})
    with FakeService([ModelReply(calls=[call]), ModelReply(text="It is made.")]) as service:
        tmux.enter(dirge(service))
        tmux.sees("❯")
        tmux.sees("ready")
        tmux.enter("make it")
        tmux.sees("│ touch made")
        made = tmp_path / "made"
        tmux.until(lambda: made.exists() or press_slowly(tmux, "Down", "Enter"), "the file")
        tmux.sees("ready")
        tmux.until(lambda: "It is made." in tmux.screen or tmux.press("PageUp"), "the answer")


STORM = "[providers.s]\ntype = 'scripted'\nscript = 'r.json'\nmodel = 'm'\n[loop]\nmax_turns = 5\n"
GUARD = "[[guardrail]]\non = ['input', 'output']\nname = 'words'\npattern = 'hush'\n"


def test_storm_guard_and_guardrail_messages_are_signed_by_dirge(tmux: Tmux, tmp_path: Path):
    look = {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    slow = {"text": "The word is hush.", "chunk_chars": 4, "pause_s": 0.1}
    replies = [look, look, look, look, slow, look, {"text": "Seen it."}]
    (tmp_path / "r.json").write_text(json.dumps({"replies": replies}))
    (tmp_path / "config.toml").write_text(STORM + GUARD)
    places = f"DIRGE_CONFIG_DIR={tmp_path} DIRGE_STATE_DIR={tmp_path}/state PYTHONPATH={ROOT}"
    tmux.enter(f"clear; env {places} {sys.executable} -m dirge_py")
    tmux.sees("ready")

    tmux.enter("look")
    tmux.sees("not run, the same call ×3")
    tmux.sees("Stopped by the storm guard")
    assert "» from dirge\n   I kept repeating `list_dir`" in tmux.screen

    tmux.enter("say hush")
    tmux.sees("! Not sent: guardrail `words`")
    tmux.sees("❯ say hush")
    tmux.press("C-u")
    tmux.enter("which word?")
    tmux.sees("The word")
    tmux.sees("The answer was withheld by guardrail `words`")
    assert "The word" not in tmux.screen

    tmux.enter("/hooks")
    tmux.sees("limits → storm → permission")
    tmux.enter("/context")
    tmux.sees("compactions so far: 0")
    tmux.enter("and now?")
    tmux.sees("Seen it.")
    tmux.sees("ready")
    tmux.enter("/quit")
    tmux.sees("To come back: dirge -r ")


def press_slowly(tmux: Tmux, *keys: str) -> None:
    for key in keys:
        hand(0.5)
        tmux.press(key)


def bash(command: str) -> tuple[str, dict[str, object]]:
    return ("bash", {"command": command})


def test_permission_questions_and_background_command_in_one_session(tmux: Tmux, tmp_path: Path):
    replies = [
        ModelReply(calls=[bash("git push here there"), bash("npm run build"), bash("touch made")]),
        ModelReply(calls=[bash("git push -q"), bash(">u;echo up;sleep 300")]),
        ModelReply(text="It goes on without me."),
    ]
    with FakeService(replies) as service:
        tmux.enter(dirge(service, DIRGE_CONFIG_DIR=str(tmp_path / "config")))
        tmux.sees("ready")
        tmux.enter("ship it")

        tmux.sees("select, then Enter")
        tmux.press("Tab")
        tmux.sees("p Allow always, in your settings: execute:git push *")
        tmux.answer("p")
        tmux.sees("2 of 3")
        tmux.answer("c", shows="Enter: write a comment and deny")
        tmux.sees("Tell the model why")
        tmux.enter("it is built already")
        tmux.sees("3 of 3")
        tmux.resize(60, 20)
        tmux.answer("y")

        tmux.sees(">u;echo up;sleep 300")
        assert (tmp_path / "made").exists()
        settings = (tmp_path / "config/config.toml").read_text()
        assert 'match = "git push *"' in settings
        results = [
            m["content"] for m in service.requests[1].json["messages"] if m["role"] == "tool"
        ]
        assert "it is built already" in results[1]

        tmux.answer("y")
        tmux.sees("\n   up")
        tmux.press("C-b")
        tmux.sees("It goes on without me.")
        tmux.enter("/why 2")
        tmux.sees("deny: it is built already [answer]")
        tmux.enter("/tasks")
        tmux.sees("sh1   running")
        tmux.press("C-d")
        tmux.sees("Ended with the session: sh1 (`>u;echo up;sleep 300`).")


def test_demo_fixes_its_project_and_exits_with_zero(tmux: Tmux):
    tmux.enter(f"clear; env PYTHONPATH={ROOT} {sys.executable} -m dirge_py demo")
    tmux.answer("a")
    tmux.sees("All tests pass")
    tmux.sees("ready")
    tmux.press("C-d")
    tmux.sees("$")
    assert "To come back" not in tmux.screen
    tmux.enter("echo code $?")
    tmux.sees("code 0")
