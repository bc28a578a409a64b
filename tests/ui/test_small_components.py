"""Small parts of the UI: keymap, history, completion, status line, files."""

from pathlib import Path

import pytest

from dirge_py.slash.registry import Registry
from dirge_py.types.extensions import Command
from dirge_py.ui.prompt.completion import complete
from dirge_py.ui.prompt.file_index import list_files
from dirge_py.ui.prompt.text_editor import InputHistory
from dirge_py.ui.status import (
    ContextGauge,
    SpendingStatus,
    StatusModel,
    folder_and_branch,
    status_line,
)
from dirge_py.ui.theme.styles import load_theme, styles_for

STYLES = styles_for(load_theme("dark"))


async def nothing(args: object, conversation: object, front: object) -> None: ...


def test_history_returns_to_draft_after_newest_prompt():
    history = InputHistory()
    for prompt in ("one", "two", "two"):
        history.add(prompt)
    assert [history.older("draft"), history.older("two"), history.older("one")] == [
        "two",
        "one",
        None,
    ]
    assert [history.newer("one"), history.newer("two")] == ["two", "draft"]
    assert history.newer("draft") is None


@pytest.mark.parametrize(
    ("before", "labels"),
    [
        ("/m", ["/mode", "/model"]),
        ("/mode ", ["plan", "yolo"]),
        ("/mode p", ["plan"]),
        ("see @a", ["a b.txt"]),
        ("mail me@a", []),
        ("/usr/b", []),
        ("text /m", []),
    ],
)
def test_proposals_depend_on_text_before_cursor(before: str, labels: list[str]):
    registry = Registry(
        Command(name=name, summary="", run=nothing) for name in ("model", "mode", "quit")
    )
    found = complete(
        before, registry=registry, arguments=lambda name: ["plan", "yolo"], files=["a b.txt"]
    )
    assert [proposal.label for proposal in found] == labels


def test_path_with_space_is_quoted_in_proposal():
    (proposal,) = complete("@a", registry=Registry(), arguments=lambda name: [], files=["a b.txt"])
    assert (proposal.insert, proposal.is_path) == ('@"a b.txt"', True)


def test_nested_gitignore_files_are_respected(tmp_path: Path):
    for name in ("keep.log", "a/x.log", "a/y.py", "build/out.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    (tmp_path / "a" / ".gitignore").write_text("!x.log\n")
    assert [file.path for file in list_files(tmp_path)[0]] == [
        ".gitignore",
        "a/",
        "keep.log",
        "a/.gitignore",
        "a/x.log",
        "a/y.py",
    ]


@pytest.mark.parametrize("invalid", ["[z-a]", "!"])
def test_an_invalid_line_of_an_ignore_file_does_not_count(tmp_path: Path, invalid: str):
    (tmp_path / "x.log").write_text("")
    (tmp_path / ".gitignore").write_bytes(f"{invalid}\r\n*.log\r\n".encode())
    assert [file.path for file in list_files(tmp_path)[0]] == [".gitignore"]


STANDING = StatusModel(
    place="dirge:main",
    model="work/model",
    mode="plan",
    state="working",
    gauge=ContextGauge(used=45_000, window=200_000),
    spending=SpendingStatus(cost_usd=0.1234),
    queued=2,
)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, "dirge:main │ work/model │ plan │ 45k/200k 22% │ $0.1234 │ working │ q:2"),
        (62, "dirge:main │ work/model │ plan │ 45k/200k 22% │ working │ q:2"),
        (40, "plan │ 45k/200k 22% │ working │ q:2"),
        (8, "working"),
        (4, "wor…"),
    ],
)
def test_narrow_status_line_drops_least_important_parts(width: int, line: str):
    assert "".join(text for text, _ in status_line(STANDING, width, STYLES)) == line


def test_empty_values_are_left_out_of_status_line():
    standing = StatusModel(place="", model="", mode="", state="starting")
    assert "".join(text for text, _ in status_line(standing, 80, STYLES)) == "starting"


def test_git_branch_is_read_from_checkout_and_worktree(tmp_path: Path):
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    assert folder_and_branch(repo) == "repo:feature/x"
    tree = tmp_path / "tree"
    (repo / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (repo / ".git" / "worktrees" / "tree" / "HEAD").write_text("0123456789abcdef\n")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {repo}/.git/worktrees/tree\n")
    assert folder_and_branch(tree) == "tree:01234567"
