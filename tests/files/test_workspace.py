import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.files import workspace as workspace_module
from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle, walk_beneath
from dirge_py.files.workspace import LocatedPath, Workspace, WriteTarget
from dirge_py.types.errors import FileError
from tests.support.requirements import lacking


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(project: Path) -> Iterator[Workspace]:
    workspace = Workspace([project], project)
    yield workspace
    workspace.close()


def test_locate_returns_the_physical_path_and_whether_it_is_inside(workspace, project, tmp_path):
    (project / "out").symlink_to(tmp_path)

    assert workspace.locate("new/deep/file") == LocatedPath(
        path=f"{project}/new/deep/file",
        real=f"{project}/new/deep/file",
        inside=True,
        kind="missing",
    )
    assert workspace.locate("out/x") == LocatedPath(
        path=f"{project}/out/x", real=f"{tmp_path}/x", inside=False, kind="missing"
    )
    assert not workspace.locate("../project-2/x").inside


def test_paths_outside_the_roots_need_an_approval(workspace, project, tmp_path):
    (tmp_path / "secret").write_text("s")
    (project / "link").symlink_to(tmp_path / "secret")

    for path in ("../secret", "link", str(tmp_path / "secret")):
        with pytest.raises(FileError, match="may not open"):
            workspace.at_call("c").read(path)


def test_approval_of_a_path_is_for_one_call(workspace, project, tmp_path):
    (tmp_path / "other").write_text("o")
    (project / "mine").write_text("m")
    workspace.approve("c", [str(tmp_path / "other")])

    assert workspace.at_call("c").read("../other").content == b"o"
    with pytest.raises(FileError):
        workspace.at_call("c").read("mine")
    with pytest.raises(FileError):
        workspace.at_call("d").read("../other")
    workspace.release("c")
    with pytest.raises(FileError):
        workspace.at_call("c").read("../other")


def test_a_fifo_does_not_hang_and_is_refused(workspace, project):
    os.mkfifo(project / "pipe")

    with pytest.raises(FileError, match="not a regular file"):
        workspace.at_call("c").read("pipe")


def test_write_needs_the_file_version_it_was_planned_for(workspace, project):
    files = workspace.at_call("c")
    (project / "file").write_text("one")
    seen = files.read("file").identity
    (project / "file").write_text("two")

    with pytest.raises(FileError, match="changed since"):
        files.write_all([WriteTarget(path="file", content=b"three", expected=seen)])

    assert (project / "file").read_text() == "two"
    assert os.listdir(project) == ["file"]


def test_a_file_that_appeared_is_not_overwritten(workspace, project):
    (project / "file").write_text("theirs")

    with pytest.raises(FileError, match="exists now"):
        workspace.at_call("c").write_all([WriteTarget(path="file", content=b"ours", expected=None)])

    assert (project / "file").read_text() == "theirs"


def test_folders_created_for_a_failed_write_are_removed(workspace, project):
    with pytest.raises(FileError):
        workspace.at_call("c").write_all(
            [WriteTarget(path="a/b/" + "x" * 300, content=b"", expected=None)]
        )

    assert os.listdir(project) == []


def test_changed_mtime_with_same_content_is_the_same_version(workspace, project):
    files = workspace.at_call("c")
    (project / "file").write_text("one")
    before = files.read("file")
    files.ledger.remember(before.real, before.identity)
    os.utime(project / "file", ns=(1, 1))

    files.ledger.check_fresh("file", files.read("file"))


def test_both_open_methods_refuse_links_and_dot_dot(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("x")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "in" / "link").symlink_to("file")
    anchor = open_folder_handle(str(tmp_path))
    try:
        for way in (open_beneath, walk_beneath):
            os.close(way(anchor, "in/file", FILE))
            for bad in ("link/file", "in/link", "../x"):
                with pytest.raises(OSError):
                    os.close(way(anchor, bad, FILE))
    finally:
        os.close(anchor)


def of_the_system(path: str) -> str:
    if not os.path.exists(path):
        lacking("a system with /proc")
    return path


def test_error_names_a_file_that_fails_while_being_read(tmp_path):
    files = Workspace([tmp_path], tmp_path).for_person()

    with pytest.raises(FileError, match="/proc/self/mem cannot be read"):
        files.read(of_the_system("/proc/self/mem"))


def test_file_longer_than_its_size_is_read_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_module, "WHOLE_FILE_LIMIT", 100)
    files = Workspace([tmp_path], tmp_path).for_person()

    with pytest.raises(FileError, match="is larger than"):
        files.read(of_the_system("/proc/self/maps"))
