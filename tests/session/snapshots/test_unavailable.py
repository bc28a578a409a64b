"""Where snapshots are impossible, a notice says so, and nothing is left behind."""

import asyncio
import os

import pytest

from dirge_py.session.snapshots.capture import select_candidates
from dirge_py.session.snapshots.repository import NO_GIT


async def test_snapshots_without_git_are_unavailable_with_reason(project):
    empty = project.base / "bin"
    empty.mkdir()
    project.put("f")
    repository = project.open(path=str(empty))

    assert await repository.take_snapshot() is None
    assert repository.unavailable == NO_GIT
    assert not await repository.holds("1" * 40)
    assert not project.state.exists()


@pytest.mark.parametrize("which", ["home", "above-home", "root"])
async def test_snapshots_of_home_folder_and_its_parents_are_unavailable(
    project, home, which, monkeypatch
):
    project.root = {"home": home, "above-home": home.parent, "root": home.parent.parent}[which]
    if which == "root":
        project.root = type(home)("/")
    repository = project.open()

    assert await repository.take_snapshot() is None
    assert "more than one project" in repository.unavailable
    assert not project.state.exists()


async def test_project_with_too_many_files_is_unavailable_and_leaves_no_store(project):
    for number in range(40):
        project.put(f"f{number}")
    repository = project.open(files=30)

    assert await repository.take_snapshot() is None
    assert "more than 30 files" in repository.unavailable
    assert not repository.store.exists()


def test_files_beyond_the_limit_are_not_looked_at(project):
    names = [f"f{number}" for number in range(40)]
    for name in names:
        project.put(name)
    found = select_candidates(
        str(project.root), changed=(), others=names, limit_bytes=1000, most=30
    )
    assert found.present == names[:31]


async def test_snapshot_that_closing_stops_is_no_failure(project):
    project.put("f")
    repository = project.open()
    taking = asyncio.ensure_future(repository.take_snapshot())
    await asyncio.sleep(0)
    await repository.aclose()
    await taking
    assert repository.unavailable == ""


async def test_too_many_later_files_make_snapshots_unavailable_unless_ignored(project):
    for number in range(20):
        project.put(f"f{number}")
    repository = project.open(files=30)
    await repository.take_snapshot()
    for number in range(20):
        project.put(f"built/f{number}")
    project.put(".gitignore", "built\n")
    assert await repository.take_snapshot() is not None

    (project.root / ".gitignore").unlink()
    assert await repository.take_snapshot() is None
    assert "more than 30 files" in repository.unavailable


async def test_held_files_ignored_later_do_not_count_toward_file_limit(project):
    for number in range(20):
        project.put(f"built/f{number}")
    repository = project.open(files=30)
    await repository.take_snapshot()
    project.put(".gitignore", "built\n")
    for number in range(20):
        project.put(f"f{number}")

    assert await repository.take_snapshot() is not None


async def test_first_snapshot_that_takes_too_long_is_abandoned(project):
    project.put("f")
    repository = project.open(take_s=0.0)

    assert await repository.take_snapshot() is None
    assert "took longer than 0 seconds" in repository.unavailable
    assert not repository.store.exists()


async def test_pipe_named_gitignore_does_not_block_snapshots(project):
    os.mkfifo(project.root / ".gitignore")
    project.put("f")
    repository = project.open(take_s=1.0)

    assert await repository.take_snapshot() is None
    assert "took longer than 1 seconds" in repository.unavailable


async def test_unwritable_state_folder_makes_snapshots_unavailable_with_reason(project):
    project.put("f")
    project.state.write_text("a file\n")
    repository = project.open()

    assert await repository.take_snapshot() is None
    assert "Cannot store snapshots in" in repository.unavailable
