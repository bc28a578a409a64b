"""All slash commands in one place: dispatch, completion and `/help` read the same records."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.slash.base import FrontEnd


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A line that begins like a command."""

    name: str
    """The word behind the slash."""
    args: str
    """What follows the name."""
    command: Command | None
    """The command of that name; None when there is none."""


class Registry:
    """Commands by name and alias. The first to claim a name keeps it; later claims are reported."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._by_name: dict[str, Command] = {}
        self._commands: list[Command] = []
        self._own: dict[str, str] = {}
        self._wanted: Mapping[str, str] = {}
        self._of_extensions: list[Command] = []
        self.conflicts: list[str] = []
        for command in commands:
            self.add(command)

    def add(self, command: Command) -> None:
        if command.name in self._by_name:
            self.conflicts.append(f"/{command.name} is already taken")
            return
        self._commands.append(command)
        for name in (command.name, *command.aliases):
            self._by_name.setdefault(name, command)

    def take(self, others: "Registry") -> None:
        """Have the commands of `others`, too; those that are here already stay."""
        for command in others._commands:
            if self._by_name.get(command.name) is not command:
                self.add(command)

    def use_extensions(self, commands: Iterable[Command]) -> list[str]:
        """Use the commands of these extensions instead of those used before.

        Returns what the person should know: such a command cannot have a name that is taken.
        """
        for command in self._of_extensions:
            self._commands.remove(command)
            del self._by_name[command.name]
        self._of_extensions = []
        warnings: list[str] = []
        for command in commands:
            if command.name in self._by_name:
                warnings.append(f"/{command.name} of a plugin is left out: the name is taken.")
                continue
            self.add(command)
            self._of_extensions.append(command)
        self.use_own_names(self._wanted)
        return warnings

    def use_own_names(self, names: Mapping[str, str]) -> list[str]:
        """Take a person's own names, `/m` for `/model fast`; returns what they should know of them.

        An own name stands for a built-in command, so that none can lead to itself.
        """
        self._own.clear()
        self._wanted = names
        warnings: list[str] = []
        for own, line in names.items():
            name, meant = own.removeprefix("/"), line.removeprefix("/").strip()
            command = meant.partition(" ")[0]
            if command not in self._by_name:
                warnings.append(f"{own}: {unknown_command(self, command).message}")
                continue
            if name in self._by_name:
                warnings.append(f"{own} is now /{meant}, no longer the built-in command.")
            self._own[name] = meant
        return warnings

    @property
    def own_names(self) -> Sequence[tuple[str, str]]:
        """What the person calls commands, and what that stands for."""
        return [(f"/{name}", f"/{line}") for name, line in sorted(self._own.items())]

    def __iter__(self) -> Iterator[Command]:
        return iter(sorted(self._commands, key=lambda command: command.name))

    def find(self, name: str) -> Command | None:
        """The command behind a name, an alias or an own name."""
        return self._by_name.get(self._own.get(name, name).partition(" ")[0])

    def read(self, line: str) -> TypedCommand | None:
        """The command that `line` asks for, or None when it is a prompt.

        `//` escapes a slash. A name that holds another slash is a path, not a command:
        `/usr/bin/x is broken` is a prompt.
        """
        if not line.startswith("/") or line.startswith("//"):
            return None
        words = line[1:].split(None, 1)
        if not words or line[1:2].isspace():
            return None
        name, args = words[0], words[1].strip() if len(words) == 2 else ""
        if "/" in name or "\\" in name:
            return None
        if name in self._own:
            name, _, given = self._own[name].partition(" ")
            args = f"{given} {args}".strip()
        return TypedCommand(name=name, args=args, command=self._by_name.get(name))

    def complete(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Names that begin with `prefix`, and what is behind them: own names, names, aliases."""
        own = [(n[1:], line) for n, line in self.own_names if n[1:].startswith(prefix)]
        known = [command for command in self if command.name not in self._own]
        by_name = [command for command in known if command.name.startswith(prefix)]
        by_alias = [
            command
            for command in known
            if command not in by_name and any(a.startswith(prefix) for a in command.aliases)
        ]
        return [*own, *((command.name, command.summary) for command in (*by_name, *by_alias))]

    def nearest(self, name: str) -> str | None:
        """The known name most like `name`, if any is like it at all."""
        return nearest(name, self._by_name)

    async def run(
        self, typed: TypedCommand, conversation: "Conversation", front: "FrontEnd"
    ) -> None:
        """Run what was typed.

        Raises:
            UsageError: no such command, or it has to wait until the run is over.
        """
        command = typed.command
        if command is None:
            raise unknown_command(self, typed.name)
        waits = command.while_running == "no" or (command.while_running == "listing" and typed.args)
        busy = "a run is active" if conversation.is_running else ""
        if waits and not busy and conversation.is_compacting:
            busy = "the context is being compacted"
        if waits and not busy and conversation.exclusive_owner is not None:
            busy = conversation.exclusive_owner.description
        if waits and busy:
            raise UsageError(
                f"/{command.name} has to wait: {busy}.", hint="Wait for its end, or interrupt it."
            )
        await command.run(typed.args, conversation, front)


def unknown_command(registry: Registry, name: str) -> UsageError:
    """Words for a command that does not exist, with the nearest one that does."""
    meant = registry.nearest(name)
    hint = f"Did you mean /{meant}? " if meant else ""
    return UsageError(
        f"There is no command /{name}.",
        hint=f"{hint}/help lists those there are here; // at the start sends the line as a prompt.",
    )


def as_prompt(line: str) -> str:
    """The prompt a line stands for, once it is known not to be a command: `//x` means `/x`."""
    return line[1:] if line.startswith("//") else line


def discover(*packages: ModuleType) -> Registry:
    """A registry of every `COMMANDS` exported by a module of these packages, in file order."""
    registry = Registry()
    for package in packages:
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for command in getattr(module, "COMMANDS", ()):
                registry.add(command)
    return registry
