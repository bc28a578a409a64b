"""Commands of a program that was killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.processes.process_tree import AbandonedProcess, abandoned_processes, kill_abandoned

PATIENCE_S = 20.0
PROGRAM = """
import asyncio
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner

async def main():
    runner = Runner(EnvironmentPolicy(()))
    command = "sleep 301 & setsid sleep 302 & echo started > started; wait"
    await runner.run(command, cwd=".", timeout_s=300)

asyncio.run(main())
"""


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        os.sched_yield()


def commands(leftovers: list[AbandonedProcess]) -> list[str]:
    return sorted(one.command for one in leftovers if one.command.startswith("sleep"))


def sleeping(folder: Path) -> list[str]:
    """The `sleep` processes in `folder`, once they have replaced the shell's fork."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "cmdline").read_bytes().startswith(b"sleep\0"):
                found += [place.name] if (place / "cwd").readlink() == folder else []
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_of_killed_program_are_found_and_killed(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment)
    try:
        until((tmp_path / "started").exists)
        until(lambda: len(sleeping(tmp_path)) == 2)
        assert abandoned_processes(program.pid) == ()
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()

    found = list(abandoned_processes(program.pid))
    kill_abandoned(found)

    assert commands(found) == ["sleep 301", "sleep 302"]
    until(lambda: not abandoned_processes(program.pid))
