"""How the checkout is: its branch, how much changed, the last commit."""

import asyncio
import importlib
import os
from functools import partial
from pathlib import Path

from dirge_py.files.git import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.programs import Programs


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStanding:
    """`staged`, `unstaged` and `untracked` count files; `subject` is that of the last commit.

    `is_withheld`: nothing is known but the branch, as the repository names programs that git would
    start.
    """

    branch: str
    staged: int = 0
    unstaged: int = 0
    untracked: int = 0
    subject: str = ""
    is_withheld: bool = False


async def git_standing(programs: Programs, cwd: Path) -> GitStanding | None:
    """As git tells; None outside of a checkout, or where there is no git."""
    settings = importlib.import_module("dirge_py.permission.git.repository")
    # Nobody was asked whether the repository may run anything, and `git status` might.
    if await asyncio.to_thread(settings.hazard, os.path.realpath(cwd)):
        branch = branch_of(cwd)
        return GitStanding(branch=branch, is_withheld=True) if branch else None
    ask = partial(programs.ask, "git", cwd=cwd, variables=settings.GIT_HARDENING)
    status = await ask("status", "--porcelain=v2", "--branch", "--ignore-submodules=all")
    if status is None:
        return None
    subject = await ask("log", "-1", "--format=%s")
    return read_status(status, (subject or "").strip())


def read_status(status: str, subject: str = "") -> GitStanding:
    """What `git status --porcelain=v2 --branch` says."""
    branch, oid = "", ""
    staged = unstaged = untracked = 0
    for line in status.splitlines():
        kind, _, rest = line.partition(" ")
        if line.startswith("# branch.head "):
            branch = line.removeprefix("# branch.head ")
        elif line.startswith("# branch.oid "):
            oid = line.removeprefix("# branch.oid ")
        elif kind in ("1", "2"):
            staged += rest[:1] != "."
            unstaged += rest[1:2] != "."
        elif kind == "u":
            unstaged += 1
        elif kind == "?":
            untracked += 1
    return GitStanding(
        branch=oid[:8] if branch == "(detached)" else branch,
        staged=staged,
        unstaged=unstaged,
        untracked=untracked,
        subject=subject,
    )
