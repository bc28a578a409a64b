import os
import subprocess
from pathlib import Path

import pytest

from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.repository import SnapshotRepository

LIMIT = 64 * 1024
"""Files above this are too large here; the usual limit would make the tests slow."""


class Project:
    """A folder with files, and any number of open snapshot repositories."""

    def __init__(self, base: Path):
        self.base = base
        self.root = base / "project"
        self.root.mkdir()
        self.state = base / "state"
        self.notices: list[str] = []
        self.opened: list[SnapshotRepository] = []

    def open(self, session="s", *, path=None, clock=None, limit=LIMIT, **terms):
        more = {} if clock is None else {"clock": clock}
        repository = SnapshotRepository(
            self.state,
            self.root,
            session=session,
            path=os.environ["PATH"] if path is None else path,
            limits=SnapshotLimits(file_bytes=limit, **terms),
            on_notice=self.notices.append,
            **more,
        )
        self.opened.append(repository)
        return repository

    def put(self, name, content="x\n", mode=None):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        if mode is not None:
            file.chmod(mode)
        return file

    def git(self, *arguments, cwd=None):
        done = subprocess.run(
            ["git", "-c", "user.name=u", "-c", "user.email=u@example.com", *arguments],
            cwd=cwd or self.root,
            check=True,
            capture_output=True,
        )
        return done.stdout

    def files(self):
        """Every file below the project: content or link target, and executable bit."""
        return files_below(self.root)


def files_below(root: Path):
    found = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [
            *names,
            *(name for name in folders if os.path.islink(os.path.join(folder, name))),
        ]:
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, os.fsencode(root))
            if os.path.islink(path):
                found[shown] = ("link", os.readlink(path))
            elif os.path.isfile(path):
                content = Path(os.fsdecode(path)).read_bytes()
                found[shown] = ("file", content, os.access(path, os.X_OK) and _runs(path))
    return found


def _runs(path):
    return bool(os.stat(path).st_mode & 0o100)


async def restore_all(repository, tree, now):
    """Restore everything that differs from `now`."""
    changes = await repository.changes(now, tree)
    return await repository.restore(tree, [change.path for change in changes])


async def held(repository, tree):
    """The paths of a tree, by comparing it with the empty tree."""
    empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    return [change.path for change in await repository.changes(empty, tree)]


@pytest.fixture
async def project(tmp_path):
    made = Project(tmp_path)
    yield made
    for repository in made.opened:
        await repository.aclose()
