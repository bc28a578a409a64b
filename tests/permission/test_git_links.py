"""Files of a git folder that point to other files that git would print."""

import os
import subprocess
from collections.abc import Callable
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
def test_symlink_in_git_folder_to_other_file_asks(
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
    assert SECRET in printed(own_project, PLACES[place]), (
        "git prints no secret here, so this case proves nothing"
    )


def test_symlink_in_alternate_object_folder_asks(own_project: Project, secret: Path) -> None:
    lent = own_project.root / "lent/info"
    lent.mkdir(parents=True)
    alternates = own_project.root / ".git/objects/info/alternates"
    alternates.write_text("# comment\n../../lent\n")
    assert own_project.run("git status").effect == "allow"

    (lent / "alternates").symlink_to(secret)

    assert own_project.run("git status").effect == "ask"
    assert SECRET in printed(own_project, "git status")


def test_git_folder_sharing_parts_by_symlinks_of_same_name_is_allowed(own_project: Project) -> None:
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
def test_git_folder_pointing_to_other_repository_asks(own_project: Project, kind: str) -> None:
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


def test_worktree_listed_by_its_repository_is_allowed_and_its_copy_asks(
    own_project: Project,
) -> None:
    own_project.git("commit", "-q", "--allow-empty", "-m", "x")
    tree = own_project.root / "trees/one"
    own_project.git("worktree", "add", "-q", str(tree), "-b", "one")

    assert own_project.run("cd trees/one && git status").effect == "allow"

    (own_project.root / "copy").mkdir()
    (own_project.root / "copy/.git").write_text((tree / ".git").read_text())

    assert own_project.run("cd copy && git status").effect == "ask"


SHOWING = "git log --all -p"


@pytest.fixture
def private(own_project: Project, secret: Path) -> Path:
    """The `.git` of another repository of the user, outside of the workspace."""
    place = own_project.home / "private"
    own_project.git("init", "-q", "-b", "master", str(place))
    (place / "s").write_text(secret.read_text())
    own_project.git("add", "s", cwd=place)
    own_project.git("commit", "-q", "-m", "private", cwd=place)
    return place / ".git"


def set_alternates(git: Path, objects: str) -> None:
    (git / "objects/info").mkdir(exist_ok=True)
    (git / "objects/info/alternates").write_text(f"{objects}\n")


def copy_ref(git: Path, private: Path) -> None:
    (git / "refs/heads/l").write_text((private / "refs/heads/master").read_text())


def link_of_refs(git: Path, private: Path) -> None:
    set_alternates(git, f"{private}/objects")
    (git / "refs/heads/l").symlink_to(private / "refs/heads")


def link_of_objects(git: Path, private: Path) -> None:
    (git / "objects").rename(git / "former")
    (git / "objects").symlink_to(private / "objects")
    for branch in (git / "refs/heads").iterdir():
        branch.unlink()
    copy_ref(git, private)


def links_of_single_folders(git: Path, private: Path) -> None:
    for folder in (private / "objects").glob("??"):
        if not (git / "objects" / folder.name).exists():
            (git / "objects" / folder.name).symlink_to(folder)
    (git / "refs/heads/leak").symlink_to(private / "refs/heads/master")


def alternates_only(git: Path, private: Path) -> None:
    set_alternates(git, f"{private}/objects")
    copy_ref(git, private)


def alternates_quoted(git: Path, private: Path) -> None:
    set_alternates(git, f'"{private}/objects"')
    copy_ref(git, private)


def alternates_in_an_odd_line(git: Path, private: Path) -> None:
    """One line for git, two lines for a reader that splits at more than `\n`."""
    (git / "objects/odd\x0b").mkdir()
    set_alternates(git, "odd\x0b/../../../../private/.git/objects")
    copy_ref(git, private)


def alternates_of_alternates(git: Path, private: Path) -> None:
    between = git.parent / "between"
    (between / "info").mkdir(parents=True)
    (between / "info/alternates").write_text(f"{private}/objects\n")
    set_alternates(git, str(between))
    copy_ref(git, private)


def links_in_alternates(git: Path, private: Path) -> None:
    between = git.parent / "between"
    between.mkdir()
    for folder in (private / "objects").glob("??"):
        (between / folder.name).symlink_to(folder)
    set_alternates(git, str(between))
    copy_ref(git, private)


def link_of_pack_folder(git: Path, private: Path) -> None:
    subprocess.run(["git", "repack", "-qad"], cwd=private, check=True, capture_output=True)
    (git / "objects/pack").rmdir()
    (git / "objects/pack").symlink_to(private / "objects/pack")
    copy_ref(git, private)


def links_of_packs(git: Path, private: Path) -> None:
    subprocess.run(["git", "repack", "-qad"], cwd=private, check=True, capture_output=True)
    for pack in (private / "objects/pack").iterdir():
        (git / "objects/pack" / pack.name).symlink_to(pack)
    copy_ref(git, private)


@pytest.mark.parametrize(
    "reach",
    [link_of_refs, link_of_objects, links_of_single_folders, alternates_only, alternates_quoted,
     alternates_in_an_odd_line, alternates_of_alternates, links_in_alternates,
     link_of_pack_folder, links_of_packs],
)  # fmt: skip
def test_git_folder_that_reaches_objects_of_other_repository_asks(
    own_project: Project, private: Path, reach: Callable[[Path, Path], None]
) -> None:
    git = own_project.root / ".git"
    assert own_project.run(SHOWING).effect == "allow"

    reach(git, private)

    assert own_project.run(SHOWING).effect == "ask"
    assert SECRET in printed(own_project, SHOWING), (
        "git prints no secret here, so this case proves nothing"
    )


@pytest.mark.parametrize(
    "place",
    ["refs/heads/a/b/master", "refs/heads", "refs/tags", "logs/HEAD", "logs/refs/heads/master",
     "refs", "logs", "objects/aa", "packed-refs", "branches/a/b", "worktrees/w/refs/bisect/x",
     "objects/info/commit-graphs/x"],
)  # fmt: skip
def test_git_folder_symlink_leaving_workspace_with_same_name_asks(
    own_project: Project, private: Path, place: str
) -> None:
    git = own_project.root / ".git"
    link = git / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists():
        link.rename(own_project.home / "former")
    link.symlink_to(own_project.home / "elsewhere" / link.name)

    decision = own_project.run("git log")

    assert (decision.effect, place in decision.reason) == ("ask", True)


def test_symlink_created_later_in_checked_git_folder_asks(
    own_project: Project, private: Path
) -> None:
    heads = own_project.root / ".git/refs/heads/deep"
    heads.mkdir()
    assert own_project.run(SHOWING).effect == "allow"
    assert own_project.run(SHOWING).effect == "allow"

    (heads / "master").symlink_to(private / "refs/heads/master")

    assert own_project.run(SHOWING).effect == "ask"
    (heads / "master").unlink()
    assert own_project.run(SHOWING).effect == "allow"


def test_worktree_with_commondir_of_other_repository_asks(
    own_project: Project, private: Path
) -> None:
    tree = own_project.root / "trees/one"
    own_project.git("worktree", "add", "-q", str(tree), "-b", "one")
    assert own_project.run("git worktree list").effect == "allow"

    (own_project.root / ".git/worktrees/one/commondir").write_text(f"{private}\n")

    assert own_project.run("git worktree list").effect == "ask"


def test_worktree_of_repository_outside_workspace_is_allowed(
    own_project: Project, private: Path
) -> None:
    """That repository lists the folder as its work tree."""
    own_project.git("branch", "side", cwd=private.parent)
    tree = own_project.root / "tree"
    own_project.git("worktree", "add", "-q", str(tree), "side", cwd=private.parent)

    assert own_project.run(f"cd tree && {SHOWING}").effect == "allow"


def test_only_shared_clone_of_outside_repository_asks(own_project: Project, private: Path) -> None:
    lent = own_project.root / "lent"
    own_project.git("clone", "-q", "--local", str(private.parent), str(lent))
    own_project.git("clone", "-q", "--shared", str(lent), str(own_project.root / "inside"))
    own_project.git("clone", "-q", "--shared", str(private.parent), str(own_project.root / "out"))

    effects = {
        name: own_project.run(f"cd {name} && {SHOWING}").effect
        for name in ("lent", "inside", "out")
    }

    assert effects == {"lent": "allow", "inside": "allow", "out": "ask"}
