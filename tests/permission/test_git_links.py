"""Files of a git folder that stand for other files, of which git would print lines."""

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import QUIET_GIT, Project

SECRET = "canary-71b0"
PLACES = {
    "packed-refs": "git log",
    "shallow": "git log",
    "info/grafts": "git log",
    "info/attributes": "git diff",
    "objects/info/alternates": "git status",
    "branches/x": "git remote get-url x",
    "worktrees/w/gitdir": "git worktree list",
    "rebase-merge/done": "git status",
}


def printed(project: Project, command: str) -> str:
    done = subprocess.run(
        command.split(),
        cwd=project.root,
        env={**os.environ, **QUIET_GIT},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.fixture
def secret(own_project: Project) -> Path:
    own_project.git("add", "README.md")
    own_project.git("commit", "-q", "-m", "first")
    (own_project.root / "README.md").write_text("changed\n")
    file = own_project.home / "secret"
    file.write_text(f"{SECRET} !!{SECRET}%\n")
    return file


@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_the_git_folder_to_another_file_asks(
    own_project: Project, secret: Path, place: str
) -> None:
    assert own_project.run(PLACES[place]).effect == "allow"
    link = own_project.root / ".git" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if place.startswith("rebase-merge"):
        (link.parent / "interactive").touch()
        (link.parent / "onto").write_text("f\n")
        (link.parent / "git-rebase-todo").touch()
    link.symlink_to(secret)

    decision = own_project.run(PLACES[place])

    assert decision.effect == "ask"
    assert place in decision.reason
    assert SECRET in printed(own_project, PLACES[place]), "git would print nothing of it"


def test_a_link_in_a_folder_that_is_borrowed_from_asks(own_project: Project, secret: Path) -> None:
    lent = own_project.root / "lent/info"
    lent.mkdir(parents=True)
    alternates = own_project.root / ".git/objects/info/alternates"
    alternates.write_text("# who lends\n../../lent\n")
    assert own_project.run("git status").effect == "allow"

    (lent / "alternates").symlink_to(secret)

    assert own_project.run("git status").effect == "ask"
    assert SECRET in printed(own_project, "git status")


def test_folders_shared_by_links_of_the_same_names_ask_nothing(own_project: Project) -> None:
    other = own_project.root / "other"
    own_project.git("init", "-q", str(other))
    for name in ("config", "objects", "info", "packed-refs"):
        place = other / ".git" / name
        if place.is_dir():
            place.rename(other / name)
        else:
            place.unlink(missing_ok=True)
            (own_project.root / ".git" / name).touch()
        place.symlink_to(own_project.root / ".git" / name)

    assert own_project.run("cd other && git status").effect == "allow"


@pytest.mark.parametrize("kind", ["pointer", "link", "commondir"])
def test_another_repository_in_the_place_of_ones_own_asks(own_project: Project, kind: str) -> None:
    private = own_project.home / "private"
    own_project.git("init", "-q", str(private))
    inner = own_project.root / "inner"
    inner.mkdir()
    if kind == "pointer":
        (inner / ".git").write_text(f"gitdir: {private}/.git\n")
    elif kind == "link":
        (inner / ".git").symlink_to(private / ".git")
    else:
        own_project.git("init", "-q", str(inner))
        (inner / ".git/commondir").write_text(f"{private}/.git\n")

    assert own_project.run("cd inner && git log -p").effect == "ask"
    assert own_project.run("git log -p").effect == "allow"


def test_a_work_tree_that_its_repository_knows_asks_nothing(own_project: Project) -> None:
    own_project.git("commit", "-q", "--allow-empty", "-m", "x")
    tree = own_project.root / "trees/one"
    own_project.git("worktree", "add", "-q", str(tree), "-b", "one")

    assert own_project.run("cd trees/one && git status").effect == "allow"

    (own_project.root / "copy").mkdir()
    (own_project.root / "copy/.git").write_text((tree / ".git").read_text())

    assert own_project.run("cd copy && git status").effect == "ask"
