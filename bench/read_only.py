"""What the read-only profile costs: `true` through the runner, with and without it, in turns.

`python bench/read_only.py [--rounds 5] [--commands 200]`. Prints medians in milliseconds.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from report import Report

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile

WITHOUT = "a command without the profile"


async def measured(runner: Runner, cwd: str, commands: int, *, is_read_only: bool) -> list[float]:
    found = []
    for _ in range(commands):
        begun = time.perf_counter()
        runner.prepare("call", {}, is_read_only=is_read_only)
        await runner.run("true", cwd=cwd, call_id="call")
        found.append(time.perf_counter() - begun)
    return found


async def main(rounds: int, commands: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        profile = ReadOnlyProfile(lambda: [folder], str(Path.home()))
        runner = Runner(EnvironmentPolicy(), read_only=profile)
        begun = time.perf_counter()
        print(f"mechanism: {profile.mechanism}, found in {_ms(time.perf_counter() - begun)}")
        await measured(runner, folder, 20, is_read_only=True)
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for is_read_only in times:
                times[is_read_only] += await measured(
                    runner, folder, commands, is_read_only=is_read_only
                )
        report = Report("read_only")
        for is_read_only, name in {False: WITHOUT, True: "a read-only command"}.items():
            taken = [each * 1000 for each in times[is_read_only]]
            report.row(name, taken, floor=WITHOUT if is_read_only else "")
        report.save()
        profile.close()
        await runner.shutdown()


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commands", type=int, default=200)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rounds, arguments.commands))
