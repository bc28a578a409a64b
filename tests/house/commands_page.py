"""Generates docs/commands.md from the command records: `python -m tests.house.commands_page`."""

import sys
from collections.abc import Iterator, Mapping

from dirge_py import slash
from dirge_py.slash.registry import Registry, discover
from dirge_py.ui import commands as ui_commands

_HEAD = """\
# Commands

A line that begins with `/` is a command, wherever lines are typed; Tab completes its name and what
may follow. `//` sends a prompt that begins with a slash, and a path such as `/usr/bin/x` is a
prompt, too. A command that does not exist stays in the input, with the nearest one that does; in
`-p` it is an error. A command that fails leaves the input; Up brings it back.
`[aliases]` in the settings gives commands other names ([more](config.md)); plugins add commands.

*During a run*: whether it works while the agent does; *list*: only without arguments. *In `-p`*:
whether `dirge -p '/name …'` runs it and prints what it shows.

"""

_COLUMNS = ("command", "does", "also", "during a run", "in `-p`")

_MORE: Mapping[str, str] = {
    "allow": "permissions.md",
    "compact": "context.md",
    "context": "context.md",
    "continue": "sessions.md",
    "diff": "snapshots.md",
    "export": "sessions.md",
    "init": "context.md",
    "memory": "memory.md",
    "mode": "permissions.md",
    "plugins": "plugins.md",
    "limits": "config.md#limits",
    "prompt": "context.md",
    "recall": "sessions.md#finding-what-was-said",
    "rewind": "sessions.md#going-back",
    "sessions": "sessions.md",
    "step": "loop.md",
    "tools": "tools.md",
    "why": "permissions.md",
}
"""The page with more about a command."""


def all_commands() -> Registry:
    """The commands of every front end."""
    return Registry(discover(slash, ui_commands))


def page(registry: Registry) -> str:
    """Return the text of docs/commands.md."""
    return _HEAD + "\n".join([*table(registry), ""])


def table(registry: Registry) -> Iterator[str]:
    """The table of the page: one row for each command, by name."""
    yield _row(_COLUMNS)
    yield _row(("---",) * len(_COLUMNS))
    for command in registry:
        usage = f" {command.usage}" if command.usage else ""
        is_tui_only = command.run.__module__.startswith("dirge_py.ui.")
        in_print_mode = "no: terminal UI only" if is_tui_only else "no"
        more = f" ([more]({_MORE[command.name]}))" if command.name in _MORE else ""
        yield _row(
            (
                f"`/{command.name}{usage}`",
                f"{command.summary}{more}",
                ", ".join(f"`/{alias}`" for alias in command.aliases),
                "list" if command.while_running == "listing" else command.while_running,
                "yes" if command.headless else in_print_mode,
            )
        )


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(page(all_commands()))
