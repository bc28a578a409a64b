"""Commands that the user typed, on their own terminal."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import excerpt
from dirge_py.processes.pty import PtyCommand, TerminalText
from dirge_py.processes.runner import Runner
from dirge_py.types.errors import ProcessError

_BASH = {"PATH": os.environ["PATH"], "SHELL": "/bin/bash", "TERM": "xterm-256color"}


class PtyOutput:
    """A runner, and the terminal output of its command."""

    def __init__(self, cwd: Path, **environment: str) -> None:
        policy = EnvironmentPolicy(
            ["MINE"], withheld=["SECRET_KEY"], source={**_BASH, **environment}
        )
        self.runner = Runner(policy)
        self.cwd = cwd
        self.raw = b""
        self.largest_chunk = 0

    def _append(self, chunk: bytes) -> None:
        self.largest_chunk = max(self.largest_chunk, len(chunk))
        self.raw = (self.raw + chunk)[-1_000_000:]

    def start(self, command: str, *, rows: int = 12, columns: int = 80) -> PtyCommand:
        return self.runner.start_for_person(
            command, cwd=str(self.cwd), rows=rows, columns=columns, on_bytes=self._append
        )

    async def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end, self.raw[-500:]
            await asyncio.sleep(0)


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[PtyOutput]:
    made = PtyOutput(tmp_path, SECRET_KEY="sk-1", MINE="yes", EDITOR="vi", OTHER="x")
    yield made
    await made.runner.shutdown()


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_command_of_user_has_its_own_terminal(terminal: PtyOutput) -> None:
    command = terminal.start(
        "tty; ps -o tpgid= -o pgid= -p $$; stty size; exit 3", rows=9, columns=33
    )

    finished = await command.finished

    device, groups, size = excerpt(finished.output).splitlines()
    assert device.startswith("/dev/")
    assert len(set(groups.split())) == 1
    assert (size, finished.exit_code) == ("9 33", 3)


async def test_keys_reach_program_that_reads_terminal(terminal: PtyOutput) -> None:
    command = terminal.start("read -p 'name: ' x </dev/tty; echo got:$x")
    await terminal.until(lambda: b"name: " in terminal.raw)

    command.send_keys(b"ada\r")

    assert "got:ada" in excerpt((await command.finished).output)


async def test_ctrl_c_and_resize_reach_program(terminal: PtyOutput) -> None:
    command = terminal.start(
        "trap 'stty size' WINCH; trap 'echo stopped; exit 7' INT; echo up;"
        " while :; do sleep 0.01; done"
    )
    await terminal.until(lambda: b"up" in terminal.raw)
    command.resize(rows=20, columns=50)
    await terminal.until(lambda: b"20 50" in terminal.raw)
    command.send_keys(b"\x03")

    assert (await command.finished).exit_code == 7
    assert b"stopped" in terminal.raw


async def test_stop_kills_children_in_other_sessions(terminal: PtyOutput) -> None:
    command = terminal.start(
        "setsid sleep 500 & sleep 501 & echo $! ; trap '' TERM HUP; wait; sleep 9"
    )
    await terminal.until(lambda: b"\n" in terminal.raw)
    tree = [entry.pid for entry in command._tree.running()]
    assert len(tree) >= 3

    command.stop()
    finished = await command.finished

    assert finished.aborted
    assert not [pid for pid in tree if _is_running(pid)]


async def test_runner_shutdown_ends_terminal_command(terminal: PtyOutput) -> None:
    command = terminal.start("echo on; sleep 500")
    await terminal.until(lambda: b"on" in terminal.raw)

    await terminal.runner.shutdown()

    assert command.finished.done()
    with pytest.raises(ProcessError):
        terminal.start("true")


async def test_command_of_user_gets_listed_variables_and_no_secrets(terminal: PtyOutput) -> None:
    finished = await terminal.start("env").finished

    names = {line.partition("=")[0] for line in excerpt(finished.output).splitlines()}
    assert {"MINE", "EDITOR", "TERM", "PATH"} <= names
    assert not {"SECRET_KEY", "OTHER", "GIT_TERMINAL_PROMPT"} & names


async def test_output_flood_blocks_neither_event_loop_nor_memory(terminal: PtyOutput) -> None:
    command = terminal.start("yes abcdefghij")
    turns = 0
    while command.output.total_bytes < 3_000_000:
        await asyncio.sleep(0)
        turns += 1
    command.stop()

    output = (await command.finished).output
    assert turns > 20
    assert len(output.head) + len(output.tail) <= 128 * 1024
    assert excerpt(output).count("abcdefghij") <= 102


async def test_missing_folder_is_process_error(terminal: PtyOutput) -> None:
    terminal.cwd = terminal.cwd / "gone"

    with pytest.raises(ProcessError, match="does not exist"):
        terminal.start("true")


def _text(*chunks: bytes) -> str:
    text = TerminalText()
    return (b"".join(map(text.feed, chunks)) + text.end()).decode()


def test_overwritten_terminal_line_keeps_last_text() -> None:
    assert _text(b"10%\r50%\r\x1b[K100%\r\ndone\r\n") == "100%\ndone\n"
    assert _text(b"ab\b\bcd\r\r\n") == "cd\n"


def test_alternate_screen_and_colors_are_removed() -> None:
    whole = b"before\r\n\x1b[?1049hmenu\r\n\x1b[2;3Hmore\r\n\x1b[?1049l\x1b[31mafter\x1b[0m\r\n"

    assert _text(whole) == "before\nafter\n"
    assert _text(whole[:12], whole[12:30], whole[30:]) == "before\nafter\n"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_terminal_text_has_no_control_characters(chunks: list[bytes]) -> None:
    left = _text(*chunks)

    assert not [char for char in left if char < " " and char not in "\n\t"]
