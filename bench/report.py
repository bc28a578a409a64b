"""Rows of the benchmarks: a median with its range, beside a floor and beside the last release.

The floor of a row is another row of the same run, or else a bare interpreter's start, so that the
ratio holds on every machine. `last_release.json` has the ratios of the last release by bench and
row; every bench writes its own there with `--save`.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LAST_RELEASE = Path(__file__).with_name("last_release.json")
SAVES = "--save" in sys.argv
if SAVES:
    sys.argv.remove("--save")


@dataclass(frozen=True)
class Usage:
    """What one process took."""

    cpu_ms: float
    wall_ms: float
    peak_mb: float


def run(
    command: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
) -> Usage:
    """Run a command to its end, without input. Exits if it fails."""
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    wall_ms = (time.perf_counter() - began) * 1000
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        why = output.decode(errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}: {why}")
    cpu_ms = (used.ru_utime + used.ru_stime) * 1000
    return Usage(cpu_ms, wall_ms, used.ru_maxrss / 1024)


@cache
def interpreter_ms() -> float:
    """CPU milliseconds of a Python that does nothing."""
    return statistics.median(run([sys.executable, "-c", "pass"]).cpu_ms for _ in range(7))


class Report:
    """The rows of one bench, printed one by one."""

    def __init__(self, bench: str) -> None:
        self._bench = bench
        self._medians: dict[str, float] = {}
        releases = json.loads(LAST_RELEASE.read_text("utf-8")) if LAST_RELEASE.exists() else {}
        self._before: dict[str, float] = releases.get(bench, {})
        self._now: dict[str, float] = {}

    def row(self, name: str, values: Sequence[float], unit: str = "ms", *, floor: str = "") -> None:
        """Print a row. `floor` names an earlier one; only milliseconds have the interpreter's."""
        median = self._medians[name] = statistics.median(values)
        base = self._medians[floor] if floor else interpreter_ms() if unit == "ms" else 1.0
        ratio = self._now[name] = median / base if base else 0.0
        before = self._before.get(name)
        columns = (
            f"{name:<58}{median:>10.2f} {unit:<3}",
            f"({min(values):.2f} to {max(values):.2f})".ljust(22),
            (f"{ratio:>8.2f} × {floor or 'interpreter'}" if base != 1 else "")[:42].ljust(42),
            f"{ratio / before:.2f} × last release" if before else "",
        )
        print(" ".join(columns).rstrip(), flush=True)

    def has(self, name: str) -> bool:
        return name in self._medians

    def save(self) -> None:
        """With `--save`, store the ratios for the next release to compare with."""
        if not SAVES:
            return
        releases = json.loads(LAST_RELEASE.read_text("utf-8")) if LAST_RELEASE.exists() else {}
        releases[self._bench] = {name: round(ratio, 3) for name, ratio in self._now.items()}
        LAST_RELEASE.write_text(json.dumps(releases, indent=1, ensure_ascii=False) + "\n", "utf-8")


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds that `work` takes in this process."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000
