"""What a command in a sandbox may see, change, reach and consume.

The limits suffice for any build and keep the machine responsive. Memory has no limit: sanitizers,
Java and WebAssembly reserve more address space than any machine has.
"""

import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

Kind = Literal["bubblewrap", "landlock", "seatbelt"]
Permit = Literal["git", "network"]
"""What a sandbox denies a command unless it was allowed: to change `.git`; to reach hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What a launcher knows about the command it wraps."""

    cwd: str
    """The folder it starts in."""
    environment: Mapping[str, str]
    """All its variables."""
    call_id: str
    """The tool call that it runs for; "" for a probe."""
    permits: frozenset[Permit] = frozenset()
    """What it may do although the sandbox would deny it by default."""
    shows: Sequence[str] = ()
    """Places that it reads, wherever they are: approved paths, and what it runs."""


Launcher: TypeAlias = Callable[[list[str], LaunchSpec], list[str]]
"""Returns the argument list to start instead, such as the same one inside a sandbox."""

Restrict: TypeAlias = Callable[[], None]
"""Restricts the calling thread, and processes it starts. After an OSError, start nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProfile:
    """What a command in a sandbox may see, change and reach; all paths absolute."""

    roots: tuple[str, ...]
    """Folders of the workspace: writable, except for `.git` and `.dirge` directly in them."""
    home: str
    """The home folder: hidden, except for the toolchains that PATH leads to, and `readable`."""
    writable: tuple[str, ...] = ()
    """Further folders to write to."""
    readable: tuple[str, ...] = ()
    """Places below `home` to show read-only."""
    hidden: tuple[str, ...] = ()
    """Folders that a command sees as empty: the state of dirge itself."""
    network: bool = False
    """Whether every command may reach the network."""
    hosts: tuple[str, ...] = ()
    """Hosts that commands reach through dirge's proxy, if there is no `network`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A sandbox that worked in a test."""

    kind: Kind
    """The kind of sandbox."""
    launcher: Launcher
    """Wraps the argument list of a command, so that it runs inside."""
    profile: SandboxProfile | None = None
    """What commands may see, change and reach; its paths are physical."""
    limits: str = ""
    """What this kind of sandbox cannot do; "" if there is nothing."""
    close: Callable[[], None] = lambda: None
    """Removes its files from the disk. No command may run any more."""


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why there is no sandbox on this machine."""

    reason: str
    """Why, as the end of a sentence."""
    fix: str
    """What the user can do about it."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What restricts read-only commands to the read-only profile on this machine."""

    kind: Kind | None
    """None: no mechanism works, and commands start without the profile."""
    reason: str = ""
    """Why there is none, or what the working one cannot do; "" if there is nothing."""

    def __str__(self) -> str:
        if self.kind is None:
            return f"none: {self.reason}"
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedStart:
    """How to start a command in the read-only profile."""

    arguments: list[str]
    """The arguments to start instead of the command's."""
    environment: Mapping[str, str]
    """Additional variables."""
    restrict: Restrict | None = None
    """Called first by the thread that starts it."""


_MIB = 1024 * 1024
_WANTED = {
    resource.RLIMIT_CORE: ("c", 0, 1024),
    resource.RLIMIT_CPU: ("t", 12 * 3600, 1),  # seconds of each process, over all its threads
    resource.RLIMIT_FSIZE: ("f", 64 * 1024 * _MIB, 1024),
    resource.RLIMIT_NPROC: ("u", 16_384, 1),
    resource.RLIMIT_NOFILE: ("n", 65_536, 1),
}
"""The letter, the value, and the unit in which bash counts it, of each limit."""


def lowered_limits() -> Sequence[tuple[int, int, int]]:
    """Return limit, soft and hard value of all that are higher or missing now."""
    return [
        (limit, min(soft, value) if soft != resource.RLIM_INFINITY else value, value)
        for limit, (_letter, value, _unit) in _WANTED.items()
        for soft, hard in [resource.getrlimit(limit)]
        if hard == resource.RLIM_INFINITY or hard > value
    ]


def limits_as_shell() -> str:
    """Return bash statements that set the limits, each ended by a semicolon."""
    statements = ""
    for limit, soft, hard in lowered_limits():
        letter, _value, unit = _WANTED[limit]
        statements += f"ulimit -S{letter} {soft // unit}; ulimit -H{letter} {hard // unit}; "
    return statements
