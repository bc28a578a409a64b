"""Commands of a program that was killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from dirge_py.processes.leftovers import Leftover, end, leftovers_of

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


def commands(leftovers: list[Leftover]) -> list[str]:
    return sorted(one.command for one in leftovers if one.command.startswith("sleep"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_outlives_a_killed_program_is_found_and_ended(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment)
    try:
        until((tmp_path / "started").exists)
        assert leftovers_of(program.pid) == ()
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()

    found = list(leftovers_of(program.pid))
    end(found)

    assert commands(found) == ["sleep 301", "sleep 302"]
    until(lambda: not leftovers_of(program.pid))
