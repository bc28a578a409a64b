"""Paths that are swapped during use: nothing outside is written, removed or read."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dirge_py.files.workspace import CallFiles, Workspace, WriteTarget
from dirge_py.types.errors import FileError
from tests.security.sizes import count, size

WRITES = size(400, 100_000)
SECRET = b"outside, and nobody's business"
_EXCHANGE = 2
_HERE = -100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with `folder`, and a link to the same names outside."""
    for folder in (tmp_path / "project" / "folder", tmp_path / "outside"):
        folder.mkdir(parents=True)
        for name in ("file", "gone"):
            (folder / name).write_bytes(SECRET if folder.name == "outside" else b"inside")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "outside")
    return tmp_path


@contextmanager
def flipping(one: Path, other: Path) -> Iterator[None]:
    """A thread that swaps the two names as fast as it can."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = [os.fsencode(one), os.fsencode(other)]
    if libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE):
        pytest.skip("needs a file system that exchanges names")
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if one.is_symlink():
            libc.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)


def replace_one(files: CallFiles, number: int) -> None:
    seen = files.read("folder/file")
    assert seen.content != SECRET
    files.write_all(
        [WriteTarget(path="folder/file", content=b"written %d" % number, expected=seen.identity)]
    )


def create_one(files: CallFiles, number: int) -> None:
    files.write_all([WriteTarget(path=f"folder/{number}", content=b"x", expected=None)])


def change_several(files: CallFiles, number: int) -> None:
    seen = files.read("folder/file")
    assert seen.content != SECRET
    files.write_all(
        [
            WriteTarget(path="folder/file", content=b"patched %d" % number, expected=seen.identity),
            WriteTarget(path=f"folder/new/{number}", content=b"x", expected=None),
        ]
    )


def move_one(files: CallFiles, number: int) -> None:
    old, new = "folder/gone", "folder/other"
    seen = files.read_if_there(old)
    if seen is None:
        old, new = new, old
        seen = files.read(old)
    assert seen.content != SECRET
    files.write_all(
        [
            WriteTarget(path=new, content=seen.content, expected=None, moved_from=old),
            WriteTarget(path=old, content=None, expected=seen.identity),
        ]
    )


@pytest.mark.parametrize(
    ("act", "share"),
    [(replace_one, 2), (create_one, 4), (change_several, 8), (move_one, 8)],
)
def test_path_swapped_during_a_call_touches_nothing_outside(
    folder: Path, act: Callable[[CallFiles, int], None], share: int
):
    wanted, tried, done = WRITES // share, 0, 0
    with (
        closing(Workspace([folder / "project"], folder / "project")) as workspace,
        flipping(folder / "project" / "folder", folder / "project" / "link"),
    ):
        files = workspace.at_call("c")
        # A short run might never meet the folder as it is; then nothing would have been tried.
        while tried < wanted or (not done and tried < 100 * wanted):
            tried += 1
            try:
                act(files, tried)
                done += 1
            except FileError:
                pass

    outside = {each.name: each.read_bytes() for each in (folder / "outside").rglob("*")}
    count(f"race: {act.__name__}", tried, int(outside != dict.fromkeys(("file", "gone"), SECRET)))
    assert outside == {"file": SECRET, "gone": SECRET}
    assert not list(folder.rglob(".dirge-*"))
    assert done > 0
