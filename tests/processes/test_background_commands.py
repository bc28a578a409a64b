"""Real background commands: reading, moving and ending them."""

import asyncio
import time
from pathlib import Path

import pytest

from dirge_py.processes.runner import MAX_KEPT, MAX_RUNNING, Shell, Shells, ended_notice
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError
from tests.processes.test_process_cleanup import pids_in, until

FOREVER = "echo $$ >> pids; while :; do sleep 0.05; done"


@pytest.fixture
def shells(runner):
    return Shells(runner)


async def all_of(shells: Shells, shell_id: str) -> list[str]:
    """All output until the command has ended."""
    pieces = []
    while True:
        new = await shells.new_output(shell_id, wait_s=10)
        pieces.append((new.output.head + new.output.tail).decode())
        if new.state.status != "running":
            return pieces


async def text_of(shells: Shells, shell_id: str, **options) -> str:
    output = (await shells.new_output(shell_id, **options)).output
    return (output.head + output.tail).decode()


async def test_a108_new_output_is_returned_once(shells, tmp_path):
    shell = shells.start(
        "echo a; until [ -e gate ]; do sleep 0.01; done; echo b", cwd=str(tmp_path)
    )

    first = await text_of(shells, shell.id, wait_s=10)
    again = await text_of(shells, shell.id)
    (tmp_path / "gate").touch()
    rest = await all_of(shells, shell.id)

    assert (first, again, "".join(rest)) == ("a\n", "", "b\n")


async def test_character_split_between_two_reads_is_returned_whole(shells, tmp_path):
    command = (
        r"printf '\xf0\x9d'; until [ -e gate ]; do sleep 0.01; done; printf '\x84\x9e\xc3\xa9\xe2'"
    )
    shell = shells.start(command, cwd=str(tmp_path))
    await until(lambda: shell.state.total_bytes == 2)

    assert await text_of(shells, shell.id) == ""
    (tmp_path / "gate").touch()
    await shell.ended()
    assert (await shells.new_output(shell.id)).output.head == "𝄞é".encode() + b"\xe2"


async def test_wait_for_output_ends_on_output_exit_timeout_or_abort(shells, tmp_path):
    silent = shells.start("until [ -e gate ]; do sleep 0.01; done", cwd=str(tmp_path))
    signal = AbortSignal()
    began = time.monotonic()
    assert await text_of(shells, silent.id, wait_s=0.05) == ""
    waiting = asyncio.ensure_future(shells.new_output(silent.id, wait_s=60, signal=signal))
    await asyncio.sleep(0)
    signal.abort()
    assert (await waiting).state.status == "running"

    (tmp_path / "gate").touch()
    assert (await shells.new_output(silent.id, wait_s=60)).state.status == "exited"
    assert time.monotonic() - began < 5


async def test_a108_killed_shell_leaves_no_process(shells, tmp_path, is_alive):
    shell = shells.start(f"trap '' TERM; sleep 100 & {FOREVER}", cwd=str(tmp_path))
    await until(lambda: pids_in(tmp_path / "pids"))

    state = await shells.kill(shell.id)

    assert (state.status, state.exit_code) == ("killed", None)
    assert not any(map(is_alive, pids_in(tmp_path / "pids")))


async def test_shell_state_has_exit_code_signal_or_timeout(shells, tmp_path):
    failed = shells.start("echo no; exit 7", cwd=str(tmp_path))
    crashed = shells.start("kill -SEGV $$", cwd=str(tmp_path))
    slow = shells.start("sleep 100", cwd=str(tmp_path), timeout_s=0.1)
    for shell in (failed, crashed, slow):
        await shell.ended()

    ends = [(state.status, state.exit_code, state.signal) for state in shells.list()]
    assert ends == [("exited", 7, None), ("exited", None, 11), ("timed_out", None, None)]


async def test_d55_ninth_shell_is_refused_with_list(shells, tmp_path):
    for number in range(MAX_RUNNING):
        shells.start(f"sleep {100 + number}", cwd=str(tmp_path))

    with pytest.raises(ProcessError) as caught:
        shells.start("echo ninth", cwd=str(tmp_path))

    assert "sh1 (`sleep 100`)" in caught.value.message
    assert "sh8 (`sleep 107`)" in caught.value.message
    await shells.kill("sh3")
    assert shells.start("echo ninth", cwd=str(tmp_path)).id == "sh9"


