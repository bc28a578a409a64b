"""What a part of the program, or a plugin, hands over for front ends to read: plain records.

Nothing here acts. `slash` dispatches commands; a front end that draws reads keys and themes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """One function of a plugin at one point, and how it fared. `is_on`: it is still asked."""

    point: str
    name: str
    failures: int = 0
    is_on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin: where it came from, and what it added. `problem` says why it is not loaded."""

    name: str
    where: str
    state: Literal["on", "off", "failed"]
    problem: str = ""
    hooks: tuple[HookReport, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Plugins(Protocol):
    """What commands may ask of the plugins of a conversation."""

    @property
    def commands(self) -> Sequence[Command]: ...

    @property
    def keys(self) -> Sequence[KeyBinding]: ...

    def report(self) -> Sequence[PluginReport]:
        """Every plugin that was found, in the order in which they are asked."""

    def order(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Each point that anybody stands at, and who is asked there, in order."""

    def chain(self, tool: str) -> Sequence[str]:
        """What stands around a call of this tool, the outermost first."""

    def remove(self, name: str) -> None:
        """Take a plugin's hooks, tools and commands away. Raises UsageError: there is none."""
