"""Restored files equal the originals: bytes, links, executable bits, nothing else."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.security.sizes import size
from tests.session.snapshots.conftest import Project, restore_all

NAMES = (
    b"a",
    b"b.txt",
    b"-n",
    b"new\nline",
    b"\xff\xfe",
    b"two words",
    b"a/x",
    b"a/b/y",
    b"c/:(top)z",
    b'"q"',
)
CONTENTS = (b"", b"one\n", b"two\n", b"cr\r\nlf\n", b"\0\1\xff", b"$Id$\n")

name = st.sampled_from(NAMES)
change = st.one_of(
    st.tuples(st.just("write"), name, st.sampled_from(CONTENTS)),
    st.tuples(st.just("link"), name, st.sampled_from((b"a", b"../out", b"nowhere"))),
    st.tuples(st.just("mode"), name, st.sampled_from((0o644, 0o755))),
    st.tuples(st.just("remove"), name, st.none()),
)
changes = st.lists(change, max_size=8)


def apply(root, steps):
    for what, relative, value in steps:
        path = os.path.join(os.fsencode(root), relative)
        if what == "remove" or what in ("write", "link"):
            clear(path)
        if what in ("write", "link"):
            for above in parents_of(root, path):
                if os.path.islink(above) or os.path.isfile(above):
                    os.unlink(above)
            os.makedirs(os.path.dirname(path), exist_ok=True)
        if what == "write":
            Path(os.fsdecode(path)).write_bytes(value)
        elif what == "link":
            os.symlink(value, path)
        elif what == "mode" and os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, value)


def clear(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def parents_of(root, path):
    folder, found = os.path.dirname(path), []
    while len(folder) > len(os.fsencode(root)):
        found.append(folder)
        folder = os.path.dirname(folder)
    return reversed(found)


# Each example takes a second, so shrinking a failing one would take minutes.
@settings(max_examples=size(3, 400), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(first=changes, second=changes)
@example(
    first=[("write", b"a", b"one\n")],
    second=[("write", b"a/x", b"one\n"), ("write", b"a/b/y", b""), ("remove", b"a/b/y", None)],
)
def test_restoring_either_of_two_snapshots_gives_exact_files(first, second):
    with tempfile.TemporaryDirectory() as base:
        asyncio.run(restore_both_states(Path(base), first, second))


async def restore_both_states(base, first, second):
    project = Project(base)
    repository = project.open()
    try:
        apply(project.root, first)
        files_then, then = project.files(), (await repository.take_snapshot()).tree
        apply(project.root, second)
        files_now, now = project.files(), (await repository.take_snapshot()).tree

        assert (await restore_all(repository, then, now)).failed == ()
        assert project.files() == files_then
        assert (await repository.take_snapshot()).tree == then

        assert (await restore_all(repository, now, then)).failed == ()
        assert project.files() == files_now
        assert (await repository.take_snapshot()).tree == now
    finally:
        await repository.aclose()


async def test_restoring_snapshot_of_many_files_gives_exact_files(project):
    for number in range(300):
        project.put(f"d{number % 7}/f{number}", os.urandom(number) + b"\r\n")
    repository = project.open()
    files, then = project.files(), (await repository.take_snapshot()).tree
    shutil.rmtree(project.root)
    project.root.mkdir()

    restored = await restore_all(repository, then, (await repository.take_snapshot()).tree)

    assert restored.failed == ()
    assert project.files() == files


async def test_snapshot_changes_list_kind_and_line_counts_of_each_path(project):
    project.put("edited", "1\n2\n3\n")
    project.put("gone", "1\n")
    project.put("binary", b"\0\1")
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("edited", "1\n2\nthree\nfour\n")
    project.put("binary", b"\0\2")
    project.put("new", "1\n2\n")
    (project.root / "gone").unlink()

    found = await repository.changes(before, (await repository.take_snapshot()).tree)

    assert [(one.path, one.kind, one.lines) for one in found] == [
        ("binary", "changed", None),
        ("edited", "changed", (2, 1)),
        ("gone", "removed", (0, 1)),
        ("new", "added", (2, 0)),
    ]


async def test_change_that_keeps_file_size_and_times_is_detected(project):
    file = project.put("f", "one\n")
    repository = project.open()
    before = await repository.take_snapshot()
    times = file.stat()
    file.write_text("two\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert await repository.take_snapshot() != before


async def test_restoring_removes_folders_left_empty(project):
    (project.root / "kept").mkdir()
    repository = project.open()
    before = (await repository.take_snapshot()).tree
    project.put("made/by/it/f")

    await restore_all(repository, before, (await repository.take_snapshot()).tree)

    assert sorted(os.listdir(project.root)) == ["kept"]


@pytest.mark.parametrize("now", [-5.0, 0.0, 86_400.0, 4_102_444_800.0])
async def test_snapshots_work_with_any_clock_time(project, now):
    project.put("f", "then\n")
    repository = project.open(clock=lambda: now)
    before = (await repository.take_snapshot()).tree
    project.put("f", "now\n")

    restored = await restore_all(repository, before, (await repository.take_snapshot()).tree)

    assert restored.done == ("f",)
