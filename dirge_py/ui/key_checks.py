"""Whether keys that a person asked for can arrive at all, and what else is wrong with them."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dirge_py.ui.key_names import spell
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.prompt.presets import preset_of

if TYPE_CHECKING:
    from dirge_py.config.schema import Config

_SAME_BYTE = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
    "ctrl+backspace": "ctrl+h",
}
_PLAIN_WITHOUT_MODIFIERS = ("enter", "tab", "space", "escape", "backspace")
_SENT_WITH_CTRL = frozenset(
    (
        *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete"),
        *("underscore", "backslash", "right_square_bracket", "circumflex_accent", "at", "@"),
    )
)
_FUNCTION = re.compile(r"f\d+$")
_SPEAKS_KITTY = ("xterm-kitty", "xterm-ghostty", "foot", "foot-extra", "alacritty", "rio")


def key_problems(config: "Config", has_kitty: bool) -> Sequence[str]:
    """What is wrong with the keys of these settings, in sentences."""
    keymap = Keymap()
    told = keymap.change(config.keys, preset_of(config.ui.keymap, config.ui.enter))
    return [*told, *unsendable(keymap, has_kitty=has_kitty)]


def unsendable(keymap: Keymap, *, has_kitty: bool) -> list[str]:
    """Keys that a person asked for and that this terminal has no bytes for."""
    if has_kitty:
        return []
    return [
        f"{spell(name)} of `{row.action}` {why}; it takes a terminal with the kitty keyboard "
        "protocol (`dirge doctor`)."
        for row in keymap.asked
        for name in row.keys
        if (why := next(filter(None, map(_why_not, name.split())), ""))
    ]


def speaks_kitty(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is one that is known to have the kitty keyboard protocol.

    Guessed by name. Inside tmux nothing is known.
    """
    if environment.get("TMUX") or environment.get("STY"):
        return False
    return (
        environment.get("TERM") in _SPEAKS_KITTY
        or bool(environment.get("KITTY_WINDOW_ID"))
        or environment.get("TERM_PROGRAM") in ("ghostty", "kitty", "rio")
    )


def _why_not(key: str) -> str:
    """Why an ordinary terminal cannot send a key; empty if it can."""
    if key in _SAME_BYTE:
        return f"arrives as {spell(_SAME_BYTE[key])}"
    *modifiers, last = key.split("+")
    if {"super", "hyper"} & set(modifiers):
        return "does not arrive"
    if last in _PLAIN_WITHOUT_MODIFIERS:
        lost = set(modifiers) - {"alt"}
        is_known = key in ("shift+tab", "ctrl+space", "alt+ctrl+space")
        return f"arrives as {spell(last)}" if lost and not is_known else ""
    if len(last) == 1 and {"ctrl", "shift"} <= set(modifiers):
        return f"arrives as {spell('ctrl+' + last)}"
    is_sent = (
        (len(last) == 1 and last.isalpha()) or last in _SENT_WITH_CTRL or _FUNCTION.match(last)
    )
    return "does not arrive" if "ctrl" in modifiers and not is_sent else ""
