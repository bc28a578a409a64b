"""A damaged store is detected, moved aside, and replaced."""

import os
import resource
import shutil

import pytest

from dirge_py.types.errors import SessionError
from tests.security.sizes import size
from tests.session.snapshots.conftest import restore_all


def objects(store):
    return sorted(path for path in (store / "objects").rglob("*") if path.is_file())


def overwrite(path, content):
    path.chmod(0o600)
    path.write_bytes(content)


def corrupt_all_objects(store):
    for path in objects(store):
        overwrite(path, os.urandom(64))


def cut_packs(store):
    for path in (store / "objects" / "pack").glob("*.pack"):
        overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def empty_objects(store):
    for path in objects(store):
        overwrite(path, b"")


def delete_head(store):
    (store / "HEAD").unlink()


def corrupt_settings(store):
    (store / "config").write_bytes(os.urandom(64))


def delete_objects(store):
    shutil.rmtree(store / "objects")


def replace_store_with_file(store):
    shutil.rmtree(store)
    store.write_text("no folder\n")


DAMAGES = (
    corrupt_all_objects,
    delete_head,
    replace_store_with_file,
    cut_packs,
    empty_objects,
    corrupt_settings,
    delete_objects,
)


@pytest.mark.parametrize("damage", DAMAGES[: size(3, len(DAMAGES))])
async def test_snapshots_work_again_after_store_damage(project, damage):
    for number in range(220):
        project.put(f"f{number}", f"{number}\n")
    project.put("f", "one\n")
    repository = project.open()
    first = (await repository.take_snapshot()).tree
    project.put("f", "two\n")
    await repository.take_snapshot()

    damage(repository.store)
    found = await repository.holds(first)
    project.put("f", "three\n")
    now = await repository.take_snapshot()
    project.put("f", "four\n")
    later = await repository.take_snapshot()

    assert now is not None, repository.unavailable
    assert (await restore_all(repository, now.tree, later.tree)).failed == ()
    assert (project.root / "f").read_text() == "three\n"
    aside = list(repository.store.parent.glob("*.damaged-*"))
    assert len(aside) == len(project.notices) == 1
    assert str(aside[0]) in project.notices[0]
    # Damage that spares the objects loses no snapshot, wherever the store is now.
    assert found == (damage in (delete_head, corrupt_settings))


async def test_undamaged_snapshot_of_damaged_store_can_be_restored(project):
    project.put("f", "one\n")
    repository = project.open()
    first = (await repository.take_snapshot()).tree
    (repository.store / "HEAD").unlink()
    project.put("f", "two\n")
    now = (await repository.take_snapshot()).tree

    restored = await restore_all(repository, first, now)

    assert restored.done == ("f",)
    assert (project.root / "f").read_text() == "one\n"
    assert await repository.holds(first)


async def test_damaged_file_content_is_reported_and_other_files_are_restored(project):
    project.put("f", "f one\n")
    project.put("g", "g one\n")
    repository = project.open()
    first = (await repository.take_snapshot()).tree
    before = set(objects(repository.store))
    project.put("h", "h one\n")
    second = (await repository.take_snapshot()).tree
    new = set(objects(repository.store)) - before
    for name in "fgh":
        project.put(name, "now\n")
    now = (await repository.take_snapshot()).tree
    changes = [change.path for change in await repository.changes(now, second)]
    largest_first = sorted(new, key=lambda path: path.stat().st_size)
    # The content of `h` is the smallest of what came with it: a tree and a commit are the others.
    overwrite(largest_first[0], os.urandom(20))

    restored = await repository.restore(second, changes)

    assert (restored.done, [path for path, _ in restored.failed]) == (("f", "g"), ["h"])
    assert (project.root / "f").read_text() == "f one\n"
    assert await repository.holds(first)


async def test_lost_refs_lose_no_snapshot_of_current_session(project):
    project.put("f", "one\n")
    repository = project.open()
    first = (await repository.take_snapshot()).tree
    shutil.rmtree(repository.store / "refs" / "dirge")
    project.put("f", "two\n")

    now = (await repository.take_snapshot()).tree

    assert await repository.holds(first)
    assert (await restore_all(repository, first, now)).done == ("f",)


async def test_damaged_git_index_is_rebuilt(project):
    project.put("f", "one\n")
    repository = project.open()
    first = (await repository.take_snapshot()).tree
    for index in repository.store.rglob("index"):
        overwrite(index, os.urandom(200))
    project.put("f", "two\n")

    second = (await repository.take_snapshot()).tree

    assert [change.path for change in await repository.changes(first, second)] == ["f"]
    assert project.notices == []


async def test_leftover_index_lock_does_not_block_snapshots(project):
    project.put("f", "one\n")
    repository = project.open()
    first = await repository.take_snapshot()
    for index in repository.store.rglob("index"):
        index.with_name("index.lock").touch()
    project.put("f", "two\n")

    assert await repository.take_snapshot() not in (None, first)


async def test_unknown_tree_is_not_held_and_cannot_be_restored(project):
    project.put("f")
    repository = project.open()
    await repository.take_snapshot()

    assert not await repository.holds("1" * 40)
    assert not await repository.holds("--all")
    assert project.notices == []
    with pytest.raises(SessionError):
        await repository.restore("1" * 40, ["f"])


async def test_full_disk_is_not_treated_as_store_damage(project):
    project.put("f", "then\n")
    repository = project.open()
    tree = (await repository.take_snapshot()).tree
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        held, why = await repository.holds(tree), repository.unavailable
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert not held
    assert why.startswith("Cannot read the snapshots of the files: ")
    assert list(repository.store.parent.glob("*.damaged-*")) == []
    assert await repository.holds(tree)
