"""What snapshots of the working tree cost, beside `git status` of the same tree.

    python bench/snapshots.py [--rounds N] [--files N]

Rows: the first snapshot of a tree of 50,000 files, one with nothing changed, one with one file
changed, whether a tree is whole, what differs between two, and putting one file back. A figure is a
median with its range; a ratio is to `git status` in a repository of the same files whose index is
warm. Nothing here fails: it prints.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from report import Report

from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.repository import SnapshotRepository

FILES_A_FOLDER = 100


class Timed:
    """Times of one row, in seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.times: list[float] = []

    async def add(self, work: Callable[[], Awaitable[Any]]) -> Any:
        began = time.perf_counter()
        result = await work()
        self.times.append(time.perf_counter() - began)
        return result


def make_tree(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"d{number // FILES_A_FOLDER % 20}" / f"e{number // FILES_A_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"# {number}\n" + "value = 1\n" * 40)


def git(root: Path, *arguments: str) -> None:
    name = ("-c", "user.name=b", "-c", "user.email=b@example.com")
    subprocess.run(["git", *name, *arguments], cwd=root, check=True, capture_output=True)


async def measure(base: Path, files: int, rounds: int) -> list[Timed]:
    root = base / "project"
    make_tree(root, files)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    git(root, "status")
    rows = [
        Timed("git status"),
        Timed("first"),
        Timed("unchanged"),
        Timed("one file changed"),
        Timed("whole?"),
        Timed("changes"),
        Timed("restore one file"),
    ]
    status, first, unchanged, changed, whole, changes, restore = rows
    one = next(root.glob("d*/e*/*.py"))
    for number in range(rounds):
        shutil.rmtree(base / "state", ignore_errors=True)
        repository = SnapshotRepository(
            base / "state",
            root,
            session="bench",
            path=os.environ["PATH"],
            limits=SnapshotLimits(file_bytes=8 << 20, take_s=600),
        )
        await status.add(partial(asyncio.to_thread, git, root, "status"))
        before = await first.add(repository.take_snapshot)
        await unchanged.add(repository.take_snapshot)
        one.write_text(f"{number}\n")
        after = await changed.add(repository.take_snapshot)
        await whole.add(partial(repository.holds, before.tree))
        found = await changes.add(partial(repository.changes, after.tree, before.tree))
        paths = [change.path for change in found]
        await restore.add(partial(repository.restore, before.tree, paths))
        await repository.aclose()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=50_000)
    options = parser.parse_args()
    # Not below the home folder of somebody: a project there may be a part of another.
    with tempfile.TemporaryDirectory() as base:
        rows = asyncio.run(measure(Path(base), options.files, options.rounds))
    print(f"{options.files:,} files, {options.rounds} rounds")
    report = Report("snapshots")
    for row in rows:
        floor = "" if row is rows[0] else rows[0].name
        report.row(row.name, [each * 1000 for each in row.times], floor=floor)
    report.save()


if __name__ == "__main__":
    main()
