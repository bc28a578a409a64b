"""Where the agent is: folder, system, day, git branch. For the system prompt."""

import datetime
import os
import platform
import re
from pathlib import Path

from dirge_py.files.regular_file import read_regular

_MAX_BYTES = 4096
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\\\[]{1,200})\n?")
_COMMIT = re.compile(r"([0-9a-f]{12})[0-9a-f]{28,52}\n?")


def describe_environment(cwd: Path, *, today: datetime.date) -> str:
    """Lines about this machine and folder that stay true for a run."""
    git = git_state(cwd)
    lines = [
        f"Working directory: {cwd}",
        f"System: {platform.system()} {platform.release()} ({platform.machine()})",
        f"Date: {today.isoformat()}",
        f"Git: {git}" if git else "Git: not a repository",
    ]
    return "# Environment\n\n" + "\n".join(lines)


def git_state(folder: Path) -> str | None:
    """`branch main`, `detached at 1a2b3c4d5e6f`, `a repository`; None outside of one.

    Read from `.git/HEAD` by hand: running git in a folder runs what the folder's own configuration
    says, and nobody has trusted it yet.
    """
    git = next((path for path in _git_paths(folder) if os.path.lexists(path)), None)
    if git is None:
        return None
    head = _small_text(_git_folder(git) / "HEAD") or ""
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch[1]}" if branch[1].isprintable() else "a repository"
    if commit := _COMMIT.fullmatch(head):
        return f"detached at {commit[1]}"
    return "a repository"


def _git_paths(folder: Path) -> list[Path]:
    return [parent / ".git" for parent in (folder, *folder.parents)]


def _git_folder(git: Path) -> Path:
    """The folder that holds HEAD; in a worktree or submodule `.git` is a file that names it."""
    text = _small_text(git)
    if text is None or not text.startswith("gitdir: "):
        return git
    return git.parent / text.removeprefix("gitdir: ").strip()


def _small_text(path: Path) -> str | None:
    """The text of a small regular file, else None."""
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
