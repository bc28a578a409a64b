"""The state of the git checkout, for the side panel; imported at the panel's first use."""

import asyncio
import os
from functools import partial
from pathlib import Path

from dirge_py.git.repository import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git.repository import GIT_HARDENING, git_hazard
from dirge_py.ui.programs import ScreenPrograms


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """The state of a checkout; `staged`, `unstaged` and `untracked` count files."""

    branch: str
    staged: int = 0
    unstaged: int = 0
    untracked: int = 0
    subject: str = ""
    """The first line of the last commit message."""
    is_withheld: bool = False
    """Only the branch is known, as git would run programs that the repository names."""


async def read_git_status(programs: ScreenPrograms, cwd: Path) -> GitStatus | None:
    """Return the state of the checkout; None outside of one or without git."""
    # `git status` may run programs that the repository names, without the person's permission.
    if await asyncio.to_thread(git_hazard, os.path.realpath(cwd)):
        branch = branch_of(cwd)
        return GitStatus(branch=branch, is_withheld=True) if branch else None
    ask = partial(programs.ask, "git", cwd=cwd, variables=GIT_HARDENING)
    status = await ask("status", "--porcelain=v2", "--branch", "--ignore-submodules=all")
    if status is None:
        return None
    return parse_git_status(status, (await ask("log", "-1", "--format=%s") or "").strip())


def parse_git_status(status: str, subject: str = "") -> GitStatus:
    """Parse the output of `git status --porcelain=v2 --branch`."""
    lines = [line.split(" ", 2) for line in status.split("\n")]
    headers = {words[1]: words[-1] for words in lines if words[0] == "#"}
    changes = [words[1] for words in lines if words[0] in ("1", "2")]
    kinds = [words[0] for words in lines]
    branch = headers.get("branch.head", "")
    return GitStatus(
        branch=headers.get("branch.oid", "")[:8] if branch == "(detached)" else branch,
        staged=sum(change[0] != "." for change in changes),
        unstaged=sum(change[1] != "." for change in changes) + kinds.count("u"),
        untracked=kinds.count("?"),
        subject=subject,
    )
