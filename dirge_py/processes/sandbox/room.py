"""What a command may see, change and reach; and what shuts it in."""

from collections.abc import Callable
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.launch import Launcher

Kind = Literal["bubblewrap", "landlock", "seatbelt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRoom:
    """The room a command gets; all paths absolute.

    `roots` and `writable` it may write to, except for `.git` and `.dirge` in a root. Of `home` it
    sees the toolchains that PATH leads to, and `readable`. Of `hidden` it sees nothing: that is
    our own state. `hosts` are reached through a proxy of ours, where there is no `network`.
    """

    roots: tuple[str, ...]
    home: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    hosts: tuple[str, ...] = ()


def _nothing_to_close() -> None:
    """What a sandbox that holds nothing does at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """One that was seen to work. `limits` says what this kind cannot do; empty: nothing missing.

    `room` is physical. `close` takes away what was put on disk for it; no command may run any more.
    """

    kind: Kind
    launcher: Launcher
    room: SandboxRoom | None = None
    limits: str = ""
    close: Callable[[], None] = _nothing_to_close


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why there is none, and what a person can do about it."""

    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What holds commands that only look to the read-only profile on this machine."""

    kind: Kind | None
    """None: nothing does, and commands start without the profile."""
    reason: str = ""
    """Why there is none, or what the one that works cannot do; "": nothing is missing."""

    def __str__(self) -> str:
        if self.kind is None:
            return f"none: {self.reason}"
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


class Unfit(Exception):
    """No sandbox can be made of this room: what `NoSandbox` will say."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix
