"""Every key of the terminal UI. No other module names a key; `/help` and the hints read this.

The first active scope with a key wins: an open list, the composer, the screen. `[keys]` replaces
the keys of an action; `none` removes them. Two keys with a blank between them are a chord.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.extensions import KeyBinding

if TYPE_CHECKING:
    from dirge_py.config.schema import Config


_SAME = {
    "esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "pgdown": "pagedown",
    "del": "delete", "ins": "insert", "bs": "backspace", "spacebar": "space", "control": "ctrl",
    "option": "alt", "meta": "alt", "cmd": "super", "solidus": "slash", "plus_sign": "plus",
    "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "low_line": "underscore",
}  # fmt: skip
"""Names that people and Unicode have for keys, and Textual's."""
_PARTS = late_pattern(r"[^+-]+|[+-]$")
"""The parts of a key; in `ctrl+-` the last sign is no separator."""
_SIGNS = {
    "slash": "/", "backslash": "\\", "at": "@", "minus": "-", "plus": "+", "underscore": "_",
    "less_than_sign": "<", "greater_than_sign": ">",
}  # fmt: skip
_ONE_WORD = {"comma", "semicolon", "colon", "tilde", "apostrophe", "ampersand", "asterisk"}
_SPELLED = {"escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}
_MODIFIERS = frozenset(("alt", "ctrl", "shift", "super", "hyper"))
_NAMED = {
    "escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup",
    "pagedown", "up", "down", "left", "right", *(f"f{number}" for number in range(1, 25)),
}  # fmt: skip


def plain(name: str) -> str:
    """Return a key or a chord as Textual names it: `ctrl+r` for `Ctrl-R`, a word for `?`."""
    return " ".join(_plain_key(key) for key in name.split())


def _plain_key(name: str) -> str:
    if len(name) == 1:
        return _name_of(name)
    *modifiers, last = map(_name_of, map(str.lower, _PARTS.findall(name)))
    modifiers = sorted(set(modifiers))
    if modifiers == ["ctrl"] and last == "at":
        return "ctrl+@"  # Textual has no word for this sign with Ctrl.
    if modifiers == ["shift"] and len(last) == 1 and last.isalpha():
        return last.upper()
    return "+".join([*modifiers, last])


def _name_of(part: str) -> str:
    if len(part) == 1 and not part.isalnum():
        name = unicodedata.name(part, "").lower().replace("-", "_").replace(" ", "_")
        return _SAME.get(name, name) or part
    return _SAME.get(part, part)


def is_known(key: str) -> bool:
    """Whether there is such a key; `key` as `plain` returns it."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS:
        return False
    return len(last) == 1 or last in _NAMED or bool(_sign_of(last))


def spell(key: str) -> str:
    """Return `Shift+Tab` for `shift+tab`; a single letter stays as it is."""

    def spell_part(part: str) -> str:
        return _SPELLED.get(part) or _sign_of(part) or part.capitalize()

    return " ".join(
        name if len(name) == 1 else "+".join(map(spell_part, name.split("+")))
        for name in key.split()
    )


def _sign_of(name: str) -> str:
    """Return `[` for `left_square_bracket`; "" if no sign has this name."""
    if name in _SIGNS:
        return _SIGNS[name]
    if "_" not in name and name not in _ONE_WORD:
        return ""
    try:
        return unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return ""


Scope = (
    Literal[
        "screen", "composer", "search", "list", "picker", "reading", "find", "shell", "fullscreen"
    ]
    | Literal["dialog", "hunks", "form", "trust"]
)


@dataclass(frozen=True, slots=True)
class Key:
    """An action or `/command`, its keys, and its words in `/help`, which lists only those."""

    scope: Scope
    action: str
    keys: tuple[str, ...]
    words: str = ""


def _unlisted(scope: Scope, **keys: str) -> Iterator[Key]:
    """Yield actions that `/help` doesn't list; blanks separate the keys of each."""
    for action, names in keys.items():
        yield Key(scope, action, tuple(names.split()))


TOGETHER: tuple[Scope, ...] = ("composer", "screen")
"""Scopes that are active at the same time, and the only ones with chords."""
DEFAULTS: tuple[Key, ...] = (
    Key("composer", "submit", ("enter",), "send; during a run: steer it at the next tool boundary"),
    Key("composer", "queue", ("tab",), "during a run: queue for when the agent is done"),
    Key("composer", "newline", ("ctrl+j", "alt+enter", "shift+enter"), "new line; also \\ + Enter"),
    Key("composer", "up", ("up",), "line up, earlier prompt; on empty input: edit the queue"),
    Key("composer", "down", ("down",), "line down, later prompt"),
    Key("composer", "history_older", ("ctrl+p",), "earlier prompt"),
    Key("composer", "history_newer", ("ctrl+n",), "later prompt"),
    Key("composer", "take_queue_back", ("alt+up",), "move queued messages back to the input"),
    Key("composer", "search_history", ("ctrl+r",), "search earlier prompts"),
    Key("composer", "edit_outside", ("ctrl+g", "ctrl+x ctrl+e"), "write in $EDITOR"),
    Key("composer", "stash", ("ctrl+s",), "stash the draft; on empty input: restore it"),
    Key("composer", "undo", ("ctrl+underscore", "ctrl+shift+underscore"), "undo"),
    Key("composer", "redo", ("alt+u", "alt+underscore", "ctrl+shift+z"), "redo"),
    Key(
        "composer",
        "delete_or_quit",
        ("ctrl+d",),
        "delete forward; on empty input: quit, twice in a run",
    ),
    Key("composer", "yank", ("ctrl+y",), "paste what was cut"),
    Key("composer", "yank_pop", ("alt+y",), "right after pasting: paste the cut before it instead"),
    Key("composer", "cut_to_end", ("ctrl+k",), "cut to the end of the line"),
    Key("composer", "cut_to_start", ("ctrl+u",), "cut to the start of the line"),
    Key("composer", "cut_word", ("ctrl+w",), "cut the word before"),
    *_unlisted("composer", delete_word_left="alt+backspace ctrl+backspace"),
    *_unlisted("composer", delete_word_right="alt+d ctrl+delete", delete_left="backspace ctrl+h"),
    *_unlisted("composer", delete_right="delete", cursor_left="left", cursor_right="right"),
    *_unlisted("composer", cursor_word_left="alt+b alt+left ctrl+left"),
    *_unlisted("composer", cursor_word_right="alt+f alt+right ctrl+right"),
    *_unlisted("composer", cursor_line_start="home ctrl+a", cursor_line_end="end ctrl+e"),
    *_unlisted("composer", cursor_text_start="alt+less_than_sign alt+shift+comma"),
    *_unlisted("composer", cursor_text_end="alt+greater_than_sign alt+shift+full_stop"),
    *_unlisted("composer", select_left="shift+left", select_right="shift+right"),
    *_unlisted("composer", select_up="shift+up", select_down="shift+down"),
    *_unlisted("composer", select_word_left="ctrl+shift+left alt+shift+left"),
    *_unlisted("composer", select_word_right="ctrl+shift+right alt+shift+right"),
    *_unlisted("composer", select_line_start="shift+home", select_line_end="shift+end"),
    *_unlisted("composer", select_text_start="ctrl+shift+home", select_text_end="ctrl+shift+end"),
    *_unlisted("composer", select_all="ctrl+shift+a", set_mark="ctrl+@ ctrl+space"),
    *_unlisted("composer", copy_region="alt+w"),
    *_unlisted("search", older="ctrl+r up", newer="ctrl+s down", take="enter tab"),
    *_unlisted("search", leave="escape ctrl+g ctrl+c", erase="backspace ctrl+h"),
    Key("screen", "interrupt", ("escape",), "interrupt; twice on empty input: go back (/rewind)"),
    Key("screen", "stop", ("ctrl+c",), "copy, else clear the input, else interrupt, else quit"),
    Key("screen", "cycle_mode", ("shift+tab",), "mode: standard → accept → plan"),
    Key("screen", "background", ("ctrl+b",), "move the running command to the background"),
    Key("screen", "toggle_all", ("ctrl+o",), "expand or collapse all output and thinking"),
    Key("screen", "toggle_reasoning", ()),
    Key("screen", "page_up", ("pageup",), "scroll up"),
    Key("screen", "page_down", ("pagedown",), "scroll down"),
    Key("screen", "go_to_start", ("ctrl+home",), "scroll to the top"),
    Key("screen", "go_to_end", ("ctrl+end",), "scroll to the end and follow it"),
    Key(
        "screen",
        "read",
        ("ctrl+up", "alt+r"),
        "reading mode: move, select and copy with the keyboard",
    ),
    Key("screen", "find", ("ctrl+f",), "find text in the whole conversation"),
    Key("screen", "todos", ("ctrl+t",), "show or hide the todo list above the input"),
    Key("screen", "redraw", ("ctrl+l",), "redraw the screen"),
    Key("screen", "suspend", ("ctrl+z",), "back to the shell; `fg` returns"),
    Key("screen", "palette", ("f1", "ctrl+x ctrl+p"), "all commands and actions (command palette)"),
    Key("screen", "pager", ("ctrl+x left_square_bracket",), "read the transcript in $PAGER"),
    Key("screen", "release_mouse", ("alt+m",), "give the mouse to the terminal, or take it back"),
    *_unlisted("reading", line_up="up k", line_down="down j", page_up="pageup"),
    *_unlisted("reading", page_down="pagedown", go_to_start="home g ctrl+home"),
    *_unlisted("reading", go_to_end="end G ctrl+end", previous_block="left_curly_bracket"),
    *_unlisted("reading", next_block="right_curly_bracket"),
    *_unlisted("reading", previous_landmark="left_square_bracket"),
    *_unlisted("reading", next_landmark="right_square_bracket", toggle="space enter", select="v"),
    *_unlisted("reading", select_up="shift+up", select_down="shift+down", copy_read="y ctrl+c"),
    *_unlisted("reading", find="slash", find_next="n", find_previous="N", close="escape q i"),
    *_unlisted("find", next="enter down", previous="shift+enter up", close="escape ctrl+c"),
    Key("composer", "paste", ("ctrl+v", "alt+v"), "paste from the clipboard: an image, else text"),
    Key(
        "screen",
        "drop_queue",
        ("alt+x",),
        "clear the queue; its messages stay in the prompt history",
    ),
    Key("shell", "end_command", ("escape",), "end the running shell command"),
    Key("fullscreen", "end_command", ("ctrl+backslash",)),
    *_unlisted("list", previous="up ctrl+p", next="down ctrl+n"),
    Key("list", "complete", ("tab",), "accept the suggestion"),
    *_unlisted("list", choose="enter", erase="backspace ctrl+h", close="escape ctrl+c"),
    *_unlisted("picker", rename="ctrl+r", delete="ctrl+d", all_projects="ctrl+a"),
    Key("dialog", "choose", ("enter",), "in a question: confirm what is selected"),
    Key("dialog", "once", ("y", "1"), "in a question: select allow once; Enter confirms"),
    Key("dialog", "all", ("A",), "in a question: select allow all listed calls once"),
    Key("dialog", "session", ("a", "2"), "in a question: select allow for this session"),
    Key("dialog", "always", ("p", "4"), "in a question: select allow always, in your settings"),
    Key("dialog", "deny", ("n", "3", "escape"), "in a question: select deny; Esc denies at once"),
    Key("dialog", "comment", ("c",), "in a question: select deny with a comment"),
    Key("dialog", "wider", ("tab",), "in a question: a wider rule, or the exact one"),
    Key("dialog", "edit_rule", ("r",), "in a question: change the rule"),
    Key("dialog", "edit_command", ("e",), "in a question: change the command"),
    Key("dialog", "choose_hunks", ("h",), "in a question: choose hunks of the change"),
    Key("dialog", "deny_and_stop", ("ctrl+c",), "in a question: deny and interrupt"),
    Key("dialog", "previous_question", ("left",), "of several questions: the previous one"),
    Key("dialog", "next_question", ("right",), "of several questions: the next one"),
    Key("dialog", "previous", ()),
    Key("dialog", "next", ()),
    *_unlisted("dialog", line_up="up", line_down="down", page_up="pageup"),
    *_unlisted("dialog", page_down="pagedown space", end="end"),
    *_unlisted("hunks", previous="up", next="down", toggle="space", accept="y", refuse="n"),
    *_unlisted("hunks", edit="e", page_up="pageup", page_down="pagedown", end="end"),
    *_unlisted("hunks", choose="enter", close="escape ctrl+c"),
    *_unlisted("form", previous="up", next="down", pick="1 2 3 4 5 6 7 8 9", toggle="space"),
    *_unlisted("form", previous_question="left", next_question="right", page_up="pageup"),
    *_unlisted("form", page_down="pagedown", choose="enter", close="escape"),
    *_unlisted("form", deny_and_stop="ctrl+c"),
    *_unlisted("trust", trust="y", deny="n escape", previous="left", next="right tab"),
    *_unlisted("trust", line_up="up", line_down="down", page_up="pageup"),
    *_unlisted("trust", page_down="pagedown space", end="end", choose="enter"),
)


_NEVER_OF_PLUGINS = frozenset({"enter", "escape", "ctrl+c"})
"""Keys for sending, interrupting and leaving, which no plugin can have."""


class Keymap:
    """The active keys: the defaults, changed by a preset, plugins and the settings."""

    def __init__(self) -> None:
        self._of_plugins: list[KeyBinding] = []
        self.change({})

    @property
    def asked(self) -> Sequence[Key]:
        """The actions whose keys the settings change."""
        return [row for row in self.keys if (row.scope, row.action) in self._asked]

    def change(
        self,
        overrides: Mapping[str, Sequence[str]],
        preset: Mapping[str, Sequence[str]] | None = None,
    ) -> Sequence[str]:
        """Change the keys of some actions; return sentences about problems and lost keys.

        A name is an action, in every scope that has it, or `scope.action`, or a slash command with
        its arguments. `overrides` win over plugins, these over `preset`, and that over the default.
        """
        self._overrides, self._preset = overrides, preset or {}
        return self._settle()

    def use_plugins(self, bindings: Sequence[KeyBinding]) -> Sequence[str]:
        """Use the keys of these plugins instead of the earlier ones; return problems."""
        refused: list[str] = []
        self._of_plugins = []
        for binding in bindings:
            denied = [key for key in binding.keys if plain(key) in _NEVER_OF_PLUGINS]
            words = f"so it doesn't run /{binding.command}."
            refused += [f"A plugin cannot use {spell(key)}, {words}" for key in denied]
            allowed = tuple(key for key in binding.keys if key not in denied)
            self._of_plugins.append(replace(binding, keys=allowed))
        return [*refused, *(problem for problem in self._settle() if "plugin" in problem)]

    def action(self, key: str, *scopes: Scope) -> tuple[Scope, str] | None:
        """Return the action of a key or chord in the first of `scopes` that has one."""
        bound = ((scope, self._by_key.get((scope, key))) for scope in scopes)
        return next(((scope, action) for scope, action in bound if action), None)

    def begins_chord(self, key: str) -> bool:
        return key in self._firsts

    def name_of(self, scope: Scope, action: str) -> str:
        """Return the first key of an action as people write it; "" if it has none."""
        names = next((k.keys for k in self.keys if (k.scope, k.action) == (scope, action)), ())
        return spell(names[0]) if names else ""

    def described(self) -> Sequence[tuple[str, str]]:
        """Return the rows of `/help`: keys and words."""
        return [(" ".join(map(spell, k.keys)), k.words) for k in self.keys if k.words and k.keys]

    def _settle(self) -> Sequence[str]:
        problems: list[str] = []
        rows, changed = _rebound(DEFAULTS, self._preset, problems)
        rows = _give_way(rows, changed, "", [])
        of_plugins = {f"/{b.command.removeprefix('/')}": b.keys for b in self._of_plugins}
        for changes, whose in ((of_plugins, "a plugin"), (self._overrides, "")):
            rows, self._asked = _rebound(rows, changes, problems)
            rows = _give_way(rows, self._asked, whose, problems)
        self._firsts = {name.split()[0] for row in rows for name in row.keys if " " in name}
        self.keys: Sequence[Key] = [self._without_firsts(row, problems) for row in rows]
        """Every action with the keys it has now."""
        self._by_key = {(k.scope, name): k.action for k in reversed(self.keys) for name in k.keys}
        return problems

    def _without_firsts(self, row: Key, problems: list[str]) -> Key:
        if row.scope not in TOGETHER or not self._firsts.intersection(row.keys):
            return row
        lost = [name for name in row.keys if name in self._firsts]
        no_longer = f"begins a chord, so it is no longer `{row.action}`."
        problems += [f"{spell(name)} {no_longer}" for name in lost]
        return replace(row, keys=tuple(name for name in row.keys if name not in lost))


def listen_together(one: Scope, other: Scope) -> bool:
    """Whether both scopes are active at the same time, so that they can't share a key."""
    return one == other or (one in TOGETHER and other in TOGETHER)


def _rebound(
    rows: Iterable[Key], changes: Mapping[str, Sequence[str]], problems: list[str]
) -> tuple[list[Key], set[tuple[str, str]]]:
    """Return the rows with changed keys, and which they are; `scope.action` beats `action`."""
    done = list(rows)
    changed: set[tuple[str, str]] = set()
    for name, wanted in sorted(changes.items(), key=lambda change: "." in change[0]):
        scope, _, action = name.replace("-", "_").rpartition(".")
        if name.startswith("/"):
            scope, action = "screen", name
            done = [row for row in done if row.action != name]
            done.append(Key("screen", name, (), name))
        is_action = False
        for index, row in enumerate(done):
            if row.action == action and scope in ("", row.scope):
                is_action = True
                done[index] = replace(row, keys=_read(row, wanted, problems))
                changed.add((row.scope, row.action))
        if not is_action:
            problems.append(_unknown(name, done))
    return done, changed


def _read(row: Key, wanted: Iterable[str], problems: list[str]) -> tuple[str, ...]:
    keys: list[str] = []
    for name in wanted:
        if name.strip().lower() in ("none", "noop", "unbind", ""):
            continue
        key = plain(name)
        parts = key.split()
        if not all(is_known(part) for part in parts):
            problems.append(f"unknown key {name!r} for `{row.action}`.")
        elif len(parts) > 2:
            problems.append(f"{name!r} for `{row.action}`: a chord has two keys.")
        elif len(parts) == 2 and row.scope not in TOGETHER:
            problems.append(
                f"{name!r} for `{row.scope}.{row.action}`: chords are for the input and the screen."
            )
        else:
            keys.append(key)
    return tuple(dict.fromkeys(keys))


def _give_way(
    rows: Sequence[Key], wanted: set[tuple[str, str]], whose: str, problems: list[str]
) -> list[Key]:
    """Remove the keys of the `wanted` actions from all others in the same scopes."""
    asked = [row for row in rows if (row.scope, row.action) in wanted]
    if not asked:
        return list(rows)
    done: list[Key] = []
    for row in rows:
        others = [a for a in asked if a != row and listen_together(a.scope, row.scope)]
        takers = {name: other.action for other in others for name in other.keys}
        lost = [name for name in row.keys if name in takers]
        if row in asked:
            # Of two wanted actions with the same key, the first keeps it.
            lost = [n for n in lost if any(n in before.keys for before in done)]
        for name in lost:
            words = f"{spell(name)} is `{takers[name]}`{' of ' if whose else ''}{whose}"
            problems.append(f"{words}, so it is not `{row.action}`.")
        done.append(replace(row, keys=tuple(n for n in row.keys if n not in lost)))
    return done


def _unknown(name: str, rows: Iterable[Key]) -> str:
    names = {n for row in rows for n in (row.action, f"{row.scope}.{row.action}")}
    meant = nearest(name.replace("-", "_"), names)
    hint = f" Did you mean `{meant}`?" if meant else " /keybindings lists them."
    return f"unknown action {name!r}.{hint}"


_SAME_BYTE = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
    "ctrl+backspace": "ctrl+h",
}
_PLAIN_WITHOUT_MODIFIERS = ("enter", "tab", "space", "escape", "backspace")
_SENT_WITH_CTRL = (
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete"),
    *("underscore", "backslash", "right_square_bracket", "circumflex_accent", "at", "@"),
)
_FUNCTION = late_pattern(r"f\d+$")
_SPEAKS_KITTY = ("xterm-kitty", "xterm-ghostty", "foot", "foot-extra", "alacritty", "rio")


