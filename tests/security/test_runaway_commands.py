"""Commands that flood, and commands that do not end."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.types.abort import AbortSignal
from tests.security.sizes import ASKED, count, size
from tests.support.requirements import as_nobody

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

ROOT = Path(__file__).parents[2]
MEMORY_BYTES = 64 * 1024 * 1024

# In a process of its own, whose largest size the kernel tells.
RUN_BASH = """
import asyncio, json, resource, sys
from dirge_py.types.abort import AbortSignal
from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.tools.base import ToolServices, ToolContext
from dirge_py.tools.bash import TOOL, BashArgs
from pathlib import Path

def largest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main(folder, *commands):
    files = Workspace([folder], folder)
    services = ToolServices(files=files, processes=Runner(EnvironmentPolicy()),
                        outputs=OutputStore(Path(folder) / "output"))
    ctx = ToolContext(cwd=folder, services=services, call_id="c", signal=AbortSignal(),
                      on_update=lambda partial: None)
    await TOOL.run(BashArgs(command="true"), ctx)
    before = largest()
    for command in commands:
        result = await TOOL.run(BashArgs(command=command, timeout=600), ctx)
        print(json.dumps([result.text, result.details["outcome"], largest() - before]))

asyncio.run(main(*sys.argv[1:]))
"""

SECONDS = size(2, 60)
FLOODS = {
    "10 MB": "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last",
    "1 GB": f"echo first; head -c {size(50, 1000)}000000 /dev/zero; echo; echo last",
    "short lines": f"echo first; yes | head -n {size(200_000, 1_000_000)}; echo last",
    "one line of 50 MB": "echo first; head -c 50000000 /dev/zero | tr '\\0' y; echo; echo last",
    "no text": f"echo first; head -c {size(5, 50)}000000 /dev/urandom; echo; echo last",
    "10,000 lines a second": f"echo first; end=$((SECONDS + {SECONDS})); while [ $SECONDS -lt $end"
    " ]; do seq 1 2000; sleep 0.2; done; echo last",
}


def test_flood_of_output_uses_bounded_memory_and_keeps_both_ends(tmp_path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", RUN_BASH, str(tmp_path), *FLOODS.values()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )

    results = [json.loads(line) for line in program.stdout.split("\n") if line]
    wrong = {
        name: (outcome, memory, text[:80])
        for name, (text, outcome, memory) in zip(FLOODS, results, strict=True)
        if outcome != "ok"
        or memory > MEMORY_BYTES
        or not (text.startswith("first\n") and text.endswith("\nlast"))
        or len(text) > 40_000
    }
    count("floods of output", len(results), len(wrong), "wrong")
    assert wrong == {}


STUBBORN = {
    "ignores SIGTERM": "trap '' TERM INT HUP; {note}; while :; do sleep 0.05; done",
    "double-forks": "(({note}; exec sleep 100) & ) ; sleep 100; true",
    "starts its own session": "setsid -f bash -c '{note}; exec sleep 100'; sleep 100; true",
    "clears its environment": "env -i setsid -f bash -c '{note}; exec sleep 100'; sleep 100; true",
    "stops itself (SIGSTOP)": "{note}; kill -STOP $$",
    "all together": 'env -i setsid -f bash -c \'trap "" TERM INT HUP; {note}; '
    "while :; do sleep 0.05; done'; sleep 100; true",
}
LEAVING = {
    "keeps the pipe open": "(exec sleep 100) & {note_of_last}; echo done",
    "keeps the pipe open and ignores SIGTERM": "(trap '' TERM; while :; do sleep 0.05; done) & "
    "{note_of_last}; echo done",
    "starts its own session": "setsid -f bash -c '{note}; exec sleep 100'; {ready}; echo done",
    "clears its environment": "env -i setsid -f bash -c '{note}; exec sleep 100'; {ready}; "
    "echo done",
}
WORDS = {
    "note": "echo $BASHPID >> pids",
    "note_of_last": "echo $! >> pids",
    "ready": "until [ -s pids ]; do sleep 0.01; done",
}


def noted(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def running(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        if stat.rpartition(b")")[2].split()[0] != b"Z":
            found.append(pid)
    return found


async def aborted(command: str, folder: Path, enough: int = 1) -> tuple[Any, float]:
    """How it ended, and the seconds from the abort."""
    signal = AbortSignal()
    run = asyncio.ensure_future(
        Runner(EnvironmentPolicy()).run(command, cwd=str(folder), signal=signal)
    )
    async with asyncio.timeout(20):
        while len(noted(folder)) < enough:  # noqa: ASYNC110 - processes set no event of ours
            await asyncio.sleep(0)
    began = time.monotonic()
    signal.abort()
    return await run, time.monotonic() - began


@pytest.mark.parametrize("kind", STUBBORN)
async def test_no_process_is_left_three_seconds_after_an_abort(tmp_path: Path, kind: str) -> None:
    finished, took = await aborted(STUBBORN[kind].format(**WORDS), tmp_path)
    left = running(noted(tmp_path))

    count("stubborn commands", 1, len(left), "left")
    assert (finished.aborted, left) == (True, [])
    assert took < 3


@pytest.mark.parametrize("kind", LEAVING)
async def test_no_process_is_left_half_a_second_after_the_end(tmp_path: Path, kind: str) -> None:
    command = f"{LEAVING[kind].format(**WORDS)}; touch {tmp_path}/over"
    finished = await Runner(EnvironmentPolicy()).run(command, cwd=str(tmp_path))
    took = time.time() - (tmp_path / "over").stat().st_mtime
    left = running(noted(tmp_path))

    count("commands that leave something", 1, len(left), "left")
    assert (finished.exit_code, finished.output.head, left) == (0, b"done\n", [])
    assert finished.stopped >= 1
    # Beside other tests the machine may be busy; alone it has to be as fast as it says.
    assert took < (0.5 if ASKED else 3.0)


async def test_fork_bomb_is_ended_at_once(tmp_path: Path) -> None:
    most = size(60, 200)
    # The file is opened by us: that user cannot reach it.
    storm = f"ulimit -u {most}; s() {{ echo $BASHPID >&3; s & s & setsid sleep 9 & wait; }}; s"
    words = " ".join([*as_nobody(), "bash", "-c", f"'{storm}'", "3>>pids", "2>/dev/null"])
    # Others of that user would be counted too.
    _finished, took = await aborted(words, tmp_path, enough=most // 2)
    left = running(noted(tmp_path))

    count("storms of forks", 1, len(left), "left")
    assert left == []
    assert took < 3
