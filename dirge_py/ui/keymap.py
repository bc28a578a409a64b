"""Every key of the terminal UI. Nowhere else is a key named; `/help` and the hints read this.

A key is looked up in the scopes that listen, first match wins: an open list, then the composer,
then the screen. `[keys]` in the configuration replaces the keys of an action; `none` frees them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Scope = Literal["screen", "composer", "list", "dialog", "hunks", "form", "trust"]


@dataclass(frozen=True, slots=True)
class Key:
    """One action, the keys that start it, and what `/help` says; no words: not worth listing."""

    scope: Scope
    action: str
    keys: tuple[str, ...]
    words: str = ""


DEFAULTS: tuple[Key, ...] = (
    Key("composer", "submit", ("enter",), "send; during a run: steer it at the next tool boundary"),
    Key("composer", "queue", ("tab",), "during a run: queue for when the agent is done"),
    Key("composer", "newline", ("ctrl+j", "alt+enter", "shift+enter"), "new line; also \\ + Enter"),
    Key("composer", "up", ("up",), "line up, earlier prompt; on empty input: take the queue back"),
    Key("composer", "down", ("down",), "line down, later prompt"),
    Key("composer", "history_older", ("ctrl+p",), "earlier prompt"),
    Key("composer", "history_newer", ("ctrl+n",), "later prompt"),
    Key("composer", "take_queue_back", ("alt+up",), "take the queue back into the input"),
    Key("composer", "search_history", ("ctrl+r",), "search earlier prompts"),
    Key("composer", "edit_outside", ("ctrl+g",), "write in $EDITOR"),
    Key("composer", "undo", ("ctrl+underscore", "ctrl+shift+underscore"), "undo"),
    Key("composer", "delete_or_quit", ("ctrl+d",), "delete forward; on empty input: quit"),
    Key("composer", "yank", ("ctrl+y",), "put back what was cut"),
    Key("composer", "cut_to_end", ("ctrl+k",), "cut to the end of the line"),
    Key("composer", "cut_to_start", ("ctrl+u",), "cut to the start of the line"),
    Key("composer", "cut_word", ("ctrl+w",), "cut the word before"),
    Key("composer", "delete_word_left", ("alt+backspace", "ctrl+backspace")),
    Key("composer", "delete_word_right", ("alt+d", "ctrl+delete")),
    Key("composer", "delete_left", ("backspace", "ctrl+h")),
    Key("composer", "delete_right", ("delete",)),
    Key("composer", "cursor_left", ("left",)),
    Key("composer", "cursor_right", ("right", "ctrl+f")),
    Key("composer", "cursor_word_left", ("alt+b", "alt+left", "ctrl+left")),
    Key("composer", "cursor_word_right", ("alt+f", "alt+right", "ctrl+right")),
    Key("composer", "cursor_line_start", ("home", "ctrl+a")),
    Key("composer", "cursor_line_end", ("end", "ctrl+e")),
    Key("screen", "interrupt", ("escape",), "interrupt; twice on empty input: go back (/rewind)"),
    Key("screen", "stop", ("ctrl+c",), "copy, else clear the input, else interrupt, else quit"),
    Key("screen", "cycle_mode", ("shift+tab",), "mode: standard → accept → plan"),
    Key("screen", "background", ("ctrl+b",), "the running command goes on in the background"),
    Key("screen", "toggle_all", ("ctrl+o",), "show all output and thinking, or the short form"),
    Key("screen", "page_up", ("pageup",), "scroll back"),
    Key("screen", "page_down", ("pagedown",), "scroll on"),
    Key("screen", "go_to_start", ("ctrl+home",), "scroll to the beginning"),
    Key("screen", "go_to_end", ("ctrl+end",), "scroll to the end and follow it"),
    Key("screen", "redraw", ("ctrl+l",), "draw the screen again"),
    Key("screen", "suspend", ("ctrl+z",), "back to the shell; `fg` returns"),
    Key("list", "previous", ("up", "ctrl+p")),
    Key("list", "next", ("down", "ctrl+n")),
    Key("list", "complete", ("tab",), "take the proposal"),
    Key("list", "choose", ("enter",)),
    Key("list", "erase", ("backspace", "ctrl+h")),
    Key("list", "close", ("escape", "ctrl+c")),
    Key("dialog", "once", ("y", "1"), "in a question: allow once"),
    Key("dialog", "session", ("a", "2"), "in a question: allow for this session"),
    Key("dialog", "always", ("p", "4"), "in a question: allow always, in your settings"),
    Key("dialog", "deny", ("n", "3", "escape"), "in a question: deny"),
    Key("dialog", "comment", ("c",), "in a question: deny with a comment"),
    Key("dialog", "wider", ("tab",), "in a question: a wider rule, or the exact one"),
    Key("dialog", "choose_hunks", ("h",), "in a question: take a change hunk by hunk, or edit it"),
    Key("dialog", "deny_and_stop", ("ctrl+c",), "in a question: deny and interrupt"),
    Key("dialog", "previous_question", ("left",), "of several questions: the one before"),
    Key("dialog", "next_question", ("right",), "of several questions: the next"),
    Key("dialog", "previous", ("k",)),
    Key("dialog", "next", ("j",)),
    Key("dialog", "line_up", ("up",)),
    Key("dialog", "line_down", ("down",)),
    Key("dialog", "page_up", ("pageup",)),
    Key("dialog", "page_down", ("pagedown", "space")),
    Key("dialog", "end", ("end",)),
    Key("dialog", "choose", ("enter",)),
    Key("hunks", "previous", ("up", "k")),
    Key("hunks", "next", ("down", "j")),
    Key("hunks", "toggle", ("space",)),
    Key("hunks", "accept", ("y",)),
    Key("hunks", "refuse", ("n",)),
    Key("hunks", "edit", ("e",)),
    Key("hunks", "page_up", ("pageup",)),
    Key("hunks", "page_down", ("pagedown",)),
    Key("hunks", "end", ("end",)),
    Key("hunks", "choose", ("enter",)),
    Key("hunks", "close", ("escape", "ctrl+c")),
    Key("form", "previous", ("up", "k")),
    Key("form", "next", ("down", "j")),
    Key("form", "pick", tuple("123456789")),
    Key("form", "toggle", ("space",)),
    Key("form", "previous_question", ("left",)),
    Key("form", "next_question", ("right",)),
    Key("form", "page_up", ("pageup",)),
    Key("form", "page_down", ("pagedown",)),
    Key("form", "choose", ("enter",)),
    Key("form", "close", ("escape",)),
    Key("form", "deny_and_stop", ("ctrl+c",)),
    Key("trust", "trust", ("y",)),
    Key("trust", "deny", ("n", "escape", "ctrl+c")),
    Key("trust", "previous", ("left", "k")),
    Key("trust", "next", ("right", "j", "tab")),
    Key("trust", "line_up", ("up",)),
    Key("trust", "line_down", ("down",)),
    Key("trust", "page_up", ("pageup",)),
    Key("trust", "page_down", ("pagedown", "space")),
    Key("trust", "end", ("end",)),
    Key("trust", "choose", ("enter",)),
)


class Keymap:
    """The keys in force: the defaults, and what the configuration changed."""

    def __init__(self) -> None:
        self.change({})

    def change(self, overrides: Mapping[str, Sequence[str]]) -> Sequence[str]:
        """Put other keys on some actions; returns the names that are no actions."""
        changed = {name.replace("-", "_"): keys for name, keys in overrides.items()}
        self._keys = [_changed(key, changed) for key in DEFAULTS]
        self._by_key = {
            (key.scope, name): key.action for key in reversed(self._keys) for name in key.keys
        }
        return sorted(set(changed) - {key.action for key in DEFAULTS})

    def action(self, key: str, *scopes: Scope) -> tuple[Scope, str] | None:
        """What `key` starts in the first of `scopes` that knows it."""
        for scope in scopes:
            if action := self._by_key.get((scope, key)):
                return scope, action
        return None

    def name_of(self, scope: Scope, action: str) -> str:
        """The first key of an action, as people write it; empty if it has none."""
        names = next((k.keys for k in self._keys if (k.scope, k.action) == (scope, action)), ())
        return spell(names[0]) if names else ""

    def described(self) -> Sequence[tuple[str, str]]:
        """Keys and words for `/help`."""
        return [
            (" ".join(spell(name) for name in key.keys), key.words)
            for key in self._keys
            if key.words and key.keys
        ]


_SPELLED = {"underscore": "_", "escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}


def spell(key: str) -> str:
    """`shift+tab` as `Shift+Tab`, `ctrl+c` as `Ctrl+C`; a letter alone stays small."""
    if len(key) == 1:
        return key
    return "+".join(_SPELLED.get(part) or part.capitalize() for part in key.split("+"))


def _changed(key: Key, changed: Mapping[str, Iterable[str]]) -> Key:
    if key.action not in changed:
        return key
    names = [name.strip().lower() for name in changed[key.action]]
    kept = tuple(_plain(name) for name in names if name not in ("none", "noop", "unbind", ""))
    return Key(key.scope, key.action, kept, key.words)


def _plain(name: str) -> str:
    """`Ctrl-R` and `ctrl+r` are the same key."""
    head, _, last = name.replace("-", "+").rpartition("+")
    return f"{head}+{last or 'minus'}".lstrip("+")
