"""How the checkout is: its branch, how much changed, the last commit."""

from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.programs import Programs


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStanding:
    """`staged`, `unstaged` and `untracked` count files; `subject` is that of the last commit."""

    branch: str
    staged: int = 0
    unstaged: int = 0
    untracked: int = 0
    subject: str = ""


async def git_standing(programs: Programs, cwd: Path) -> GitStanding | None:
    """As git tells; None outside of a checkout, or where there is no git."""
    status = await programs.ask("git", "status", "--porcelain=v2", "--branch", cwd=cwd)
    if status is None:
        return None
    subject = await programs.ask("git", "log", "-1", "--format=%s", cwd=cwd)
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
