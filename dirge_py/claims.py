"""What a tool call would do: the only thing the permission engine judges."""

import os.path
import shlex
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

Operation = Literal[
    "read",
    "edit",
    "execute",
    "network",
    "mcp",
    "memory",
    "skill",
    "agent",
    "meta",
    "plugin",
    "other",
]


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command as it would be given to bash, and the absolute folder it would start in."""

    text: str
    cwd: str


Resource: TypeAlias = str | Command


@dataclass(frozen=True, slots=True)
class Claim:
    """One operation on one resource.

    `read` and `edit`: an absolute path, links not yet followed. `execute`: a `Command`.
    `network`: a host name. The rest: a name that a rule can match. An `edit` that `removes` leaves
    nothing at its path: the file is deleted, or gets another name.
    """

    op: Operation
    resource: Resource
    removes: bool = False


def command_in_folder(command: str, folder: str, cwd: str) -> str:
    """The command line that does in `cwd` what `command` does when it is started in `folder`.

    Both are absolute. A command that is started elsewhere is judged, shown and kept by this text,
    so whoever follows a `cd` follows it, too.
    """
    if folder in (cwd, os.path.normpath(cwd)):
        return command
    inside = os.path.relpath(folder, cwd)
    shown = folder if inside.startswith("..") else inside
    return f"cd {shlex.quote(shown if shown[0] not in '-~' else f'./{shown}')} && {command}"
