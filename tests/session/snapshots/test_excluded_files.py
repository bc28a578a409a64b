"""Files that snapshots leave out are named and never lost."""

import os
import socket

from tests.session.snapshots.conftest import LIMIT, held, restore_all
from tests.support.git_repository import new_repository


async def test_files_ignored_by_any_git_ignore_file_are_not_held(project, home):
    new_repository(project.root)
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text("everywhere\n")
    project.put(".gitignore", "listed\nd/\n!kept\n")
    project.put(".git/info/exclude", "private\n*.log\nkept\n")
    for name in ("listed", "d/f", "private", "x.log", "everywhere", "kept", "held"):
        project.put(name)
    repository = project.open()

    tree = (await repository.take_snapshot()).tree

    assert await held(repository, tree) == [".gitignore", "held", "kept"]


async def test_files_ignored_by_core_excludesfile_are_not_held(project, home):
    (home / "mine").write_text("everywhere\n")
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    project.put("everywhere")
    project.put("held")
    repository = project.open()

    assert await held(repository, (await repository.take_snapshot()).tree) == ["held"]


async def test_ignored_file_tracked_by_git_is_held(project):
    new_repository(project.root)
    project.put(".gitignore", "*.out\n")
    project.put("tracked.out", "one\n")
    project.put("other.out", "one\n")
    project.git("add", "-f", "tracked.out")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("tracked.out", "two\n")

    await restore_all(repository, before, (await repository.take_snapshot()).tree)

    assert (project.root / "tracked.out").read_text() == "one\n"
    assert "other.out" not in await held(repository, before)


async def test_held_file_that_is_ignored_later_stays_held(project):
    project.put("notes", "one\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put(".gitignore", "notes\n")
    project.put("notes", "two\n")
    now = (await repository.take_snapshot()).tree

    await restore_all(repository, before, now)
    assert (project.root / "notes").read_text() == "one\n"
    await restore_all(repository, now, before)
    assert (project.root / "notes").read_text() == "two\n"


async def test_git_folders_and_dirge_folders_are_never_held(project):
    new_repository(project.root)
    project.put(".dirge/config.toml")
    project.put(".dirge/plugins/p.py")
    project.put("d/.GIT/config")
    project.put(".dirge-0123456789abcdef.tmp")
    project.put("held")
    project.state = project.root / "our state"
    repository = project.open()

    assert await held(repository, (await repository.take_snapshot()).tree) == ["held"]


async def test_pipes_and_sockets_are_not_held(project):
    project.put("held")
    os.mkfifo(project.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(project.root / "socket"))
        repository = project.open()

        tree = (await repository.take_snapshot()).tree

    assert await held(repository, tree) == ["held"]


async def test_changed_large_file_is_listed_as_left_out(project):
    project.put("large", b"x" * (LIMIT + 1))
    project.put("small", "one\n")
    repository = project.open()
    first = await repository.take_snapshot()
    unchanged = await repository.take_snapshot()
    project.put("large", b"y" * (LIMIT + 2))
    project.put("small", "two\n")
    changed = await repository.take_snapshot()

    restored = await restore_all(repository, first.tree, changed.tree)

    assert (first.left_out, unchanged.left_out, changed.left_out) == ((), (), ("large",))
    assert restored.done == ("small",)
    assert (project.root / "large").read_bytes() == b"y" * (LIMIT + 2)


async def test_new_and_removed_large_files_are_listed_as_left_out(project):
    old = project.put("old", b"x" * (LIMIT + 1))
    repository = project.open()
    await repository.take_snapshot()
    old.unlink()
    project.put("new", b"x" * (LIMIT + 1))

    assert (await repository.take_snapshot()).left_out == ("new", "old")


async def test_g13_changed_file_of_nine_mib_is_listed_as_left_out_and_not_in_changes(project):
    nine = 9 * 1024 * 1024
    project.put("nine", b"x" * nine)
    repository = project.open(limit=8 * 1024 * 1024)
    before = await repository.take_snapshot()
    project.put("nine", b"y" * nine)

    now = await repository.take_snapshot()

    assert now.left_out == ("nine",)
    assert await repository.changes(before.tree, now.tree) == ()


async def test_file_that_grew_too_large_is_not_overwritten_by_restore(project):
    project.put("f", "then\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("f", b"x" * (LIMIT + 1))
    now = await repository.take_snapshot()

    restored = await restore_all(repository, before, now.tree)

    assert now.left_out == ("f",)
    assert [(path, "too large" in why) for path, why in restored.failed] == [("f", True)]
    assert (project.root / "f").stat().st_size == LIMIT + 1


async def test_file_changed_since_last_snapshot_is_not_overwritten_by_restore(project):
    project.put("f", "then\n")
    project.put("g", "then\n")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("f", "now\n")
    project.put("g", "now\n")
    await repository.take_snapshot()
    project.put("f", "typed a moment ago\n")

    restored = await repository.restore(before, ["f", "g"])

    assert restored.done == ("g",)
    assert restored.failed == (("f", "it was changed since the last snapshot"),)
    assert (project.root / "f").read_text() == "typed a moment ago\n"


async def test_nested_repositories_are_listed_once_as_left_out_and_not_held(project):
    new_repository(project.root)
    inner = project.root / "inner"
    inner.mkdir()
    project.git("init", "-q", cwd=inner)
    project.put("inner/f")
    project.git("add", ".", cwd=inner)
    project.git("commit", "-qm", "x", cwd=inner)
    project.put("held")
    repository = project.open()

    first, second = await repository.take_snapshot(), await repository.take_snapshot()

    assert (first.left_out, second.left_out) == (("inner/",), ())
    assert await held(repository, first.tree) == ["held"]


async def test_git_decides_what_earlier_ignore_rules_meant(project):
    project.put(".gitignore", "[[:digit:]]*.log\nsub/x\\ \n")
    project.put("held")
    repository = project.open()
    tree = (await repository.take_snapshot()).tree
    project.put(".gitignore", "")

    paths = ["1.log", "one.log", "sub/x ", "held"]
    assert sorted(await repository.ignored_then(tree, paths)) == ["1.log", "sub/x "]
