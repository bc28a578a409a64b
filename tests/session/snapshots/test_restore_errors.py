"""A path that can't be restored is reported, and the others are restored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.types.errors import SessionError
from tests.session.snapshots.conftest import restore_all
from tests.support.requirements import as_nobody

ROOT = Path(__file__).parents[3]


async def test_file_is_not_restored_over_folder_that_has_contents(project):
    project.put(".gitignore", "ignored\n")
    project.put("f", "then\n")
    project.put("g", "then\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    (project.root / "f").unlink()
    project.put("f/ignored", "mine\n")
    project.put("g", "now\n")

    restored = await restore_all(repository, before, (await repository.take_snapshot()).tree)

    assert restored.done == ("g",)
    assert [(path, "a folder is in the way" in why) for path, why in restored.failed] == [
        ("f", True)
    ]
    assert (project.root / "f" / "ignored").read_text() == "mine\n"


async def test_only_chosen_paths_are_restored(project):
    project.put("f", "then\n")
    project.put("g", "then\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("f", "now\n")
    project.put("g", "now\n")
    await repository.take_snapshot()

    restored = await repository.restore(before, ["f"])

    assert restored.done == ("f",)
    assert (project.root / "g").read_text() == "now\n"


async def test_restored_file_keeps_its_other_permissions(project):
    project.put("f", "then\n", 0o600)
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("f", "now\n", 0o700)

    await restore_all(repository, before, (await repository.take_snapshot()).tree)

    assert (project.root / "f").stat().st_mode & 0o777 == 0o600


async def test_restoring_unknown_tree_fails_and_changes_no_file(project):
    project.put("f", "now\n")
    repository = project.open()
    await repository.take_snapshot()

    with pytest.raises(SessionError, match="no longer kept"):
        await repository.restore("0" * 40, ["f"])
    with pytest.raises(SessionError, match="no longer kept"):
        await repository.changes("0" * 40, "--output=f")
    assert (project.root / "f").read_text() == "now\n"
    assert os.listdir(project.root) == ["f"]


RESTORE = """
import asyncio, os, sys
from pathlib import Path
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.session.snapshots.capture import SnapshotLimits
from tests.session.snapshots.conftest import restore_all

async def main():
    base = Path(sys.argv[1])
    (base / "project" / "d").mkdir(parents=True)
    for name in ("f", "d/g", "h"):
        (base / "project" / name).write_text("then\\n")
    repository = SnapshotRepository(
        base / "state", base / "project", session="s", path=os.environ["PATH"],
        limits=SnapshotLimits(file_bytes=1 << 20),
    )
    before = (await repository.take_snapshot()).tree
    for name in ("f", "d/g", "h"):
        (base / "project" / name).write_text("now\\n")
    now = (await repository.take_snapshot()).tree
    (base / "project" / "d").chmod(0o500)
    (base / "project" / "h").chmod(0o400)
    restored = await restore_all(repository, before, now)
    print(restored.done, [path for path, why in restored.failed])
    await repository.aclose()

asyncio.run(main())
"""


def test_read_only_paths_are_reported_and_other_paths_are_restored(open_tmp_path):
    open_tmp_path.chmod(0o777)

    done = subprocess.run(
        [*as_nobody(), sys.executable, "-c", RESTORE, str(open_tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(open_tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.strip() == "('f',) ['d/g', 'h']", done.stderr
    assert (open_tmp_path / "project" / "f").read_text() == "then\n"
