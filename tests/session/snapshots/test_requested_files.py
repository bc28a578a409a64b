"""Ignored or large files that tools change: kept in snapshots, or copied."""

import os
from pathlib import Path

import pytest

from dirge_py.session.snapshots.originals import COPIES_LIST, FileCopies
from dirge_py.types.errors import FileError

from .conftest import LIMIT

NAMES = ("b.py", "a/b.py", "a/a/b.py", "b.pyi", "x" * 200, "y" * 60 + "/" + "x" * 200, "ü b", "-b")


async def test_holds_file_and_unheld_distinguish_held_and_holdable_files(project):
    project.put(".gitignore", "*.log\n")
    for name in NAMES:
        project.put(name)
    for name in ("a.log", "nested/.git/HEAD", "nested/f", ".git/config", ".dirge/x"):
        project.put(name)
    project.put("large", b"x" * (LIMIT + 1))
    snapshots = project.open()
    await snapshots.take_snapshot()

    def held(name: str) -> bool:
        return snapshots.holds_file(f"{project.root}/{name}")

    assert [name for name in NAMES if not held(name)] == []
    others = ("a.log", "large", "nested/f", ".git/config", ".dirge/x", "py", "a", "missing")
    assert [name for name in others if held(name)] == []
    reals = [f"{project.root}/{name}" for name in ("a.log", "large", "nested/f", ".git/config")]
    assert snapshots.unheld([*reals, "/etc/passwd"]) == reals[:2]


async def test_ignored_or_large_file_asked_for_is_held_in_later_snapshots(project):
    project.put(".gitignore", "*.log\n")
    log = project.put("a.log", "one\n")
    large = project.put("large", b"x" * (LIMIT + 1))
    snapshots = project.open()
    before = await snapshots.take_snapshot()

    asked = await snapshots.take_snapshot([str(log), str(large)])
    log.write_text("two\n")
    large.unlink()
    after = await snapshots.take_snapshot()
    changes = await snapshots.changes(asked.tree, after.tree)

    assert (before.held, asked.held, after.held) == ((), ("a.log", "large"), ())
    assert [(each.path, each.kind) for each in changes] == [
        ("a.log", "changed"),
        ("large", "removed"),
    ]
    await snapshots.restore(asked.tree, ["a.log", "large"])
    assert (log.read_text(), large.stat().st_size) == ("one\n", LIMIT + 1)
    assert (await snapshots.take_snapshot()).tree == asked.tree


async def test_asked_file_that_cannot_be_held_does_not_break_snapshots(project):
    project.put(".gitignore", "out/\n")
    project.put("a")
    kept = project.put("out/f")
    snapshots = project.open()
    taken = await snapshots.take_snapshot(
        [str(kept), str(project.root), "/etc/passwd", f"{kept}/x"]
    )
    assert taken.held == ("out/f",)

    kept.unlink()
    kept.parent.rmdir()
    (project.base / "elsewhere").mkdir()
    (project.base / "elsewhere/f").write_text("theirs\n")
    kept.parent.symlink_to(project.base / "elsewhere")
    project.put("a", "changed\n")
    after = await snapshots.take_snapshot()

    changes = await snapshots.changes(taken.tree, after.tree)
    assert {each.path: each.kind for each in changes}["a"] == "changed"
    assert not snapshots.unavailable


async def test_restoring_file_mode_does_not_change_mode_of_hard_link(project):
    script = project.put("run.sh", "echo\n", 0o755)
    snapshots = project.open()
    before = await snapshots.take_snapshot()
    script.chmod(0o644)
    os.link(script, project.base / "other")
    await snapshots.take_snapshot()

    await snapshots.restore(before.tree, ["run.sh"])

    assert script.stat().st_mode & 0o111
    assert not (project.base / "other").stat().st_mode & 0o111


def copies(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.name != COPIES_LIST]


def test_file_copies_are_private_and_made_once(tmp_path):
    kept = FileCopies(tmp_path / "copies", days=30)

    first = kept.keep("/somewhere/a b", b"one")

    assert kept.keep("/somewhere/a b", b"one") == first
    assert kept.keep("/somewhere/a b", b"two") != first
    assert sorted(copies(kept.folder)) == [b"one", b"two"]
    assert first.name.endswith("-a_b")
    assert (kept.folder.stat().st_mode & 0o777, first.stat().st_mode & 0o777) == (0o700, 0o600)
    assert (kept.folder / COPIES_LIST).read_text().count('"path": "/somewhere/a b"') == 2


def test_old_file_copies_are_deleted_and_oldest_first_when_too_large(tmp_path):
    now = 1_000_000_000.0
    kept = FileCopies(tmp_path, days=10, max_bytes=25, clock=lambda: now)
    kept.keep("/old", b"0")
    for name in ("1", "2", "3"):
        now += 5 * 24 * 60 * 60
        kept.keep(f"/{name}", name.encode() * 10)
    assert copies(tmp_path) == [b"2" * 10, b"3" * 10]

    kept.keep("/large", b"x" * 100)

    assert copies(tmp_path) == [b"x" * 100]


def test_file_copy_that_cannot_be_written_raises_error_naming_file(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(FileError, match="/a was not changed: it could not be copied to"):
        FileCopies(tmp_path / "file" / "copies", days=1).keep("/a", b"x")
