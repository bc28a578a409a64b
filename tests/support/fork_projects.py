"""Projects for forks to work in, and descriptions of trees to compare.

Does not import pytest, so that a traced program doesn't have to load it.
"""

import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ForkOptions
from dirge_py.types.messages import ToolResultMessage
from tests.support.project import ScriptedProject

LOOK = ForkOptions(history="empty", workspace="read_only")
WORK = ForkOptions(history="empty", workspace="copy")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def committed(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def describe_tree(folder: Path, *, undated: str = "") -> dict[str, tuple[object, ...]]:
    """Everything visible of a tree, including ignored files and `.git`.

    But for the times of what is below `undated`.
    """
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        name = str(path.relative_to(folder))
        has_times = kind != stat.S_IFDIR and not (undated and name.startswith(undated))
        times = (status.st_mtime_ns,) if has_times else ()
        found[name] = (status.st_mode, status.st_uid, status.st_ino, content, *times)
    return found


async def run_commands(
    project: ScriptedProject, fork: Conversation, commands: Sequence[str]
) -> list[ToolResultMessage]:
    """The results of commands that the model calls one after the other."""
    before = len(fork.messages)
    for command in commands:
        project.model.will_call("bash", command=command)
    project.model.will_say("ok")
    await fork.send("x")
    return [m for m in fork.messages[before:] if isinstance(m, ToolResultMessage)]


async def run_unjudged(fork: Conversation, command: str) -> str:
    """The output of a command that no permission rule judged: only its sandbox confines it."""
    assert fork.environment.shells is not None
    ended = await fork.environment.shells.run(command, cwd=str(fork.cwd), timeout_s=20)
    assert not hasattr(ended, "state")
    return (ended.output.head + ended.output.tail).decode(errors="replace")


def text(result: ToolResultMessage) -> str:
    return "".join(block.text for block in result.content if hasattr(block, "text"))
