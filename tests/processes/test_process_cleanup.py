"""Real processes that try to outlive their command."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.types.abort import AbortSignal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

DOUBLE_FORK = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(100)
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[2]))
"""

FORK_STORM = """
import os, sys, time
with open(sys.argv[1], "a") as file:
    while True:
        if os.fork() == 0:
            os.setsid()
            file.write(f"{os.getpid()}\\n"); file.flush()
            time.sleep(100)
        time.sleep(0.002)
"""


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def until(condition) -> None:
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110 - other processes set no event of ours
            await asyncio.sleep(0)


async def run_until_aborted(runner, command, pids: Path, count: int = 1):
    """Abort once `count` processes run; the result, and the seconds until it came."""
    signal = AbortSignal()
    run = asyncio.ensure_future(runner.run(command, cwd=str(pids.parent), signal=signal))
    await until(lambda: len(pids_in(pids)) >= count)
    began = time.monotonic()
    signal.abort()
    return await run, time.monotonic() - began


async def test_abort_kills_ordinary_command_at_once(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    finished, took = await run_until_aborted(runner, f"echo $$ > {pids}; sleep 100; true", pids)

    assert finished.aborted
    assert not any(map(is_alive, pids_in(pids)))
    assert took < 1.5  # below the grace period of a timeout; 0.02 s when idle


async def test_command_that_ignores_sigterm_is_killed(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    command = f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.05; done"
    finished, took = await run_until_aborted(runner, command, pids)

    assert finished.signal == 9
    assert not any(map(is_alive, pids_in(pids)))
    assert took < 3


async def test_daemon_in_its_own_session_is_killed_on_abort(
    runner, tmp_path, is_alive, our_children
):
    before = our_children()
    pids = tmp_path / "pids"
    command = [sys.executable, "-c", DOUBLE_FORK, str(pids), "100"]
    _finished, took = await run_until_aborted(runner, command, pids)

    assert not any(map(is_alive, pids_in(pids)))
    assert our_children() <= before
    assert took < 3


async def test_daemon_is_killed_after_its_command_succeeded(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    command = f"{sys.executable} -c '{DOUBLE_FORK}' {pids} 0; until [ -s {pids} ]; do :; done"
    finished = await runner.run(command, cwd=str(tmp_path))

    assert finished.exit_code == 0
    assert finished.stopped == 1
    assert pids_in(pids) and not any(map(is_alive, pids_in(pids)))


async def test_fork_storm_is_killed(runner, tmp_path, is_alive, our_children):
    before = our_children()
    pids = tmp_path / "pids"
    command = [sys.executable, "-c", FORK_STORM, str(pids)]
    _finished, took = await run_until_aborted(runner, command, pids, count=60)

    assert not any(map(is_alive, pids_in(pids)))
    assert our_children() <= before
    assert took < 3


async def test_background_process_that_holds_pipe_does_not_delay_result(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    finished = await runner.run(f"sleep 100 & echo $! > {pids}; echo done", cwd=str(tmp_path))

    assert (finished.output.head, finished.exit_code, finished.stopped) == (b"done\n", 0, 1)
    assert finished.duration_s < 1
    assert not any(map(is_alive, pids_in(pids)))


async def test_output_written_just_after_command_ended_is_captured(runner, tmp_path):
    finished = await runner.run("(sleep 0.05; echo late) & echo early", cwd=str(tmp_path))

    assert finished.output.head == b"early\nlate\n"
    assert finished.stopped == 0


async def test_cancelled_run_returns_at_once_and_command_is_killed(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    run = asyncio.ensure_future(
        runner.run(f"trap '' TERM; echo $$ > {pids}; sleep 100 & wait", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(pids))
    began = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    took = time.monotonic() - began
    await runner.shutdown()

    assert took < 1
    assert not any(map(is_alive, pids_in(pids)))


async def test_shutdown_kills_every_command(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    runs = [
        asyncio.ensure_future(runner.run(f"echo $$ >> {pids}; sleep 100; :", cwd=str(tmp_path)))
        for _ in range(3)
    ]
    await until(lambda: len(pids_in(pids)) == 3)
    await runner.shutdown()

    assert not any(map(is_alive, pids_in(pids)))
    assert [run.aborted for run in await asyncio.gather(*runs)] == [True] * 3


def test_commands_die_when_event_loop_is_closed(tmp_path, is_alive):
    pids = tmp_path / "pids"

    async def leave_while_it_runs() -> None:
        runner = Runner(EnvironmentPolicy())
        run = asyncio.ensure_future(
            runner.run(f"trap '' TERM; echo $$ > {pids}; sleep 100 & wait", cwd=str(tmp_path))
        )
        await until(lambda: pids_in(pids))
        assert not run.done()

    asyncio.run(leave_while_it_runs())

    assert not any(map(is_alive, pids_in(pids)))


@pytest.fixture
def bystander():
    process = subprocess.Popen(["sleep", "100"], start_new_session=True)
    yield process
    process.kill()
    assert process.wait() == -9


async def test_processes_not_started_by_runner_are_not_killed(runner, tmp_path, bystander):
    await runner.run("sleep 100 & sleep 100", cwd=str(tmp_path), timeout_s=0.1)

    assert bystander.poll() is None


async def test_concurrent_commands_do_not_kill_each_other(runner, tmp_path):
    slow = asyncio.ensure_future(
        runner.run("until [ -e gate ]; do sleep 0.01; done; echo done", cwd=str(tmp_path))
    )
    quick = await runner.run("sleep 100 & echo quick", cwd=str(tmp_path))
    (tmp_path / "gate").touch()

    assert quick.stopped == 1
    assert (await slow).output.head == b"done\n"


async def test_no_file_descriptor_leaks(runner, tmp_path):
    await runner.run("true", cwd=str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await runner.run("sleep 100 & echo a", cwd=str(tmp_path), timeout_s=0.05)

    assert len(os.listdir("/proc/self/fd")) == before
