"""The branch, read from a repository that a stranger made."""

import os
from pathlib import Path

import pytest

from dirge_py.files.git import branch_of


@pytest.mark.parametrize(
    ("head", "branch"),
    [("ref: refs/heads/feature/x\n", "feature/x"), ("ref: refs/heads/a\nb\n", "a"), ("ü\0", "ü\0")],
)
def test_the_branch_is_one_line(tmp_path: Path, head: str, branch: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)

    assert branch_of(tmp_path / "below") == branch


def test_of_a_worktree_the_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "HEAD").write_text("0123456789abcdef\n")
    (tmp_path / ".git").write_text("gitdir: own\n")

    assert branch_of(tmp_path) == "01234567"


@pytest.mark.parametrize("target", ["", "/dev/zero"])
def test_a_pipe_or_a_device_in_the_place_of_the_head_holds_nobody_up(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    head.symlink_to(target) if target else os.mkfifo(head)

    assert branch_of(tmp_path) == ""


def test_a_git_file_that_is_a_pipe_or_nonsense_names_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: a\0b")
    assert branch_of(tmp_path) == ""
    (tmp_path / ".git").unlink()
    os.mkfifo(tmp_path / ".git")
    assert branch_of(tmp_path) == ""
