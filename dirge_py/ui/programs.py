"""Small programs that the screen runs, such as git and tmux, and the state of the git checkout.

None runs for long, none has a terminal.
"""

import asyncio
import importlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.files.git import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.processes.runner import Runner


_TIMEOUT_S = 5.0


class ScreenPrograms:
    """Made when the first one is asked; `aclose` ends what still runs."""

    def __init__(self) -> None:
        self._runner: Runner | None = None

    async def ask(
        self,
        program: str,
        *arguments: str,
        cwd: Path,
        variables: Mapping[str, str] | None = None,
    ) -> str | None:
        """What the program writes; None if it is not there, fails or takes too long.

        One that lies in `cwd` is not started, nor one in the repository around it: it could be the
        repository's. `variables` are put into its environment, which is that of every command and
        not the person's.
        """
        programs = importlib.import_module("dirge_py.processes.programs")
        outside = [str(cwd), *programs.project_folders(str(cwd))]
        found = programs.find_program(program, outside=outside)
        if not found:
            return None
        try:
            finished = await self._running().run(
                [found, *arguments], cwd=str(cwd), timeout_s=_TIMEOUT_S, extra_env=variables
            )
        except ProcessError:
            return None
        if finished.exit_code != 0:
            return None
        return (finished.output.head + finished.output.tail).decode("utf-8", "replace")

    async def aclose(self) -> None:
        if self._runner is not None:
            await self._runner.shutdown()

    def _running(self) -> "Runner":
        if self._runner is None:
            environment = importlib.import_module("dirge_py.processes.environment")
            runner = importlib.import_module("dirge_py.processes.runner")
            self._runner = runner.Runner(environment.EnvironmentPolicy())
        assert self._runner is not None
        return self._runner


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
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


async def read_git_status(programs: ScreenPrograms, cwd: Path) -> GitStatus | None:
    """As git tells; None outside of a checkout, or where there is no git."""
    settings = importlib.import_module("dirge_py.permission.git.repository")
    # Nobody was asked whether the repository may run anything, and `git status` might.
    if await asyncio.to_thread(settings.git_hazard, os.path.realpath(cwd)):
        branch = branch_of(cwd)
        return GitStatus(branch=branch, is_withheld=True) if branch else None
    ask = partial(programs.ask, "git", cwd=cwd, variables=settings.GIT_HARDENING)
    status = await ask("status", "--porcelain=v2", "--branch", "--ignore-submodules=all")
    if status is None:
        return None
    subject = await ask("log", "-1", "--format=%s")
    return parse_git_status(status, (subject or "").strip())


def parse_git_status(status: str, subject: str = "") -> GitStatus:
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
    return GitStatus(
        branch=oid[:8] if branch == "(detached)" else branch,
        staged=staged,
        unstaged=unstaged,
        untracked=untracked,
        subject=subject,
    )
