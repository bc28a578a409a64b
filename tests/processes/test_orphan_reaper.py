"""Real processes that carry no marker of their command."""

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.types.abort import AbortSignal
from tests.processes.test_process_cleanup import pids_in, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")

ESCAPED = "(setsid sh -c 'echo $$ >> {pids}; exec sleep 100' >/dev/null 2>&1 &)"
UNMARKED = "env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 100' >/dev/null 2>&1 & disown"
SUBSHELL = "(exec env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 100' &)"
WITH_CHILDREN = "env -i setsid sh -c 'echo $$ >> {pids}; sleep 100 & sleep 100; :' & disown"
CHAIN = """
import os, sys, time
end = time.monotonic() + 5
if os.fork():
    os._exit(0)
os.closerange(0, 3)
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    with open(sys.argv[1], "w") as file:
        file.write(f"{os.getpid()}\\n")
time.sleep(100)
"""
FIRST_THREAD_ENDS = """
import ctypes, os, sys, threading, time
if os.fork():
    os._exit(0)
os.setsid()
def stay():
    with open(sys.argv[1], "w") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(100)
threading.Thread(target=stay).start()
ctypes.CDLL(None).pthread_exit(None)
"""
READY = "until [ -s {pids} ]; do sleep 0.01; done"


def command_leaving(what: str, pids: Path) -> str:
    return f"{what}; {READY}; echo hi".format(pids=pids)


@pytest.mark.parametrize("what", [UNMARKED, SUBSHELL, WITH_CHILDREN])
async def test_orphan_without_marker_is_killed_with_its_command(
    runner, tmp_path, is_alive, our_children, what
):
    before = our_children()
    pids = tmp_path / "pids"
    finished = await runner.run(command_leaving(what, pids), cwd=str(tmp_path))

    assert (finished.output.head, finished.exit_code) == (b"hi\n", 0)
    assert finished.stopped >= 1
    assert len(pids_in(pids)) == 1 and not is_alive(pids_in(pids)[0])
    assert our_children() <= before


def program(source: str, *arguments: object, bare: bool = True) -> list[str]:
    """A command that runs Python source in an empty or the given environment."""
    words = [sys.executable, "-I", "-S", "-c", source, *map(str, arguments)]
    return ["/usr/bin/env", "-i", *words] if bare else words


@pytest.mark.parametrize("bare", [True, False])
async def test_fork_chain_is_killed_with_its_command(runner, tmp_path, our_children, bare):
    before = our_children()
    command = program(CHAIN, tmp_path / "pids", bare=bare)
    finished = await runner.run(command, cwd=str(tmp_path))

    # The last process of a chain is our child, dead or alive.
    assert our_children() <= before
    assert (finished.exit_code, finished.left) == (0, ())


async def test_fork_chain_is_killed_on_abort(runner, tmp_path, our_children):
    before = our_children()
    pids = tmp_path / "pids"
    words = program(CHAIN, pids)
    signal = AbortSignal()
    run = asyncio.ensure_future(
        runner.run(f"{shlex.join(words)}; sleep 100; :", cwd=str(tmp_path), signal=signal)
    )
    await until(lambda: pids_in(pids))
    signal.abort()

    assert (await run).left == ()
    assert our_children() <= before


async def test_marked_fork_chain_is_killed_while_another_command_runs(
    runner, tmp_path, our_children
):
    gate = "until [ -e gate ]; do sleep 0.01; done; echo done"
    other = asyncio.ensure_future(runner.run(f"touch began; {gate}", cwd=str(tmp_path)))
    await until((tmp_path / "began").exists)
    before = our_children()
    words = program(CHAIN, tmp_path / "pids", bare=False)
    finished = await runner.run(words, cwd=str(tmp_path))
    left = our_children() - before
    (tmp_path / "gate").touch()

    assert (await other).output.head == b"done\n"
    assert (finished.left, left) == ((), set())


async def test_result_names_unmarked_orphan_that_may_belong_to_running_command(
    runner, tmp_path, is_alive
):
    gate = "until [ -e gate ]; do sleep 0.01; done; echo done"
    other = asyncio.ensure_future(runner.run(f"touch began; {gate}", cwd=str(tmp_path)))
    await until((tmp_path / "began").exists)
    pids = tmp_path / "pids"
    finished = await runner.run(command_leaving(UNMARKED, pids), cwd=str(tmp_path))
    innocent = await runner.run(":", cwd=str(tmp_path))
    was_alive = is_alive(pids_in(pids)[0])
    (tmp_path / "gate").touch()

    assert (await other).output.head == b"done\n"
    assert was_alive and finished.left == (pids_in(pids)[0],)
    assert innocent.left == ()
    assert not is_alive(pids_in(pids)[0])


async def test_process_whose_main_thread_ended_is_killed(runner, tmp_path, has_threads):
    pids = tmp_path / "pids"
    words = program(FIRST_THREAD_ENDS, pids)
    finished = await runner.run(
        f"{shlex.join(words)}; {READY.format(pids=pids)}", cwd=str(tmp_path)
    )

    assert finished.stopped == 1
    assert pids_in(pids) and not has_threads(pids_in(pids)[0])


async def test_orphan_without_marker_is_killed_on_timeout(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    command = command_leaving(UNMARKED, pids) + "; sleep 100"
    # A busy machine may need longer to start the orphan.
    for timeout_s in (0.5, 5, 30):
        await runner.run(command, cwd=str(tmp_path), timeout_s=timeout_s)
        if pids_in(pids):
            break

    assert pids_in(pids) and not any(map(is_alive, pids_in(pids)))


def test_orphan_without_marker_is_killed_when_event_loop_is_closed(tmp_path, is_alive):
    pids = tmp_path / "pids"

    async def leave_while_it_runs() -> None:
        command = command_leaving(UNMARKED, pids) + "; sleep 100"
        run = asyncio.ensure_future(Runner(EnvironmentPolicy()).run(command, cwd=str(tmp_path)))
        await until(lambda: pids_in(pids))
        assert not run.done()

    asyncio.run(leave_while_it_runs())

    assert not any(map(is_alive, pids_in(pids)))


async def test_orphan_without_marker_is_spared_while_another_command_runs(
    runner, tmp_path, is_alive
):
    pids = tmp_path / "pids"
    gate = "until [ -e gate ]; do sleep 0.01; done; echo done"
    slow = asyncio.ensure_future(
        runner.run(command_leaving(UNMARKED, pids) + f"; {gate}", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(pids))
    await runner.run("true", cwd=str(tmp_path))
    was_spared = is_alive(pids_in(pids)[0])
    (tmp_path / "gate").touch()

    assert (await slow).output.head == b"hi\ndone\n"
    assert was_spared and not is_alive(pids_in(pids)[0])


async def test_orphan_with_marker_is_killed_while_another_command_runs(runner, tmp_path, is_alive):
    foreign = tmp_path / "foreign"
    gate = "until [ -e gate ]; do sleep 0.01; done"
    other = asyncio.ensure_future(
        runner.run(f"{command_leaving(ESCAPED, foreign)}; {gate}", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(foreign))
    own = tmp_path / "own"
    finished = await runner.run(command_leaving(ESCAPED, own), cwd=str(tmp_path))

    assert finished.stopped == 1
    assert not is_alive(pids_in(own)[0]) and is_alive(pids_in(foreign)[0])
    (tmp_path / "gate").touch()
    assert (await other).stopped == 1
    assert not is_alive(pids_in(foreign)[0])


async def test_zombies_are_reaped_while_another_command_runs(runner, tmp_path, our_children):
    gate = "until [ -e gate ]; do sleep 0.01; done"
    other = asyncio.ensure_future(runner.run(f"touch began; {gate}", cwd=str(tmp_path)))
    await until((tmp_path / "began").exists)
    before = our_children()

    await runner.run(
        "(env -i setsid true &); env -i setsid sh -c 'exit 3' & wait", cwd=str(tmp_path)
    )

    assert our_children() <= before
    (tmp_path / "gate").touch()
    await other


@pytest.fixture
def has_threads():
    """Whether any thread of a process runs, even if the first one has ended."""

    def check(pid: int) -> bool:
        threads = Path(f"/proc/{pid}/task").glob("*/stat")
        states = [each.read_text().rpartition(")")[2].split()[0] for each in threads]
        return any(state not in ("Z", "X") for state in states)

    return check


@pytest.fixture
def others(tmp_path):
    """Starts processes that dirge must not touch, and ends them."""
    started = []

    def start(*command: str, own_session: bool = False) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=own_session)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("own_session", [True, False])
async def test_child_started_before_command_is_spared(runner, tmp_path, others, own_session):
    other = others("sleep", "100", own_session=own_session)
    await runner.run("true", cwd=str(tmp_path))

    assert other.poll() is None


async def test_child_started_outside_runner_is_spared_and_keeps_exit_code(runner, tmp_path, others):
    command = "touch began; until [ -e gate ]; do sleep 0.01; done"
    run = asyncio.ensure_future(runner.run(command, cwd=str(tmp_path)))
    await until((tmp_path / "began").exists)
    still_running = others("sleep", "100")
    ended = others("sh", "-c", "touch gate; exit 7")
    await run

    assert still_running.poll() is None
    assert ended.wait() == 7
