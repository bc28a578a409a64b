"""A child process for tests to kill: it takes or restores snapshots of `base`/project forever.

`what` is `take` or `restore`. Prints `at TREE` right after each snapshot it took.
"""

import asyncio
import os
from pathlib import Path

from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.repository import SnapshotRepository

FILES = 40
SIZE = 20_000


def fill(root, letter):
    for number in range(FILES):
        (root / f"f{number}").write_bytes(letter.encode() * SIZE)


def work(base, what):
    asyncio.run(_work(Path(base), what))


async def _work(base, what):
    root = base / "project"
    repository = SnapshotRepository(
        base / "state",
        root,
        session=f"s{os.getpid()}",
        path=os.environ["PATH"],
        limits=SnapshotLimits(file_bytes=1 << 20),
    )
    trees = {}
    for letter in "ab":
        fill(root, letter)
        trees[letter] = (await repository.take_snapshot()).tree
        os.write(1, f"at {trees[letter]}\n".encode())
    number = 0
    while True:
        number += 1
        if what == "take":
            (root / f"f{number % FILES}").write_bytes(os.urandom(1000))
            snapshot = await repository.take_snapshot()
            if snapshot is None:
                os.write(1, f"no {repository.unavailable}\n".encode())
                return
            os.write(1, f"at {snapshot.tree}\n".encode())
        else:
            before, after = ("a", "b") if number % 2 else ("b", "a")
            changes = await repository.changes(trees[after], trees[before])
            os.write(1, b"go\n")
            await repository.restore(trees[before], [change.path for change in changes])
