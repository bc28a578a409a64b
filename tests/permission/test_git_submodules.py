"""Submodules that git could enter, however the repository hides them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.permission.git.repository import GIT_HARDENING

from .conftest import QUIET_GIT, Project
from .test_git_config import marker

ENTERING = (
    "git status; git diff; git diff --stat HEAD; git diff --cached; git show HEAD; git log -p"
)


def inner_repository(project: Project, path: str) -> Path:
    """A repository at `path` that starts a program when git compares its files."""
    inner = project.root / path
    inner.mkdir(parents=True)
    (inner / "f").write_text("f\n")
    project.git("init", "-q", cwd=inner)
    project.git("add", "f", cwd=inner)
    project.git("commit", "-q", "-m", "inner", cwd=inner)
    return inner


def make_hostile(project: Project, inner: Path) -> None:
    program = marker(project)
    (inner / ".gitattributes").write_text("* filter=x\n")
    project.git("config", "--local", "filter.x.clean", str(program), cwd=inner)
    project.git("config", "--local", "diff.external", str(program), cwd=inner)
    # A new file: git compares its contents.
    (inner / "f").unlink()
    (inner / "f").write_text("F\n")


def name_module(project: Project, path: str, *more: str) -> None:
    lines = [f'[submodule "{path}"]', f"\tpath = {path}", "\turl = ./x", *(f"\t{m}" for m in more)]
    with (project.root / ".gitmodules").open("a") as file:
        file.write("\n".join(lines) + "\n")


def starts_a_program(project: Project, command: str = ENTERING, *, hardened: bool = True) -> bool:
    marker = project.home / "ran"
    marker.unlink(missing_ok=True)
    subprocess.run(
        ["bash", "-c", command],
        cwd=project.root,
        env={**os.environ, **QUIET_GIT, **(GIT_HARDENING if hardened else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return marker.exists()


@pytest.fixture
def project(own_project: Project) -> Project:
    """A project with a committed submodule `sub` with hostile settings."""
    inner = inner_repository(own_project, "sub")
    name_module(own_project, "sub", "ignore = none")
    own_project.git("add", "README.md", "src", "sub", ".gitmodules")
    own_project.git("commit", "-q", "-m", "first")
    make_hostile(own_project, inner)
    return own_project


def plain(project: Project) -> None:
    pass


def split_index(project: Project) -> None:
    project.git("update-index", "--split-index")
    assert list((project.root / ".git").glob("sharedindex.*"))


def split_index_v4(project: Project) -> None:
    project.git("update-index", "--index-version", "4")
    split_index(project)


def split_index_twice(project: Project) -> None:
    split_index(project)
    project.git("add", "notes.txt")


def index_v3(project: Project) -> None:
    (project.root / "new").write_text("new\n")
    project.git("add", "--intent-to-add", "new")


def index_v4(project: Project) -> None:
    project.git("update-index", "--index-version", "4")


def strange_mode(project: Project) -> None:
    """Git reads only four bits of the mode."""
    index = project.root / ".git/index"
    content = index.read_bytes().replace(b"\0\0\xe0\0", b"\0\0\xe1\x24")
    index.write_bytes(content)
    project.git("config", "--local", "index.threads", "1")


def ignore_untracked(project: Project) -> None:
    modules = project.root / ".gitmodules"
    modules.write_text(modules.read_text().replace("none", "untracked"))


def ignored_by_config(project: Project) -> None:
    (project.root / ".gitmodules").unlink()
    name_module(project, "sub")
    project.git("config", "--local", "submodule.sub.ignore", "none")


def named_by_index_only(project: Project) -> None:
    (project.root / ".gitmodules").unlink()


def named_by_head_only(project: Project) -> None:
    project.git("rm", "-q", "--cached", ".gitmodules")
    (project.root / ".gitmodules").unlink()


def absorbed(project: Project) -> None:
    project.git("submodule", "absorbgitdirs")
    assert (project.root / ".git/modules/sub/config").is_file()


def elsewhere_by_pointer(project: Project) -> None:
    (project.root / "sub/.git").rename(project.root / "moved")
    (project.root / "sub/.git").write_text("gitdir: ../moved\n")


@pytest.mark.parametrize(
    "hide",
    [plain, split_index, split_index_v4, split_index_twice, index_v3, index_v4, strange_mode,
     ignore_untracked, ignored_by_config, named_by_index_only, named_by_head_only, absorbed,
     elsewhere_by_pointer],
)  # fmt: skip
def test_hostile_submodule_asks_with_any_index_and_module_layout(
    project: Project, hide: Callable[[Project], None]
) -> None:
    hide(project)

    decision = project.run("git status")
    assert decision.effect == "ask"
    assert starts_a_program(project), "git starts no program here, so this case proves nothing"


def test_submodule_missing_from_index_asks(project: Project) -> None:
    project.git("rm", "-q", "--cached", "sub")
    project.git("config", "--local", "diff.submodule", "diff")

    assert project.run("git show HEAD").effect == "ask"
    assert not starts_a_program(project)
    assert starts_a_program(project, hardened=False)


def test_submodule_replaced_by_symlink_asks_and_starts_nothing(project: Project) -> None:
    (project.root / "sub").rename(project.root / "elsewhere")
    (project.root / "sub").symlink_to("elsewhere")

    assert project.run("git status").effect == "ask"
    assert not starts_a_program(project)


def test_submodule_only_in_history_is_not_entered(project: Project) -> None:
    project.git("rm", "-q", "--cached", "sub", ".gitmodules")
    (project.root / ".gitmodules").unlink()
    project.git("commit", "-q", "-m", "no submodule")
    project.git("config", "--local", "diff.submodule", "diff")

    assert project.run("git log -p").effect == "allow"
    assert not starts_a_program(project)
    assert starts_a_program(project, "git log -p", hardened=False)


def test_hostile_config_of_nested_submodule_asks(own_project: Project) -> None:
    inner = inner_repository(own_project, "sub")
    inmost = inner_repository(own_project, "sub/deep")
    own_project.git("add", "deep", cwd=inner)
    own_project.git("update-index", "--split-index", cwd=inner)
    name_module(own_project, "sub", "ignore = none")
    own_project.git("add", "sub", ".gitmodules")
    assert own_project.run("git status").effect == "allow"

    own_project.git("config", "--local", "filter.x.clean", "x", cwd=inmost)

    assert "sub/deep/.git/config" in own_project.run("git status").reason


def test_linked_worktree_is_searched_for_submodules(project: Project) -> None:
    tree = project.root / "trees/one"
    project.git("worktree", "add", "-q", str(tree), "-b", "one")
    assert project.run("cd trees/one && git status").effect == "ask"


def test_unreadable_index_asks_unless_all_submodules_are_ignored(
    own_project: Project,
) -> None:
    own_project.git("add", "README.md")
    index = own_project.root / ".git/index"
    index.write_bytes(b"DIRC\0\0\0\x09" + index.read_bytes()[8:])
    assert own_project.run("git status").effect == "ask"

    name_module(own_project, "sub")
    assert own_project.run("git status").effect == "allow"
    name_module(own_project, "other", "ignore = dirty")
    assert own_project.run("git status").effect == "allow"
    name_module(own_project, "third", "ignore = nonsense")
    assert own_project.run("git status").effect == "ask"


@pytest.mark.parametrize("value", ["none", "untracked"])
@pytest.mark.parametrize("name", ["status", "diff"])
def test_git_option_that_enters_submodules_asks(
    own_project: Project, name: str, value: str
) -> None:
    assert own_project.run(f"git {name} --ignore-submodules={value}").effect == "ask"
    assert own_project.run(f"git {name} --ignore-submodules=all").effect == "allow"


def test_ordinary_submodules_are_allowed(own_project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    own_project.git("init", "-q", str(other))
    own_project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    for name in ("vendor/one", "vendor/two"):
        own_project.git(
            "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), name
        )
    own_project.git("commit", "-q", "-m", "submodules")
    assert own_project.run("git status && git diff && git log -p").effect == "allow"
    assert own_project.run("cd vendor/one && git status").effect == "allow"

    own_project.git("submodule", "deinit", "-q", "-f", "vendor/one")

    assert own_project.run("git status").effect == "allow"


def test_submodule_in_sparse_index_asks(project: Project) -> None:
    project.git("sparse-checkout", "init", "--cone", "--sparse-index")
    project.git("sparse-checkout", "set", "src")

    decision = project.run("git status")

    assert decision.effect == "ask"


def test_sparse_index_without_submodules_is_allowed(own_project: Project) -> None:
    for name in ("lib/a", "lib/b/c"):
        (own_project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (own_project.root / name).write_text("x\n")
    own_project.git("add", "lib", "src", "README.md")
    own_project.git("commit", "-q", "-m", "first")
    own_project.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    assert b"sdir" in (own_project.root / ".git/index").read_bytes()
    assert own_project.run("git status").effect == "allow"

    (own_project.root / "lib").mkdir(exist_ok=True)

    assert own_project.run("git status").effect == "ask"


def test_hook_of_submodule_is_not_run_by_hardened_git(own_project: Project) -> None:
    inner = inner_repository(own_project, "sub")
    name_module(own_project, "sub", "ignore = none")
    own_project.git("add", "sub", ".gitmodules")
    hooks = inner / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").unlink(missing_ok=True)
    (hooks / "post-index-change").symlink_to(marker(own_project))
    renewed = "mv sub/f sub/g; cp sub/g sub/f; rm sub/g; touch -d 2001-01-01 sub/f; "

    assert own_project.run("git status").effect == "allow"
    assert not starts_a_program(own_project, renewed + "git status; git diff")
    assert starts_a_program(own_project, renewed + "cd sub; git status", hardened=False)


LOOKS = (
    "git status -s", "git status --porcelain=v2", "git diff", "git diff --cached", "git diff HEAD",
    "git diff --stat HEAD", "git diff HEAD~1", "git show", "git show --stat HEAD",
    "git log -p", "git log --stat --format=%s",
)  # fmt: skip


def test_hardened_git_prints_same_output_about_changed_submodules(
    own_project: Project, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    own_project.git("init", "-q", str(other))
    own_project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other))
    for name in ("committed", "staged", "ahead"):
        own_project.git(*add, f"vendor/{name}")
    own_project.git("commit", "-q", "-m", "first")
    for name in ("committed", "staged", "ahead"):
        inner = own_project.root / "vendor" / name
        own_project.git("commit", "-q", "--allow-empty", "-m", "y", cwd=inner)
        if name != "ahead":
            own_project.git("add", f"vendor/{name}")
        if name == "committed":
            own_project.git("commit", "-q", "-m", "second")

    for look in LOOKS:
        assert own_project.run(look).effect == "allow"
        output = [
            subprocess.run(
                look.split(),
                cwd=own_project.root,
                env={**os.environ, **QUIET_GIT, **more},
                capture_output=True,
                check=True,
                timeout=60,
            ).stdout
            for more in ({}, GIT_HARDENING)
        ]
        assert output[0] == output[1], look
        assert b"vendor/" in output[1], look


def test_hardened_git_does_not_compare_files_of_submodule(project: Project) -> None:
    """Git compares its commit, which starts no program."""
    (project.root / ".gitmodules").unlink()
    name_module(project, "sub")
    program = marker(project)
    inner = project.root / "sub"
    project.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "y",
                cwd=inner)  # fmt: skip
    project.git("config", "--local", "core.fsmonitor", str(program), cwd=inner)
    more = "; git status -vv; git diff HEAD; git diff HEAD --stat; git log -p --cc; git stash list"

    assert not starts_a_program(project, ENTERING + more)
    assert starts_a_program(project, ENTERING + more, hardened=False)
