"""Keymaps to choose from, as changes of the defaults; `[keys]` goes before them."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

Preset: TypeAlias = Mapping[str, Sequence[str]]

EMACS: Preset = {
    "up": ("up", "ctrl+p"),
    "down": ("down", "ctrl+n"),
    "history_older": ("alt+p",),
    "history_newer": ("alt+n",),
    "cursor_right": ("right", "ctrl+f"),
    "undo": ("ctrl+underscore", "ctrl+shift+underscore", "ctrl+slash", "ctrl+x u"),
    "redo": ("alt+underscore", "alt+u", "ctrl+shift+z"),
    "search_history": ("ctrl+r", "ctrl+s"),
    "stash": ("ctrl+x ctrl+s",),
    "edit_outside": ("ctrl+x ctrl+e", "ctrl+g"),
    "select_all": ("ctrl+x h",),
}
"""Beyond what the defaults have of Emacs already."""

_ENTER_QUEUES: Preset = {"queue": ("enter",), "submit": ("tab",)}


def preset_of(
    keymap: Literal["default", "emacs", "vim"], enter: Literal["steer", "queue"]
) -> Preset:
    """The changes that `[ui] keymap` and `[ui] enter` stand for.

    Vim's own keys are no rows of the keymap: what they mean depends on the mode.
    """
    chosen = EMACS if keymap == "emacs" else {}
    return {**chosen, **(_ENTER_QUEUES if enter == "queue" else {})}