def key_problems(config: "Config", has_kitty: bool) -> Sequence[str]:
    """Return sentences about problems with the keys in these settings."""
    keymap = Keymap()
    problems = keymap.change(config.keys, preset_of(config.ui.keymap, config.ui.enter))
    return [*problems, *unsendable(keymap, has_kitty=has_kitty)]


def unsendable(keymap: Keymap, *, has_kitty: bool) -> list[str]:
    """Return sentences about keys in the settings that this terminal can't send."""
    if has_kitty:
        return []
    return [
        f"{spell(name)} of `{row.action}` {why}; it needs a terminal with the kitty "
        "keyboard protocol (see `dirge doctor`)."
        for row in keymap.asked
        for name in row.keys
        if (why := next(filter(None, map(_why_not, name.split())), ""))
    ]


def speaks_kitty(environment: Mapping[str, str] = os.environ) -> bool:
    """Guess by its name whether the terminal has the kitty keyboard protocol; not inside tmux."""
    if environment.get("TMUX") or environment.get("STY"):
        return False
    return (
        environment.get("TERM") in _SPEAKS_KITTY
        or bool(environment.get("KITTY_WINDOW_ID"))
        or environment.get("TERM_PROGRAM") in ("ghostty", "kitty", "rio")
    )


def _why_not(key: str) -> str:
    """Return why an ordinary terminal can't send a key; "" if it can."""
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
    is_letter = len(last) == 1 and last.isalpha()
    is_sent = is_letter or last in _SENT_WITH_CTRL or _FUNCTION.match(last)
    return "does not arrive" if "ctrl" in modifiers and not is_sent else ""


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
"""The keys of Emacs that the defaults don't have already."""
_ENTER_QUEUES: Preset = {"queue": ("enter",), "submit": ("tab",)}


def preset_of(
    keymap: Literal["default", "emacs", "vim"], enter: Literal["steer", "queue"]
) -> Preset:
    """Return the changes for `[ui] keymap` and `[ui] enter`; Vim's keys aren't in the keymap."""
    chosen = EMACS if keymap == "emacs" else {}
    return {**chosen, **(_ENTER_QUEUES if enter == "queue" else {})}
