"""The project's own git settings have no effect, and nothing of it is written."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.session.snapshots.conftest import held, restore_all
from tests.support.git_repository import new_repository

HOSTILE_CONFIG = """
[core]
    fsmonitor = touch {marker}
    hooksPath = {hooks}
    pager = touch {marker}
    autocrlf = true
[filter "evil"]
    clean = touch {marker}
    smudge = touch {marker}
    process = touch {marker}
    required = true
[diff "evil"]
    textconv = touch {marker}; cat
    command = touch {marker}
[diff]
    external = touch {marker}
[merge "evil"]
    driver = touch {marker}
"""


def contents_of(folder: Path):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def snapshot_and_restore(project):
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("f.txt", "changed\r\n")
    (project.root / "g.txt").unlink()
    project.put("h.txt", "new\n")
    now = (await repository.take_snapshot()).tree
    restored = await restore_all(repository, before, now)
    assert restored.failed == ()
    return repository


async def test_snapshots_leave_git_folder_of_project_unchanged(project):
    new_repository(project.root)
    project.put("f.txt", "one\n")
    project.put("g.txt", "one\n")
    project.git("add", "f.txt")
    project.git("commit", "-qm", "x")
    project.put(".git/hooks/post-index-change", "#!/bin/sh\nexit 1\n", 0o755)
    before = contents_of(project.root / ".git")

    await snapshot_and_restore(project)

    assert contents_of(project.root / ".git") == before


async def test_snapshots_run_no_program_named_in_git_settings_or_attributes(
    project, home, monkeypatch
):
    marker, hooks = project.base / "marker", project.base / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    new_repository(project.root)
    settings = HOSTILE_CONFIG.format(marker=marker, hooks=hooks)
    config = project.root / ".git" / "config"
    config.write_text(config.read_text() + settings)
    (home / ".gitconfig").write_text(settings)
    project.put(
        ".gitattributes",
        "* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16\n",
    )
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(project.base / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {marker}")
    files = {"f.txt": b"one\r\ntwo\n$Id$\n", "g.txt": "ü\n".encode()}
    for name, content in files.items():
        project.put(name, content)

    await snapshot_and_restore(project)

    assert {name: (project.root / name).read_bytes() for name in files} == files
    assert not marker.exists()
    assert not (project.base / "elsewhere").exists()


async def test_git_program_inside_project_is_not_run(project):
    git = project.put("bin/git", f"#!/bin/sh\ntouch {project.base}/marker\n", 0o755)
    repository = project.open(path=os.pathsep.join([str(git.parent), os.environ["PATH"]]))

    assert await repository.take_snapshot() is not None
    assert not (project.base / "marker").exists()


async def test_snapshot_store_is_private_to_owner(project):
    project.put("secret", "s")
    repository = project.open()
    await repository.take_snapshot()

    assert stat.S_IMODE(repository.store.stat().st_mode) == 0o700
    assert stat.S_IMODE(repository.store.parent.stat().st_mode) == 0o700


async def test_snapshot_changes_include_files_changed_by_commands(project):
    project.put("f.txt", "one\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    await asyncio.to_thread(
        subprocess.run, ["sh", "-c", "sed -i s/one/two/ f.txt; echo 3 > new"], cwd=project.root
    )

    found = await repository.changes(before, (await repository.take_snapshot()).tree)

    assert [(one.path, one.kind) for one in found] == [("f.txt", "changed"), ("new", "added")]


async def test_folder_without_git_repository_has_snapshots(project):
    project.put("f.txt")

    assert await project.open().take_snapshot() is not None
    assert not (project.root / ".git").exists()


async def test_linked_work_tree_has_its_own_snapshot_store(project):
    new_repository(project.root)
    project.put("f.txt")
    project.git("add", ".")
    project.git("commit", "-qm", "x")
    project.put(".git/info/exclude", "private\n")
    linked = project.base / "linked"
    project.git("worktree", "add", "-q", str(linked))
    first = project.open().store
    project.root = linked
    project.put("private")

    repository = project.open()
    tree = (await repository.take_snapshot()).tree

    assert repository.store != first
    assert await held(repository, tree) == ["f.txt"]


@pytest.mark.parametrize("way", ["link", "parent"])
async def test_restore_does_not_write_through_symlinks(project, way):
    outside = project.base / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs\n")
    project.put("d/f", "then\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    (project.root / "d" / "f").unlink()
    if way == "link":
        (project.root / "d" / "f").symlink_to(outside / "f")
    else:
        (project.root / "d").rmdir()
        (project.root / "d").symlink_to(outside)
    await repository.take_snapshot()

    restored = await repository.restore(before, ["d/f"])

    assert (outside / "f").read_text() == "theirs\n"
    assert os.listdir(outside) == ["f"]
    if way == "link":
        assert (project.root / "d" / "f").read_text() == "then\n"
    else:
        assert [path for path, _ in restored.failed] == ["d/f"]


async def test_restore_rejects_paths_outside_project(project):
    project.put("f")
    repository = project.open()
    tree = (await repository.take_snapshot()).tree
    victim = project.base / "victim"
    victim.write_text("theirs\n")

    restored = await repository.restore(tree, ["../victim", str(victim), "d/../../victim"])

    assert victim.read_text() == "theirs\n"
    assert restored.done == ()
    assert len(restored.failed) == 3
