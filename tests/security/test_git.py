"""Repositories that want git to start a program; git never does so unasked."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.permission.git.files import ACTING_SETTINGS
from tests.permission.conftest import Project
from tests.permission.test_git_config import HOSTILE, marker
from tests.permission.test_git_program_settings import SECRET, Hostile
from tests.security.sizes import ASKED, count
from tests.support.authorizer_driver import AuthorizerDriver

COMMANDS = [
    "git status", "git diff", "git diff --stat", "git diff HEAD", "git diff --cached", "git log -p",
    "git log -1 --stat", "git show", "git show HEAD:README.md", "git blame README.md",
    "git ls-files", "git ls-files -o", "git grep x", "git describe --always --dirty",
    "git check-ignore x", "git branch --list", "git tag -l", "git remote -v", "git stash list",
    "git worktree list", "git rev-parse HEAD", "git rev-list --count HEAD", "git shortlog -s HEAD",
    "git merge-base HEAD HEAD", "git show-ref", "git ls-tree HEAD", "git config --get user.name",
    "cd src && git status", "cd src && git diff", "git -C src status", "git --git-dir=.git status",
    "git diff --ext-diff", "git log -p --textconv", "git log --show-signature",
    "git log --format=%G?", "git status --no-renames | head -3", "git diff --output=out",
    "git grep -O x", "git ls-remote", "git fetch --dry-run", "git stash show", "git add -n .",
]  # fmt: skip
FEW = COMMANDS if ASKED else [*COMMANDS[:4], "cd src && git status", "git log -p --textconv"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path.resolve())
    made.root.joinpath(".gitattributes").write_text("* diff=x filter=x merge=x\n")
    made.git("add", "README.md", "src", ".gitattributes")
    made.git("commit", "-q", "-m", "first")
    made.root.joinpath("README.md").write_text("changed\n")
    yield made
    made.workspace.close()


async def try_all(project: Project, prefix: str = "") -> tuple[int, int]:
    """How many commands asked a user who denies, and how many of them ran.

    What runs unasked really runs.
    """
    driver = AuthorizerDriver(project, loop_guard=0)
    for command in FEW:
        await driver.run(driver.bash(prefix + command))
    return len(FEW), int((project.home / "ran").exists())


async def test_git_settings_that_name_a_program_start_none(project: Project) -> None:
    program = marker(project)
    tried = ran = 0
    for key, value in HOSTILE if ASKED else HOSTILE[::3]:
        project.git("config", "--local", key, value.replace("PROGRAM", str(program)))
        more, bad = await try_all(project)
        tried, ran = tried + more, ran + bad
        # By hand: some of these keys stop git itself from working.
        config = project.root / ".git/config"
        section = key.lower()
        assert section.rpartition(".")[2] in config.read_text().lower()
        shutil.copy(config, project.home / f"kept-{tried}")
        config.write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")

    count("git: hostile settings", tried, ran, "started a program")
    assert (len(HOSTILE) >= 25, ran) == (True, 0)


async def test_read_only_git_commands_start_no_hooks(project: Project) -> None:
    program = marker(project)
    hooks = project.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        (hooks / name).unlink(missing_ok=True)
        (hooks / name).symlink_to(program)

    tried, ran = await try_all(project)

    count("git: hooks", tried, ran, "started a program")
    assert ran == 0


def embedded(project: Project, *, bare: bool) -> Path:
    """A bare repository inside the project that starts a program if git uses it."""
    program = marker(project)
    inner = project.root / "vendor/inner"
    project.git("init", "-q", *(["--bare"] if bare else []), str(inner))
    settings = inner / "config" if bare else inner / ".git/config"
    settings.write_text(
        settings.read_text()
        + f"[core]\n\tfsmonitor = {program}\n\tworktree = {inner}\n"
        + f'[diff "x"]\n\ttextconv = {program}\n[diff]\n\texternal = {program}\n'
    )
    return inner


@pytest.mark.parametrize("bare", [True, False])
async def test_embedded_repository_starts_no_program(project: Project, bare: bool) -> None:
    embedded(project, bare=bare)
    tried = ran = 0
    for prefix in ("", "cd vendor/inner && ", "cd vendor && cd inner && "):
        more, bad = await try_all(project, prefix)
        tried, ran = tried + more, ran + bad

    count("git: embedded repository", tried, ran, "started a program")
    assert ran == 0


@pytest.mark.parametrize("pointer", ["gitdir: {inner}/.git\n", "gitdir: ../vendor/inner/.git"])
async def test_git_link_to_a_hostile_repository_starts_no_program(
    project: Project, pointer: str
) -> None:
    inner = embedded(project, bare=False)
    (project.root / "src/.git").write_text(pointer.format(inner=inner))

    tried, ran = await try_all(project, "cd src && ")

    count("git: link", tried, ran, "started a program")
    assert ran == 0


async def test_hostile_work_tree_starts_no_program(project: Project) -> None:
    program = marker(project)
    tree = project.root / "trees/one"
    project.git("worktree", "add", "-q", str(tree), "-b", "one")
    project.git("config", "--local", "extensions.worktreeConfig", "true")
    project.git("config", "--worktree", "core.fsmonitor", str(program), cwd=tree)
    project.git("config", "--worktree", "diff.external", str(program), cwd=tree)

    tried, ran = await try_all(project, "cd trees/one && ")

    count("git: work tree", tried, ran, "started a program")
    assert ran == 0


async def test_marker_file_shows_that_a_program_was_started(project: Project) -> None:
    program = marker(project)
    project.git("config", "--local", "core.fsmonitor", str(program))

    project.git("status")

    assert (project.home / "ran").exists()


async def test_reading_an_ordinary_repository_needs_no_question(project: Project) -> None:
    driver = AuthorizerDriver(project)

    text = await driver.run(driver.bash("git diff --stat && git log --oneline -1"))

    assert "README.md" in text
    assert driver.user.asked == []


@pytest.mark.parametrize("inside", [False, True])
async def test_no_git_setting_starts_a_program_or_shows_a_secret(
    tmp_path: Path, inside: bool
) -> None:
    """One setting at a time; commands run as the engine runs them, or ask."""
    hostile = Hostile(tmp_path.resolve())
    driver = AuthorizerDriver(hostile.project, loop_guard=0)
    ran = shown = 0
    rows = ACTING_SETTINGS if ASKED else ACTING_SETTINGS[:: len(ACTING_SETTINGS) // 6]
    for row in rows:
        hostile.set(hostile.inner_config if inside else hostile.config, row)
        (hostile.inner / "f").unlink()
        (hostile.inner / "f").write_text("f\n")
        for command in FEW:
            text = await driver.run(driver.bash(command))
            shown += SECRET.split()[0] in text
        ran += (hostile.project.home / "ran").exists()
    hostile.project.workspace.close()

    count("git: settings that act", len(rows) * len(FEW), ran + shown, "acted")
    assert (ran, shown) == (0, 0)
