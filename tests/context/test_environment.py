import datetime
import os

import pytest

from dirge_py.context.system_prompt import describe_environment, git_state


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_the_branch_is_read_by_hand(repository):
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (repository / "src").mkdir()

    assert git_state(repository) == "branch feature/x"
    assert git_state(repository / "src") == "branch feature/x"


def test_a_commit_without_a_branch_is_named(repository):
    (repository / ".git" / "HEAD").write_text("0123456789abcdef" + "0" * 24 + "\n")

    assert git_state(repository) == "detached at 0123456789ab"


def test_a_worktree_has_its_own_branch(tmp_path):
    folder = tmp_path / "main" / ".git" / "worktrees" / "w"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")

    assert git_state(tmp_path / "w") == "branch side"


@pytest.mark.parametrize(
    "head",
    [b"", b"\xff\xfe", b"ref: refs/heads/x\ny\n", b"ref: refs/heads/a\xe2\x80\xaeb\n", b"x" * 9000],
)
def test_a_head_that_tells_stories_is_not_repeated(repository, head):
    (repository / ".git" / "HEAD").write_bytes(head)

    assert git_state(repository) == "a repository"


def test_a_pipe_in_place_of_head_does_not_block(repository):
    os.mkfifo(repository / ".git" / "HEAD")

    assert git_state(repository) == "a repository"


def test_the_description_holds_folder_day_and_git(tmp_path):
    text = describe_environment(tmp_path, today=datetime.date(2026, 3, 1))

    assert f"Working directory: {tmp_path}\n" in text
    assert "Date: 2026-03-01\n" in text
    assert text.endswith("Git: not a repository")


def test_git_is_never_run(repository, tmp_path, monkeypatch):
    programs, canary = tmp_path / "bin", tmp_path / "canary"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (programs / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    describe_environment(repository, today=datetime.date(2026, 3, 1))

    assert not canary.exists()
