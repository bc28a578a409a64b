"""What a tool call would do: the only thing the permission engine judges."""

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
    `network`: a host name. The rest: a name that a rule can match.
    """

    op: Operation
    resource: Resource
