"""Branch and settings, read from a repository with hostile content."""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from dirge_py.git.repository import UnreadableRepository, branch_of, git_folders, parse_settings


@pytest.mark.parametrize(
    ("head", "branch"),
    [("ref: refs/heads/feature/x\n", "feature/x"), ("ref: refs/heads/a\nb\n", "a"), ("ü\0", "ü\0")],
)
def test_branch_name_is_one_line(tmp_path: Path, head: str, branch: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)

    assert branch_of(tmp_path / "below") == branch


def test_git_folder_of_a_worktree_is_found(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "HEAD").write_text("0123456789abcdef\n")
    (tmp_path / ".git").write_text("gitdir: own\n")

    assert branch_of(tmp_path) == "01234567"


@pytest.mark.parametrize("target", ["", "/dev/zero"])
def test_pipe_or_device_as_head_does_not_block(tmp_path: Path, target: str) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    head.symlink_to(target) if target else os.mkfifo(head)

    assert branch_of(tmp_path) == ""


def test_invalid_git_file_has_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: a\0b")
    assert branch_of(tmp_path) == ""
    (tmp_path / ".git").unlink()
    os.mkfifo(tmp_path / ".git")
    assert branch_of(tmp_path) == ""


@pytest.mark.parametrize("text", ["own", "x: own", ""])
def test_git_file_without_a_folder_is_no_repository(tmp_path: Path, text: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "HEAD").write_text("ref: refs/heads/x\n")
    (tmp_path / ".git").write_text(text)

    assert branch_of(tmp_path) == ""
    assert git_folders(str(tmp_path)) is None


QUIET_GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
NASTY = [
    '[core]\n\tfsmonitor = x\n[Diff "A.b"]\n  TextConv = y ; c\n[a]b=c\nd\n',
    "[core] fsmonitor = x\n# comment\n; comment\n\n",
    '[remote "or\\"igin"]\n\turl = a\\\nb\n',
    "\ufeff[core]\r\n\tpager = x\r\n",
    '[core]\n# x \\\n[diff "evil"]\n\ttextconv = x\n',
    '[core]\nabbrev = 9 # x \\\n[diff "evil"]\n\ttextconv = x\n',
    '[core]\nabbrev = 9 ; x \\\n[diff "evil"] textconv = x',
    '[core] [diff "evil"] textconv = x # y\n',
    "[a.B] c = d\n[A] e=f",
    '[a]\nb = "x # y" z\nc = "a;\\\nd" # e\n d = a\\\n   b  \n',
    "[a]\n b \n c\t= \td e \t f  \n g =\n",
    "[a]\r\nb = c\\\r\nd\r\n# x \\\r\ne = f\r\n",
    "[a]\nb = c\rd\n\re = f\n",
    '[a "b\\c\\\\d"]\nx = "\\t\\n\\b\\"\\\\"\n',
    "[a]\nb = \\\n\\\n  c\n",
    '[a ""]\nb = ""c""\n[]\nd = e\n',
    "[a]b = ' # x\nc = d '\n",
    "# only \\\n",
    "[a]\nb = c\\",
    "[a]\nb = c\\\n",
    "[a]\nb =   \\\n  # d = e\nf = g\n",
]  # fmt: skip


def told_by_git(file: Path) -> list[tuple[str, str]] | None:
    """Git's own parse of a settings file; None if git rejects it."""
    done = subprocess.run(
        ["git", "config", "--file", str(file), "--list", "-z"],
        env={**os.environ, **QUIET_GIT},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        return None
    entries = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    # Versions of git differ in whether a tab within a value stays one.
    return [
        (name, re.sub(r"[\t\r]", " ", value))
        for name, _, value in (one.partition("\n") for one in entries)
    ]


def told_by_us(text: str) -> list[tuple[str, str]] | None:
    try:
        return [(name, re.sub(r"[\t\r]", " ", value)) for name, value in parse_settings(text)]
    except UnreadableRepository:
        return None


@pytest.mark.parametrize("text", NASTY)
def test_config_reader_finds_the_values_that_git_finds(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(text.encode())

    assert told_by_us(text) == told_by_git(file)


def test_config_reader_agrees_with_git_on_random_text(tmp_path: Path) -> None:
    choice = random.Random(5)
    pieces = ["[a]", '[b "c"]', "[D.e]", "k", "=", "v", " ", "\t", "\n", "\n", "\r\n", "\r"]
    pieces += ["\\", "\\\n", '"', "#", ";", "'", "\\n", "-", "]", "[", "9"]
    file = tmp_path / "config"
    for _ in range(300):
        text = "[s]\n" + "".join(choice.choices(pieces, k=choice.randint(1, 12)))
        file.write_bytes(text.encode())
        assert told_by_us(text) == told_by_git(file), text


@pytest.mark.parametrize("text", ["x = y\n", "[core\nx = y", "[core]\n!x\n", "[a]\nb = \0\n"])
def test_config_that_git_cannot_have_written_is_refused(text: str) -> None:
    with pytest.raises(UnreadableRepository):
        parse_settings(text)
