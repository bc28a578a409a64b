"""How keys are written: as people write them, and as they arrive."""

import unicodedata

_SAME = {
    "esc": "escape",
    "return": "enter",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "del": "delete",
    "ins": "insert",
    "bs": "backspace",
    "spacebar": "space",
    "control": "ctrl",
    "option": "alt",
    "meta": "alt",
    "cmd": "super",
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
_SIGNS = {"slash": "/", "backslash": "\\", "at": "@", "minus": "-", "plus": "+", "underscore": "_"}
_ONE_WORD = frozenset(
    ("comma", "semicolon", "colon", "tilde", "apostrophe", "ampersand", "asterisk")
)
_SPELLED = {"escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}
_MODIFIERS = frozenset(("alt", "ctrl", "shift", "super", "hyper"))
_NAMED = frozenset(
    (
        *("escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end"),
        *("pageup", "pagedown", "up", "down", "left", "right"),
        *(f"f{number}" for number in range(1, 25)),
    )
)


def plain(name: str) -> str:
    """A key, or two with a blank between, as it arrives: `Ctrl-R` is `ctrl+r`, `?` is a name."""
    return " ".join(_plain_key(key) for key in name.split())


def _plain_key(name: str) -> str:
    if len(name) == 1:
        return name if name.isalnum() else _name_of(name)
    body, last = name[:-1], name[-1]
    # The last sign may be the separator itself: `ctrl+-`.
    parts = [part.lower() for part in body.replace("-", "+").split("+") if part]
    if last in "+-" or not last.isalnum():
        parts.append(_name_of(last))
    elif parts and body[-1] not in "+-":
        parts[-1] += last.lower()
    else:
        parts.append(last.lower())
    parts = [_SAME.get(part, part) for part in parts]
    modifiers = sorted(set(parts[:-1]))
    if modifiers == ["ctrl"] and parts[-1] == "at":
        return "ctrl+@"  # The one sign that arrives as itself.
    if modifiers == ["shift"] and len(parts[-1]) == 1 and parts[-1].isalpha():
        return parts[-1].upper()
    return "+".join([*modifiers, parts[-1]])


def _name_of(sign: str) -> str:
    name = unicodedata.name(sign, "").lower().replace("-", "_").replace(" ", "_")
    return _SAME.get(name, name) or sign


def is_known(key: str) -> bool:
    """Whether there is such a key on any keyboard; `key` as `plain` gives it."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS:
        return False
    return len(last) == 1 or last in _NAMED or bool(_sign_of(last))


def spell(key: str) -> str:
    """`shift+tab` as `Shift+Tab`, `ctrl+c` as `Ctrl+C`; a letter alone stays small."""
    return " ".join(_spell_key(part) for part in key.split())


def _spell_key(key: str) -> str:
    if len(key) == 1:
        return key
    return "+".join(
        _SPELLED.get(part) or _sign_of(part) or part.capitalize() for part in key.split("+")
    )


def _sign_of(name: str) -> str:
    """`left_square_bracket` is `[`; empty for what is no sign."""
    if name in _SIGNS:
        return _SIGNS[name]
    if "_" not in name and name not in _ONE_WORD:
        return ""
    try:
        return unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return ""