async def test_oldest_ended_shells_are_forgotten(shells, tmp_path):
    running_shell = shells.start("sleep 100", cwd=str(tmp_path))
    for _ in range(MAX_KEPT + 2):
        await shells.start("true", cwd=str(tmp_path)).ended()

    kept = [state.id for state in shells.list()]
    assert len(kept) == MAX_KEPT
    assert kept[:2] == [running_shell.id, "sh5"]
    with pytest.raises(ProcessError, match="'sh2'"):
        shells.get("sh2")


async def test_a108_shutdown_kills_running_shells_and_returns_them(shells, tmp_path, is_alive):
    await shells.start("true", cwd=str(tmp_path)).ended()
    shells.start(FOREVER, cwd=str(tmp_path))
    shells.start(f"setsid bash -c '{FOREVER}' & wait", cwd=str(tmp_path))
    await until(lambda: len(pids_in(tmp_path / "pids")) == 2)

    result = await shells.shutdown()

    assert [state.id for state in result] == ["sh2", "sh3"]
    assert {state.status for state in result} == {"running"}
    assert ended_notice(result[:1]).startswith("Ended with the session: sh2 (`echo $$")
    assert ended_notice(()) == ""
    assert not any(map(is_alive, pids_in(tmp_path / "pids")))


async def test_output_flood_uses_little_memory_and_file_is_complete(shells, tmp_path, outputs):
    shell = shells.start("seq 1 400000", cwd=str(tmp_path), outputs=outputs, call_id="flood")
    await shell.ended()
    new = await shells.new_output(shell.id)

    whole = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert new.output.total_bytes == len(whole)
    assert len(new.output.head) + len(new.output.tail) < 1024 * 1024
    assert Path(new.state.output_path).read_bytes() == whole


async def test_foreground_commands_do_not_kill_background_commands(shells, tmp_path, is_alive):
    background = shells.start(f"{FOREVER} & {FOREVER}", cwd=str(tmp_path))
    await until(lambda: len(pids_in(tmp_path / "pids")) == 2)

    await shells.run("(setsid sleep 100 &); true", cwd=str(tmp_path))
    await shells.run("exit 1", cwd=str(tmp_path))

    assert all(map(is_alive, pids_in(tmp_path / "pids")))
    assert background.is_running


async def test_command_moved_to_background_keeps_running_and_returns_shell(shells, tmp_path):
    command = "printf 'a\n\\xc3'; until [ -e gate ]; do sleep 0.01; done; printf '\\xa9b'; exit 4"
    signal = AbortSignal()
    run = asyncio.ensure_future(
        shells.run(command, cwd=str(tmp_path), call_id="c", timeout_s=30, signal=signal)
    )
    await until(lambda: shells._foreground and shells._foreground[0][1].output.total_bytes)
    assert shells.to_background("another") is None

    shell_id = shells.to_background("c")
    moved = await run
    signal.abort()
    (tmp_path / "gate").touch()

    assert isinstance(moved, Shell) and moved.id == shell_id == "sh1"
    assert moved.output.head == b"a\n"
    assert "".join(await all_of(shells, "sh1")) == "éb"
    assert shells.get("sh1").state.exit_code == 4
    assert shells.to_background() is None


async def test_command_moved_to_background_loses_foreground_timeout(shells, tmp_path):
    run = asyncio.ensure_future(
        shells.run("sleep 0.4; echo late", cwd=str(tmp_path), timeout_s=0.3)
    )
    await until(lambda: shells._foreground)
    shells.to_background()
    await run

    assert await all_of(shells, "sh1") == ["late\n"]


async def test_command_being_stopped_is_not_moved_to_background(shells, tmp_path):
    signal = AbortSignal()
    running = asyncio.create_task(shells.run(FOREVER, cwd=str(tmp_path), signal=signal))
    await until(lambda: (tmp_path / "pids").exists())

    signal.abort()
    await asyncio.sleep(0)  # the abort is delivered by the event loop
    moved = shells.to_background()

    assert moved is None
    assert (await running).aborted


async def test_short_wait_does_not_wake_longer_wait(shells, tmp_path):
    shell = shells.start("until [ -e gate ]; do sleep 0.01; done; echo out", cwd=str(tmp_path))
    long = asyncio.create_task(shells.new_output(shell.id, wait_s=30))

    short = await shells.new_output(shell.id, wait_s=0.02)
    (tmp_path / "gate").touch()

    assert short.output.total_bytes == 0
    assert (await long).output.head == b"out\n"
