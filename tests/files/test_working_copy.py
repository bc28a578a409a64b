"""A working copy is independent of the original, and is removed completely."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dirge_py.files.tree_hash import TreeHash
from dirge_py.files.working_copy import (
    CopyFolder,
    WorkingCopy,
    place_for_copies,
    remove_abandoned_copies,
    remove_tree,
)
from dirge_py.types.errors import FileError
from tests.support.requirements import as_nobody, require_root_tools, small_disk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_text("one")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    os.utime(folder / "program", ns=(5, 7))
    (folder / "inner").symlink_to("deep/er/file")
    (folder / "outer").symlink_to("/etc/passwd")
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


PATHS = ["deep/er/file", "program", "inner", "outer"]


def test_a_copy_has_the_same_hash_modes_and_times(source: Path, target: Path) -> None:
    copied = WorkingCopy(str(source), str(target)).copy(PATHS)

    assert sorted(copied.paths) == sorted(PATHS) and not copied.left_out
    assert TreeHash(str(target)).read(PATHS).files == TreeHash(str(source)).read(PATHS).files
    assert (target / "program").stat().st_mtime_ns == 7
    assert os.readlink(target / "outer") == "/etc/passwd"


def test_writing_to_a_copy_does_not_change_the_original(source: Path, target: Path) -> None:
    WorkingCopy(str(source), str(target)).copy(PATHS)

    with open(target / "deep/er/file", "r+") as stream:
        stream.write("two")

    assert (source / "deep/er/file").read_text() == "one"
    assert (source / "deep/er/file").stat().st_nlink == 1


def test_folder_replaced_by_a_link_is_not_entered(source: Path, target: Path) -> None:
    elsewhere = source.parent / "elsewhere"
    (source / "deep").rename(elsewhere)
    (source / "deep").symlink_to(elsewhere)

    copied = WorkingCopy(str(source), str(target)).copy(["deep/er/file", "deep"])

    assert copied.paths == ["deep"] and (target / "deep").is_symlink()


def test_sockets_and_pipes_are_not_copied_but_reported(source: Path, target: Path) -> None:
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "socket"))
        copied = WorkingCopy(str(source), str(target)).copy(["pipe", "socket", "gone", "program"])

    assert copied.left_out == [("pipe", "no regular file"), ("socket", "no regular file")]
    assert copied.paths == ["program"]


def test_links_to_folders_do_not_hide_copied_files(source: Path, target: Path) -> None:
    copy = WorkingCopy(str(source), str(target))
    copy.copy(["deep/er/file"])

    copy.link(["deep", "a/node_modules"])

    assert not (target / "deep").is_symlink()
    assert os.readlink(target / "a/node_modules") == f"{source}/a/node_modules"


def test_sparse_file_is_copied_sparse(source: Path, target: Path) -> None:
    with open(source / "image", "wb") as stream:
        stream.write(b"head")
        stream.seek(1 << 29)
        stream.write(b"middle")
        stream.truncate(1 << 30)

    WorkingCopy(str(source), str(target)).copy(["image"])

    copy = (target / "image").stat()
    assert copy.st_size == 1 << 30 and copy.st_blocks * 512 < 1 << 20
    with open(target / "image", "rb") as stream:
        assert stream.read(5) == b"head\0"
        stream.seek(1 << 29)
        assert stream.read(7) == b"middle\0"


def test_copying_can_be_stopped_within_a_file(source: Path, target: Path) -> None:
    (source / "large").write_bytes(b"x" * (3 << 20))
    asked: list[int] = []

    def is_stopped() -> bool:
        asked.append(1)
        return len(asked) > 2

    WorkingCopy(str(source), str(target)).copy(["large"], is_stopped)

    assert b"x" * (2 << 20) not in (target / "large").read_bytes()


def test_copy_is_not_started_without_enough_disk_space(source: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "size=1m") as small:
        with pytest.raises(FileError, match="the disk is full"):
            WorkingCopy(str(source), str(small)).copy(PATHS)
        assert list(small.iterdir()) == []


UNREADABLE = """
import sys
from dirge_py.files.working_copy import WorkingCopy
print(WorkingCopy(sys.argv[1], sys.argv[2]).copy(["program", "deep/er/file"]).left_out)
"""


def test_unreadable_files_are_not_copied_but_reported(
    open_tmp_path: Path, source: Path, target: Path
) -> None:
    (source / "program").chmod(0o000)
    source.chmod(0o755)
    target.chmod(0o777)
    command = [*as_nobody(), sys.executable, "-c", UNREADABLE, str(source), str(target)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert ended.stdout.strip() == "[('program', 'permission denied')]", ended.stderr


# --- the folder, and its end


def test_folder_of_a_copy_is_private(tmp_path: Path) -> None:
    folder = CopyFolder(str(tmp_path), "project")

    assert Path(folder.top).name == "project"
    assert Path(folder.top).parent.stat().st_mode & 0o777 == 0o700
    assert folder.remove() and list(tmp_path.iterdir()) == []


HOLDING = """
import sys
from dirge_py.files.working_copy import CopyFolder
print(CopyFolder(sys.argv[1], "project").top, flush=True)
sys.stdin.read()
"""


def test_copies_of_killed_processes_are_removed_and_used_ones_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(command, **pipes) as holder:  # type: ignore[call-overload]
        top = Path(holder.stdout.readline().strip())
        own = CopyFolder(str(tmp_path), "own")
        make_old(top.parent, Path(own.folder))

        remove_abandoned_copies(str(tmp_path))
        assert top.exists() and Path(own.top).exists()

        holder.kill()
        holder.wait()
        remove_abandoned_copies(str(tmp_path))
        assert not top.parent.exists() and Path(own.top).exists()
    own.remove()


def make_old(*folders: Path) -> None:
    an_hour_ago = time.time() - 3600
    for folder in folders:
        os.utime(folder, (an_hour_ago, an_hour_ago))


def left_behind(place: Path) -> Path:
    """A copy that a killed program left."""
    folder = CopyFolder(str(place), "project")
    Path(folder.top, "a").write_text("x")
    lock = Path(folder.folder, "lock").read_bytes()
    folder.remove()
    left = Path(folder.folder)
    (left / "project").mkdir(parents=True)
    left.chmod(0o700)
    (left / "lock").write_bytes(lock)
    return left


def test_folder_of_a_copy_being_created_is_kept(tmp_path: Path) -> None:
    young, old, empty = (
        left_behind(tmp_path),
        left_behind(tmp_path),
        tmp_path / "dirge-copy-aaaaaaaa",
    )
    empty.mkdir()
    make_old(old, empty)

    remove_abandoned_copies(str(tmp_path))

    assert young.exists() and not old.exists() and not empty.exists()


def test_folders_of_people_with_similar_names_are_kept(tmp_path: Path) -> None:
    """A user's own folders in TMPDIR are never removed."""
    own = [tmp_path / name for name in ("dirge-copy-of-my-notes", "dirge-copy-mythesis")]
    for folder in own:
        folder.mkdir()
        (folder / "notes").write_text("dear")
    locked = tmp_path / "dirge-copy-withlock"
    locked.mkdir()
    (locked / "lock").write_text("of something else")
    linked = tmp_path / "dirge-copy-alinkxxx"
    linked.symlink_to(own[0])
    kept = [*own, locked, linked]
    make_old(*kept)

    remove_abandoned_copies(str(tmp_path))

    assert all(folder.exists() for folder in kept)
    assert (own[0] / "notes").exists() and (own[1] / "notes").exists()


def test_a_project_may_have_any_name(tmp_path: Path) -> None:
    for name in ("lock", "", "a b"):
        folder = CopyFolder(str(tmp_path), name)
        assert Path(folder.top).is_dir() and folder.remove()


def test_failed_creation_of_a_copy_folder_leaves_nothing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="too long"):
        CopyFolder(str(tmp_path), "x" * 300)

    assert list(tmp_path.iterdir()) == [] and len(os.listdir("/proc/self/fd")) == before


def test_project_that_contains_every_temporary_folder_gets_no_copy() -> None:
    assert place_for_copies(["/"]) == ""
    assert place_for_copies([str(ROOT)]) != ""


def test_copy_of_another_user_is_kept(tmp_path: Path) -> None:
    require_root_tools("true")
    other = left_behind(tmp_path)
    os.chown(other, 65534, 65534)
    make_old(other)

    remove_abandoned_copies(str(tmp_path))

    assert other.exists() and remove_tree(str(other))
