"""The registry of slash commands, for dispatch, completion and `/help`."""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

from dirge_py.lib.fuzzy import fuzzy_score
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


_LEAST_FUZZY = 2
UI_COMMANDS = frozenset({
    "copy", "display", "doctor", "edit", "find", "keybindings", "keys", "pager", "panel",
    "reasoning", "redraw", "search", "terminal-setup", "theme", "vim",
})  # fmt: skip
"""Names of the commands that only the terminal UI has (`ui/commands/`)."""
"""Fewer letters are in nearly every name."""
_COMMAND = late_pattern(r"/([^\s/\\]+)(\s.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A typed line that begins like a command."""

    name: str
    """The word after the slash."""
    args: str
    """The text after the name."""
    command: Command | None
    """The command of that name; None if there is none."""


class Registry:
    """Commands by name and alias. The first with a name keeps it; `conflicts` lists the others.

    The given commands are read when the first command is looked for: `discover` imports all
    their modules, which most prompts don't need.
    """

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._given = commands
        self._own: dict[str, str] = {}
        self._wanted: Mapping[str, str] = {}
        self._of_extensions: list[str] = []
        self._conflicts: list[str] = []

    @cached_property
    def _by_name(self) -> dict[str, Command]:
        by_name: dict[str, Command] = {}
        for command in self._given:
            self._put(command, by_name)
        return by_name

    @property
    def conflicts(self) -> Sequence[str]:
        return self._conflicts if self._by_name else ()

    def add(self, command: Command) -> None:
        self._put(command, self._by_name)

    def _put(self, command: Command, by_name: dict[str, Command]) -> None:
        taken = by_name.get(command.name)
        if taken is not None:
            if taken is not command:
                self._conflicts.append(f"/{command.name} is already taken")
            return
        for name in (command.name, *command.aliases):
            by_name.setdefault(name, command)

    def add_all(self, others: Iterable[Command]) -> None:
        """Add the commands of `others`; commands already in this registry keep their names."""
        for command in others:
            self.add(command)

    def use_extensions(self, commands: Iterable[Command]) -> list[str]:
        """Use these commands of extensions, not earlier ones; returns warnings for taken names."""
        for name in self._of_extensions:
            del self._by_name[name]
        self._of_extensions = []
        warnings: list[str] = []
        for command in commands:
            if command.name in self._by_name:
                warnings.append(
                    f"A plugin's command /{command.name} is left out: the name is taken."
                )
            else:
                self.add(command)
                self._of_extensions.append(command.name)
        self.use_own_names(self._wanted)
        return warnings

    def use_own_names(self, names: Mapping[str, str]) -> list[str]:
        """Use the user's names for built-in commands, `/m` for `/model fast`; return warnings."""
        self._own.clear()
        self._wanted = names
        warnings: list[str] = []
        for own, typed in names.items():
            name, line = own.removeprefix("/"), typed.removeprefix("/").strip()
            command = line.partition(" ")[0]
            if command not in self._by_name:
                warnings.append(f"{own}: {self.unknown_command(command).message}")
                continue
            if name in self._by_name:
                warnings.append(f"{own} is now /{line}, no longer the built-in command.")
            self._own[name] = line
        return warnings

    @property
    def own_names(self) -> Sequence[tuple[str, str]]:
        """The names that the user gave to commands, and the line each stands for."""
        return [(f"/{name}", f"/{line}") for name, line in sorted(self._own.items())]

    def __iter__(self) -> Iterator[Command]:
        return (each for name, each in sorted(self._by_name.items()) if name == each.name)

    def find(self, name: str) -> Command | None:
        """The command with this name, alias or own name."""
        return self._by_name.get(self._own.get(name, name).partition(" ")[0])

    def read(self, line: str) -> TypedCommand | None:
        """The command that `line` asks for; None for a prompt, also `//x` and `/usr/bin/x is`."""
        match = _COMMAND.fullmatch(line)
        if match is None:
            return None
        name, args = match[1], (match[2] or "").strip()
        if name in self._own:
            name, _, first_args = self._own[name].partition(" ")
            args = f"{first_args} {args}".strip()
        return TypedCommand(name=name, args=args, command=self._by_name.get(name))

    def complete(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Names that begin with `prefix`, and their meaning: own names, names, then aliases.

        Behind them come commands that have its letters in order; without any, the nearest name.
        """
        own = [(n[1:], line) for n, line in self.own_names if n[1:].startswith(prefix)]
        others = [each for each in self if each.name not in self._own]
        by_name = [each for each in others if each.name.startswith(prefix)]
        by_alias = [each for each in others if any(a.startswith(prefix) for a in each.aliases)]
        fuzzy = self._with_letters(prefix, others) if len(prefix) >= _LEAST_FUZZY else []
        found = [*by_name, *by_alias, *fuzzy]
        if not own and not found and (near := nearest(prefix, self._by_name)):
            found = [self._by_name[near]]
        return [*own, *dict.fromkeys((each.name, each.summary) for each in found)]

    def begins(self, prefix: str) -> bool:
        """Whether a name or alias begins with `prefix`."""
        return any(name.startswith(prefix) for name in (*self._own, *self._by_name))

    @staticmethod
    def _with_letters(wanted: str, commands: Sequence[Command]) -> list[Command]:
        """The commands whose name or an alias has these letters in order, the closest first."""
        ranked = []
        for each in commands:
            scores = (fuzzy_score(wanted.lower(), name) for name in (each.name, *each.aliases))
            known = [score for score in scores if score is not None]
            if known:
                ranked.append((min(known), each.name, each))
        return [each for _, _, each in sorted(ranked, key=lambda row: row[:2])]

    async def run(self, typed: TypedCommand, conversation: "Conversation", front: object) -> None:
        """Run a typed command. Raises UsageError: there is none, or it has to wait for the run."""
        command = typed.command
        if command is None:
            raise self.unknown_command(typed.name)
        waits = command.while_running == "no" or (command.while_running == "listing" and typed.args)
        busy = ""
        if conversation.is_running:
            busy = "a run is active"
        elif conversation.is_compacting:
            busy = "the context is being compacted"
        elif conversation.exclusive_owner is not None:
            busy = conversation.exclusive_owner.description
        if waits and busy:
            hint = "Wait until it ends, or interrupt it."
            raise UsageError(f"/{command.name} has to wait: {busy}.", hint=hint)
        await command.run(typed.args, conversation, front)

    def unknown_command(self, name: str, *, where: str = "") -> UsageError:
        """The error for a command that does not exist, with the nearest one that does."""
        if name in UI_COMMANDS:
            hint = (
                "Start `dirge` without -p and --line. // at the start sends the line as a prompt."
            )
            return UsageError(f"/{name} needs the terminal UI.", hint=hint)
        near = nearest(name, self._by_name)
        meant = f"Did you mean /{near}? " if near else ""
        hint = f"{meant}/help lists the commands; start the line with // to send it as a prompt."
        return UsageError(f"There is no command /{name}{where}.", hint=hint)


def as_prompt(line: str) -> str:
    """The prompt for a line that is not a command: `//x` becomes `/x`."""
    return line[1:] if line.startswith("//") else line


def discover(*packages: ModuleType) -> Iterator[Command]:
    """Import the modules of these packages, one after the other, and yield their commands."""
    for package in packages:
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            yield from (each for each in vars(module).values() if isinstance(each, Command))
