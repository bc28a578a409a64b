import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    runner = Runner(EnvironmentPolicy())
    yield runner
    await runner.shutdown()


@pytest.fixture
def outputs(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "output")


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    def check(pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                return stat.read().rpartition(b")")[2].split()[0] != b"Z"
        except OSError:
            return False

    return check


@pytest.fixture
def our_children() -> Callable[[], set[int]]:
    """Every child of this process, including zombies."""

    def children() -> set[int]:
        found = set()
        for name in os.listdir("/proc"):
            if name.isdecimal():
                try:
                    with open(f"/proc/{name}/stat", "rb") as stat:
                        fields = stat.read().rpartition(b")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) == os.getpid():
                    found.add(int(name))
        return found

    return children
