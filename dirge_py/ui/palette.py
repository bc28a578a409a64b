"""The command palette: every command and every action of the screen, to pick from."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice
from dirge_py.types.extensions import Command
from dirge_py.ui.key_names import spell

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_NOT_FROM_A_LIST = frozenset(("palette",))


async def pick_and_run(app: "DirgeApp") -> None:
    """Let the person pick, and do it; a command that needs arguments is put into the input."""
    chosen = await app.dock.pick("Commands and actions", choices(app), "")
    if chosen is None:
        return
    app.composer.focus()
    command = app.front.commands.find(chosen[1:]) if chosen.startswith("/") else None
    if command is not None and needs_arguments(command):
        # The draft is not lost: it comes back with the earlier prompts.
        app.composer.prompts.add(app.composer.text)
        app.composer.put(f"{chosen} ")
    elif command is not None:
        await app.talk.say(chosen, "now")
    else:
        app.composer.post_message(app.composer.Wants(chosen))


def choices(app: "DirgeApp") -> list[Choice]:
    """Commands by name, with the keys that run them; then actions by what they do."""
    keys = {row.action: ", ".join(map(spell, row.keys)) for row in app.keymap.keys if row.keys}
    commands = [
        Choice(
            id=f"/{command.name}",
            label=f"/{command.name} {command.usage}".rstrip(),
            detail=" · ".join(filter(None, (command.summary, keys.get(f"/{command.name}")))),
        )
        for command in app.front.commands
    ]
    actions = [
        Choice(id=row.action, label=row.words, detail=", ".join(map(spell, row.keys)))
        for row in app.keymap.keys
        if row.scope == "screen"
        and row.words
        and row.action not in _NOT_FROM_A_LIST
        and not row.action.startswith("/")
    ]
    return [*commands, *actions]


def needs_arguments(command: Command) -> bool:
    """Whether a command does nothing without arguments; those in brackets are optional."""
    return bool(command.usage) and not command.usage.startswith("[")
