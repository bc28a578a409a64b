import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.files.atomic import FileLocation, atomic_write, new_file, replace
from dirge_py.types.errors import FileError
from tests.support.requirements import as_nobody, lacking, require_root_tools, small_disk


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_write_keeps_the_mode_of_an_existing_file(tmp_path: Path):
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    file.chmod(0o751)

    atomic_write(file, b"new")

    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o751)


def test_new_file_has_a_mode_according_to_the_umask(tmp_path: Path):
    umask = os.umask(0)
    os.umask(umask)

    atomic_write(tmp_path / "plain", b"x")
    atomic_write(tmp_path / "private", b"x", mode=0o600)

    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_write_through_a_link_changes_its_target(tmp_path: Path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    atomic_write(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.parametrize("new", [b"shorter", b"longer than it was before", b""])
def test_other_hard_links_keep_the_old_content(tmp_path: Path, new: bytes):
    (tmp_path / "one").write_bytes(b"the old content")
    (tmp_path / "one").chmod(0o640)
    os.link(tmp_path / "one", tmp_path / "two")

    atomic_write(tmp_path / "one", new)

    assert (tmp_path / "one").read_bytes() == new
    assert (tmp_path / "two").read_bytes() == b"the old content"
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o640
    assert names(tmp_path) == ["one", "two"]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="needs extended attributes")
def test_write_keeps_extended_attributes(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        lacking("a file system with extended attributes")

    atomic_write(file, b"new")

    assert os.getxattr(file, "user.note") == b"kept"


def test_a_folder_is_not_overwritten(tmp_path: Path):
    (tmp_path / "folder").mkdir()

    with pytest.raises(FileError, match="not a regular file"):
        atomic_write(tmp_path / "folder", b"x")


def test_full_disk_leaves_the_old_content_and_no_temporary_file(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        (disk / "file").write_bytes(b"old" * 100)

        with pytest.raises(FileError, match="disk is full"):
            atomic_write(disk / "file", b"x" * 1_000_000)

        assert (disk / "file").read_bytes() == b"old" * 100
        assert names(disk) == ["file"]


def test_full_disk_leaves_hard_links_unchanged(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        (disk / "one").write_bytes(b"old" * 100)
        os.link(disk / "one", disk / "two")

        with pytest.raises(FileError, match="disk is full"):
            atomic_write(disk / "one", b"x" * 1_000_000)

        assert (disk / "two").read_bytes() == b"old" * 100
        assert names(disk) == ["one", "two"]


def test_error_names_a_read_only_file_system(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        (disk / "file").write_bytes(b"old")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        with pytest.raises(FileError, match="read-only"):
            atomic_write(disk / "file", b"new")

        assert (disk / "file").read_bytes() == b"old"


def test_file_size_limit_leaves_the_old_content(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileError, match="larger than allowed"):
            atomic_write(file, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


AS_NOBODY = """
import sys
from dirge_py.types.errors import FileError
from dirge_py.files.atomic import atomic_write
try:
    atomic_write(sys.argv[1], b"new")
except FileError as error:
    print(error)
"""


def write_as_nobody(file: Path) -> str:
    done = subprocess.run(
        [*as_nobody(), sys.executable, "-c", AS_NOBODY, str(file)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.getcwd(), "PATH": os.environ["PATH"]},
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.fixture
def open_folder(open_tmp_path: Path) -> Path:
    """A folder that every user can reach and write in."""
    folder = open_tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_the_file_of_another_owner_is_written_in_place(open_folder: Path):
    file = open_folder / "file"
    file.write_bytes(b"old content")
    file.chmod(0o666)
    inode = file.stat().st_ino

    answer = write_as_nobody(file)

    assert (answer, file.read_bytes()) == ("", b"new")
    assert (file.stat().st_ino, file.stat().st_uid) == (inode, 0)
    assert names(open_folder) == ["file"]


def test_the_file_of_another_owner_with_other_names_is_refused(open_folder: Path):
    file = open_folder / "file"
    file.write_bytes(b"old content")
    file.chmod(0o666)
    os.link(file, open_folder / "other")

    answer = write_as_nobody(file)

    assert "it has 2 names (hard links) and belongs to another user" in answer
    assert (file.read_bytes(), names(open_folder)) == (b"old content", ["file", "other"])


def test_a_read_only_file_is_refused_though_a_rename_would_succeed(open_folder: Path):
    file = open_folder / "file"
    file.write_bytes(b"old")
    os.chown(file, 65534, 65534)
    file.chmod(0o444)

    answer = write_as_nobody(file)

    assert "permission denied" in answer
    assert file.read_bytes() == b"old"


def test_a_folder_that_may_not_be_written_is_refused(open_folder: Path):
    file = open_folder / "file"
    file.write_bytes(b"old")
    file.chmod(0o666)
    open_folder.chmod(0o755)

    answer = write_as_nobody(file)

    assert "permission denied" in answer
    assert file.read_bytes() == b"old"


def test_root_keeps_the_owner(tmp_path: Path):
    require_root_tools()
    file = tmp_path / "file"
    file.write_bytes(b"old")
    os.chown(file, 1234, 4321)

    atomic_write(file, b"new")

    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


def test_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = b"0123456789" * 1000
    (tmp_path / "one").write_bytes(b"old")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, piece: write(fd, bytes(piece)[:333]))

    atomic_write(tmp_path / "new", content)
    atomic_write(tmp_path / "one", content)
    monkeypatch.undo()

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == dict.fromkeys(
        ("new", "one"), content
    )


@pytest.mark.parametrize("is_linked", [False, True])
def test_failed_fsync_is_an_error_and_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_linked: bool
):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    if is_linked:
        os.link(file, tmp_path / "other")

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(FileError, match="not written"):
        atomic_write(file, b"new")

    assert file.read_bytes() == b"old"
    assert names(tmp_path) == (["file", "other"] if is_linked else ["file"])


def test_a_temporary_file_is_private_and_its_name_cannot_be_guessed(tmp_path: Path):
    umask = os.umask(0)
    seen: list[tuple[str, int]] = []

    def look() -> None:
        (name,) = set(os.listdir(tmp_path)) - {"file"}
        seen.append((name, stat.S_IMODE((tmp_path / name).stat().st_mode)))

    file = tmp_path / "file"
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for content in (b"one", b"two"):
            with new_file(FileLocation(folder, "file", "file")) as (_, descriptor):
                look()
                os.write(descriptor, content)
        replace(FileLocation(folder, "file", "file"), b"three", check=look, mode=0o600)
    finally:
        os.close(folder)
        os.umask(umask)

    assert len({name for name, _ in seen}) == 3
    assert {mode for _, mode in seen} == {0o600}
    assert (file.read_bytes(), names(tmp_path)) == (b"three", ["file"])


def test_link_with_the_temporary_name_is_not_followed(tmp_path: Path):
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "planted").symlink_to("theirs")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for name in ("planted", "theirs"):
            with pytest.raises(FileExistsError), new_file(FileLocation(folder, "x", "x"), name):
                pass
    finally:
        os.close(folder)

    assert (tmp_path / "theirs").read_bytes() == b"theirs"
