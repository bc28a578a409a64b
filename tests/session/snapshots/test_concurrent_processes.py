"""Several processes in one project, and killed processes."""

import asyncio
import os
import random
import signal
import subprocess
from pathlib import Path

from tests.security.sizes import size
from tests.session.snapshots.conftest import restore_all
from tests.session.snapshots.snapshot_child import FILES, SIZE, work
from tests.support.forked_process import Piped

ROOT = Path(__file__).parents[3]


def start(project, what):
    return Piped(work, project.base, what, environment=os.environ, cwd=ROOT)


def lines_until(child, count):
    return [child.stdout.readline().split() for _ in range(count)]


def kill_after(child, delay_s):
    """Kill the child after `delay_s`, in the middle of its work."""
    try:
        child.wait(delay_s)
    except subprocess.TimeoutExpired:
        child.kill()
    rest, errors = child.communicate()
    assert child.returncode == -signal.SIGKILL, rest + errors
    # Each complete line was done before the kill; the last line may be incomplete.
    return [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]


async def test_store_works_after_process_is_killed_while_taking_snapshot(project):
    chance = random.Random(7)
    for _ in range(size(1, 40)):
        child = await asyncio.to_thread(start, project, "take")
        taken = await asyncio.to_thread(lines_until, child, 3)
        taken += await asyncio.to_thread(kill_after, child, chance.uniform(0, 0.4))

        repository = project.open()
        now = await repository.take_snapshot()
        assert now is not None, repository.unavailable
        for _, tree in taken:
            assert await repository.holds(tree)
        restored = await restore_all(repository, taken[0][1], now.tree)
        assert restored.failed == ()
        assert (project.root / "f0").read_bytes() == b"a" * SIZE
        await repository.aclose()

    assert project.notices == []


async def test_each_file_is_complete_after_process_is_killed_while_restoring(project):
    chance = random.Random(8)
    for _ in range(size(1, 40)):
        child = await asyncio.to_thread(start, project, "restore")
        (_, then), (_, _now), _ = await asyncio.to_thread(lines_until, child, 3)
        await asyncio.to_thread(kill_after, child, chance.uniform(0, 0.4))

        contents = {(project.root / f"f{number}").read_bytes() for number in range(FILES)}
        assert contents <= {b"a" * SIZE, b"b" * SIZE}

        repository = project.open()
        now = await repository.take_snapshot()
        await restore_all(repository, then, now.tree)
        assert (await repository.take_snapshot()).tree == then
        await repository.aclose()
        for left in project.root.glob(".dirge-*"):
            left.unlink()


async def test_two_processes_can_take_snapshots_of_one_project(project):
    children = [await asyncio.to_thread(start, project, "take") for _ in range(2)]
    taken = []
    for child in children:
        taken += await asyncio.to_thread(lines_until, child, 6)
    for child in children:
        taken += await asyncio.to_thread(kill_after, child, 0)

    repository = project.open()
    assert all(word == "at" for word, _ in taken)
    assert [tree for _, tree in taken if not await repository.holds(tree)] == []


async def test_two_conversations_get_the_same_snapshot_tree(project):
    project.put("f", "one\n")
    first, second = project.open("a"), project.open("b")
    both = await asyncio.gather(first.take_snapshot(), second.take_snapshot())
    project.put("f", "two\n")
    later = await asyncio.gather(first.take_snapshot(), second.take_snapshot())

    assert both[0] == both[1]
    assert later[0] == later[1]
    assert await first.holds(later[1].tree)


async def test_later_process_can_diff_against_snapshot_of_earlier_process(project):
    project.put("f", "one\n")
    first = project.open("a")
    tree = (await first.take_snapshot()).tree
    await first.aclose()
    project.put("g", "one\n")

    second = project.open("b")
    seen = await second.take_snapshot()

    assert [change.path for change in await second.changes(tree, seen.tree)] == ["g"]
    assert await second.holds(tree)


async def test_process_uses_new_store_after_another_process_moved_damaged_store_aside(project):
    project.put("f", "one\n")
    first, second = project.open("a"), project.open("b")
    await first.take_snapshot()
    await second.take_snapshot()
    (first.store / "HEAD").unlink()
    project.put("f", "two\n")

    assert await first.take_snapshot() is not None
    assert await second.take_snapshot() == await first.take_snapshot()
    assert len(project.notices) == 1
