"""Programs found by name never come from the workspace."""

import os
from pathlib import Path

import pytest

from dirge_py.processes.programs import find_program


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def put_program(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def found(root: Path, *folders: Path | str) -> str | None:
    path = os.pathsep.join(map(os.fspath, folders))
    return find_program("tool", path=path, outside=[str(root)])


def test_program_outside_workspace_is_found_after_program_inside(root, tmp_path):
    put_program(root / "bin")
    outside = put_program(tmp_path / "bin")

    assert found(root, root / "bin", tmp_path / "bin") == str(outside)


def test_folder_whose_name_starts_like_root_is_outside(root, tmp_path):
    assert found(root, put_program(tmp_path / "project2").parent)


@pytest.mark.parametrize("folder", ["", ".", "bin"])
def test_relative_path_folders_are_skipped(root, monkeypatch, folder):
    put_program(root / "bin")
    put_program(root)
    monkeypatch.chdir(root)

    assert found(root, folder) is None


def test_folder_that_links_into_root_is_skipped(root, tmp_path):
    put_program(root / "bin")
    (tmp_path / "link").symlink_to(root / "bin")

    assert found(root, tmp_path / "link") is None


def test_program_that_links_into_root_is_skipped(root, tmp_path):
    (tmp_path / "tool").symlink_to(put_program(root / "bin"))

    assert found(root, tmp_path) is None


def test_path_through_root_is_skipped(root, tmp_path):
    put_program(tmp_path / "bin")
    (root / "way").symlink_to(tmp_path / "bin")
    (tmp_path / "link").symlink_to(root / "way")

    assert found(root, root / "way", tmp_path / "link") is None


def test_file_that_is_not_executable_is_skipped(root, tmp_path):
    (tmp_path / "tool").write_text("")

    assert found(root, tmp_path) is None
