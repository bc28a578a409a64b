"""Old snapshots are deleted, oldest first; never those of a session in use."""

import os

from dirge_py.session.snapshots.store import DAY_S, size_of

HOUR_S = 3600


def age_objects(store, by_s):
    """Make all objects look old, because those of the last hour are never deleted."""
    for path in (store / "objects").rglob("*"):
        if path.is_file():
            status = path.stat()
            os.utime(path, (status.st_atime - by_s, status.st_mtime - by_s))


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


async def take_snapshot_of(project, clock, session, content):
    """Take a snapshot in a session of its own and end that session."""
    project.put("f", content)
    repository = project.open(session, clock=clock)
    tree = (await repository.take_snapshot()).tree
    await repository.aclose()
    return tree


async def test_prune_deletes_only_snapshots_older_than_limit(project):
    clock = Clock(1_800_000_000.0)
    old = await take_snapshot_of(project, clock, "old", "old\n")
    clock.now += 20 * DAY_S
    recent = await take_snapshot_of(project, clock, "recent", "recent\n")
    clock.now += 15 * DAY_S
    project.put("f", "now\n")
    repository = project.open("now", clock=clock, days=30)
    now = (await repository.take_snapshot()).tree
    age_objects(repository.store, 2 * HOUR_S)

    await repository.prune()

    assert [await repository.holds(tree) for tree in (old, recent, now)] == [False, True, True]
    assert project.notices == []
    project.put("f", "later\n")
    assert await repository.take_snapshot() is not None


async def test_prune_keeps_all_snapshots_of_sessions_in_use(project):
    clock = Clock(1_800_000_000.0)
    project.put("f", "mine\n")
    mine = project.open("mine", clock=clock)
    my_tree = (await mine.take_snapshot()).tree
    project.put("f", "theirs\n")
    theirs = project.open("theirs", clock=clock)
    their_tree = (await theirs.take_snapshot()).tree
    clock.now += 100 * DAY_S
    project.put("f", "now\n")
    await mine.take_snapshot()
    age_objects(mine.store, 2 * HOUR_S)

    await mine.prune()

    assert await mine.holds(my_tree)
    assert await mine.holds(their_tree)


async def test_prune_deletes_oldest_snapshots_when_store_is_too_large(project):
    clock = Clock(1_800_000_000.0)
    trees = []
    for number in range(4):
        clock.now += 60
        trees.append(await take_snapshot_of(project, clock, f"s{number}", os.urandom(50_000)))
    project.put("f", "now\n")
    repository = project.open("now", clock=clock, max_bytes=120_000)
    await repository.take_snapshot()
    age_objects(repository.store, 2 * HOUR_S)

    await repository.prune()

    assert [await repository.holds(tree) for tree in trees] == [False, False, True, True]
    assert size_of(repository.store) <= 120_000


async def test_prune_runs_at_most_once_a_day(project):
    clock = Clock(1_800_000_000.0)
    old = await take_snapshot_of(project, clock, "old", "old\n")
    repository = project.open("now", clock=clock, days=1)
    project.put("f", "now\n")
    await repository.take_snapshot()
    age_objects(repository.store, 2 * HOUR_S)
    await repository.prune()

    clock.now += DAY_S - 60
    await repository.prune()
    assert await repository.holds(old)

    clock.now += DAY_S
    await repository.prune()
    assert not await project.open("other", clock=clock).holds(old)
