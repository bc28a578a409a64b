import os
import time
from pathlib import Path

import pytest

from dirge_py.files.atomic import FileLocation, atomic_write, new_file, remove_leftovers, replace
from dirge_py.files.workspace import Workspace
from tests.support.forked_process import run_forked

HOUR_S = 3600.0
OURS = ".dirge-0123456789abcdef"


def opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def make_older(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def killed_while_writing(project: Path) -> None:
    replace(FileLocation(opened(project), "file", "file"), b"new", check=lambda: os._exit(9))


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The temporary file of a process that was killed during a write."""
    (tmp_path / "file").write_bytes(b"old")
    code, _, _ = run_forked(
        killed_while_writing, tmp_path, environment=os.environ, cwd=tmp_path, patience_s=30
    )
    assert code == 9
    [name] = set(os.listdir(tmp_path)) - {"file"}
    return tmp_path / name


def test_next_write_removes_temporary_files_of_a_killed_write(left: Path) -> None:
    make_older(left, 10)

    atomic_write(left.parent / "other", b"x")

    assert sorted(os.listdir(left.parent)) == ["file", "other"]
    assert (left.parent / "file").read_bytes() == b"old"


def test_next_start_removes_temporary_files_of_a_killed_write(left: Path, tmp_path: Path) -> None:
    make_older(left, 10)

    Workspace([tmp_path], tmp_path, journals=tmp_path / "journals").close()

    assert os.listdir(tmp_path) == ["file"]


def test_temporary_file_of_a_running_process_is_kept(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    try:
        with new_file(FileLocation(folder, "x", "x")) as (name, _):
            make_older(tmp_path / name, 2 * HOUR_S)
            remove_leftovers(folder)

            assert os.listdir(tmp_path) == [name]
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("name", "age_s", "stays"),
    [
        (f"{OURS}.tmp", 0, True),
        (f"{OURS}.tmp", 10, False),
        (f"{OURS}.new", 10, True),
        (f"{OURS}.new", 2 * HOUR_S, False),
        (f"{OURS}.old", 2 * HOUR_S, True),
        (".dirge-short.tmp", 2 * HOUR_S, True),
        (f"{OURS}.tmp.swp", 2 * HOUR_S, True),
        ("notes.tmp", 2 * HOUR_S, True),
    ],
)
def test_only_abandoned_temporary_files_are_removed(
    tmp_path: Path, name: str, age_s: float, stays: bool
) -> None:
    (tmp_path / name).write_bytes(b"x")
    make_older(tmp_path / name, age_s)
    folder = opened(tmp_path)
    try:
        remove_leftovers(folder)
    finally:
        os.close(folder)

    assert (tmp_path / name).exists() == stays


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_links_and_folders_with_a_temporary_name_are_kept(tmp_path: Path, kind: str) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    place = tmp_path / f"{OURS}.tmp"
    if kind == "link":
        place.symlink_to("theirs")
    else:
        place.mkdir()
    make_older(place, 2 * HOUR_S)
    folder = opened(tmp_path)
    try:
        remove_leftovers(folder)
    finally:
        os.close(folder)

    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert os.path.lexists(place) == (kind == "folder")
