"""What a part of the program, or a plugin, hands over for front ends to read: plain records.

Nothing here acts. `slash` dispatches commands; a front end that draws reads keys and themes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

CommandBody: TypeAlias = Callable[[str, Any, Any], Awaitable[None]]
"""`(args, conversation, front)`: args without the name, a `Conversation`, a `slash.base.FrontEnd`.

Declared loosely because both stand above the vocabulary; `slash/base.py` names the precise types.
"""

Completer: TypeAlias = Callable[[Any], Sequence[str]]
"""Gets the conversation; returns the arguments worth offering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One slash command, written without its slash.

    `while_running`: may it run during a run: `yes`, `no`, or `listing` (only without arguments).
    `headless`: also usable as the prompt of `dirge -p`.
    """

    name: str
    summary: str
    run: CommandBody
    usage: str = ""
    aliases: tuple[str, ...] = ()
    while_running: Literal["yes", "listing", "no"] = "yes"
    headless: bool = False
    complete: Completer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBinding:
    """Keys that run `command` (a slash command with its arguments)."""

    id: str
    keys: tuple[str, ...]
    command: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours by role, as `#rrggbb`; a role that is missing is taken from the default theme."""

    name: str
    dark: bool = True
    colors: Mapping[str, str] = field(default_factory=dict)
