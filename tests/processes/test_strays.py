"""Real processes that bear no sign of the command they came from."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from tests.processes.test_nothing_is_left import pids_in, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")

NAMELESS = "env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 100' >/dev/null 2>&1 & disown"
SUBSHELL = "(exec env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 100' &)"
WITH_CHILDREN = "env -i setsid sh -c 'echo $$ >> {pids}; sleep 100 & sleep 100; :' & disown"
READY = "until [ -s {pids} ]; do sleep 0.01; done"


def leaving(what: str, pids: Path) -> str:
    return f"{what}; {READY}; echo hi".format(pids=pids)


@pytest.mark.parametrize("what", [NAMELESS, SUBSHELL, WITH_CHILDREN])
async def test_none_survives_its_command(runner, tmp_path, is_alive, our_children, what):
    before = our_children()
    pids = tmp_path / "pids"
    finished = await runner.run(leaving(what, pids), cwd=str(tmp_path))

    assert (finished.output.head, finished.exit_code) == (b"hi\n", 0)
    assert finished.stopped >= 1
    assert len(pids_in(pids)) == 1 and not is_alive(pids_in(pids)[0])
    assert our_children() <= before


async def test_none_survives_a_timeout(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    command = leaving(NAMELESS, pids) + "; sleep 100"
    await runner.run(command, cwd=str(tmp_path), timeout_s=0.5)

    assert pids_in(pids) and not any(map(is_alive, pids_in(pids)))


async def test_none_survives_kill_all(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    run = asyncio.ensure_future(
        runner.run(leaving(NAMELESS, pids) + "; sleep 100", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(pids))
    runner.kill_all()

    assert not any(map(is_alive, pids_in(pids)))
    await run


def test_none_survives_an_event_loop_that_is_torn_down(tmp_path, is_alive):
    pids = tmp_path / "pids"

    async def leave_while_it_runs() -> None:
        command = leaving(NAMELESS, pids) + "; sleep 100"
        run = asyncio.ensure_future(Runner(EnvironmentPolicy()).run(command, cwd=str(tmp_path)))
        await until(lambda: pids_in(pids))
        assert not run.done()

    asyncio.run(leave_while_it_runs())

    assert not any(map(is_alive, pids_in(pids)))


async def test_while_another_command_runs_it_may_be_that_ones(runner, tmp_path, is_alive):
    pids = tmp_path / "pids"
    gate = "until [ -e gate ]; do sleep 0.01; done; echo done"
    slow = asyncio.ensure_future(
        runner.run(leaving(NAMELESS, pids) + f"; {gate}", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(pids))
    await runner.run("true", cwd=str(tmp_path))
    was_spared = is_alive(pids_in(pids)[0])
    (tmp_path / "gate").touch()

    assert (await slow).output.head == b"hi\ndone\n"
    assert was_spared and not is_alive(pids_in(pids)[0])


async def test_none_of_a_command_survives_it_while_others_go_on(runner, tmp_path, is_alive):
    foreign = tmp_path / "foreign"
    gate = "until [ -e gate ]; do sleep 0.01; done"
    other = asyncio.ensure_future(
        runner.run(f"{leaving(NAMELESS, foreign)}; {gate}", cwd=str(tmp_path))
    )
    await until(lambda: pids_in(foreign))

    # A machine may be too busy to mark a command in time: then the end of the last one counts.
    for attempt in range(3):
        own = tmp_path / f"own{attempt}"
        finished = await runner.run(leaving(NAMELESS, own), cwd=str(tmp_path))
        if finished.stopped:
            break

    assert finished.stopped == 1
    assert not is_alive(pids_in(own)[0]) and is_alive(pids_in(foreign)[0])
    (tmp_path / "gate").touch()
    assert (await other).stopped == 1 + attempt
    assert not any(is_alive(pids_in(path)[0]) for path in [foreign, *tmp_path.glob("own*")])
    assert not is_alive(pids_in(foreign)[0])


async def test_the_dead_are_reaped_while_others_go_on(runner, tmp_path, our_children):
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
def others(tmp_path):
    """Starts processes that are no business of ours, and ends them."""
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
async def test_what_others_started_before_a_command_is_spared(
    runner, tmp_path, others, own_session
):
    other = others("sleep", "100", own_session=own_session)
    await runner.run("true", cwd=str(tmp_path))

    assert other.poll() is None


async def test_what_others_start_during_a_command_is_spared_and_its_exit_code_too(
    runner, tmp_path, others
):
    command = "touch began; until [ -e gate ]; do sleep 0.01; done"
    run = asyncio.ensure_future(runner.run(command, cwd=str(tmp_path)))
    await until((tmp_path / "began").exists)
    goes_on = others("sleep", "100")
    has_ended = others("sh", "-c", "touch gate; exit 7")
    await run

    assert goes_on.poll() is None
    assert has_ended.wait() == 7
