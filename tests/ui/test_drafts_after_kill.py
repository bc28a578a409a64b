"""Typed text that survives when the program is killed."""

import os
import signal
from pathlib import Path

from tests.support.fake_service import FakeService, ModelReply
from tests.support.terminal import Terminal, until


def state() -> Path:
    return Path(os.environ["DIRGE_STATE_DIR"])


def is_stored(words: str) -> bool:
    return any(words in f.read_text() for f in state().glob("typed/*/*.unsent"))


def test_draft_and_stash_survive_kill_before_first_prompt(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    terminal.press("put aside\x13half a thought")
    until(lambda: is_stored('"draft": "half a thought", "stash": ["put aside"]'))
    terminal.child.send_signal(signal.SIGKILL)
    terminal.finish()

    again = Terminal(cwd=tmp_path)
    again.read_until("half a thought")
    again.read_until("1 draft stashed")
    again.child.send_signal(signal.SIGTERM)
    again.finish()
    assert is_stored("half a thought")


def test_prompts_and_stash_are_restored_at_next_start(tmp_path: Path):
    with FakeService([ModelReply(text="Hello there.")]) as service:
        terminal = Terminal(cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        terminal.read_until("ready")
        terminal.press("fix the parser\r")
        terminal.read_until("Hello there.")
        terminal.press("put aside\x13")
        until(
            lambda: any(
                '["put aside"]' in f.read_text() for f in state().glob("sessions/*/*.jsonl")
            )
        )
        terminal.child.send_signal(signal.SIGKILL)
        terminal.finish()

    again = Terminal(("-m", "dirge_py", "-c"), cwd=tmp_path)
    again.read_until("1 draft stashed")
    again.child.send_signal(signal.SIGTERM)
    again.finish()

    other = Terminal(cwd=tmp_path)
    other.read_until("ready")
    other.press("\x12pars")
    other.read_until("fix the parser")
    other.child.send_signal(signal.SIGTERM)
    other.finish()


def test_print_mode_and_no_session_leave_stored_draft_alone(tmp_path: Path):
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    terminal.press("half a thought")
    until(lambda: is_stored("half a thought"))
    terminal.child.send_signal(signal.SIGKILL)
    terminal.finish()

    with FakeService([ModelReply(text="Hello there.")]) as service:
        printing = ("-m", "dirge_py", "-p", "hi")
        printed = Terminal(printing, cwd=tmp_path, OPENAI_BASE_URL=service.openai_url)
        printed.read_until("Hello there.")
        printed.finish()
    other = Terminal(("-m", "dirge_py", "--no-session"), cwd=tmp_path)
    other.read_until("ready")
    other.press("kept nowhere")
    other.read_until("kept nowhere")
    other.child.send_signal(signal.SIGTERM)
    other.finish()
    assert is_stored("half a thought")
    assert not is_stored("kept nowhere")
