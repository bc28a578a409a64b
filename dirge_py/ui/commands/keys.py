"""`/keybindings`: every action, where it is heard, and its keys."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.ui.front import TuiFront
from dirge_py.ui.key_names import spell
from dirge_py.ui.keymap import Key

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_SCOPES: Mapping[str, str] = {
    "composer": "Writing",
    "screen": "Screen",
    "search": "Searching earlier prompts",
    "reading": "Reading back",
    "find": "Finding text",
    "shell": "A command of one's own",
    "list": "Lists",
    "dialog": "Questions about permission",
    "hunks": "A change, hunk by hunk",
    "form": "Questions of the model",
    "trust": "The question of trust",
}
_ENDING = """
In [keys] of the settings: `action = "ctrl+t"` in every scope that has it, `"scope.action" = …` in \
one; `["f5", "ctrl+x f"]` for several, two keys with a blank for a chord, "none" for no key. The \
name of a slash command with its arguments, "/model fast", is an action, too."""


async def keybindings(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    front.show(listing(front.app.keymap.keys) + _ENDING)


def listing(keys: Sequence[Key]) -> str:
    """All actions by scope: keys, name, and what it does."""
    shown = [(key, ", ".join(map(spell, key.keys)) or "-") for key in keys]
    wide = max(len(names) for _, names in shown)
    name_wide = max(len(key.action) for key in keys)
    lines: list[str] = []
    for scope in dict.fromkeys(key.scope for key in keys):
        lines += ["", f"{_SCOPES.get(scope, scope.capitalize())} ({scope})"]
        lines += [
            f"  {names:<{wide}}  {key.action:<{name_wide}}  {key.words}".rstrip()
            for key, names in shown
            if key.scope == scope
        ]
    return "\n".join(lines[1:]) + "\n"


COMMANDS = (
    Command(
        name="keybindings",
        summary="every action with its keys, and how to change them",
        aliases=("keys",),
        run=keybindings,
    ),
)
