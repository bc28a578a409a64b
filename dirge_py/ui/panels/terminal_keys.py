"""Keys as a program on a terminal reads them: the bytes of an xterm."""

from textual import events

_MOVING = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_NUMBERED = {"insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18} | {
    "f8": 19,
    "f9": 20,
    "f10": 21,
    "f11": 23,
    "f12": 24,
}
_OF_F_KEYS = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_PLAIN = {
    "enter": "\r",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "backspace": "\x7f",
    "ctrl+h": "\x08",
    "escape": "\x1b",
    "space": " ",
    "ctrl+space": "\0",
    "ctrl+@": "\0",
    "ctrl+backslash": "\x1c",
    "ctrl+right_square_bracket": "\x1d",
    "ctrl+circumflex_accent": "\x1e",
    "ctrl+underscore": "\x1f",
    "shift+enter": "\r",
}
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def bytes_of(event: events.Key, *, application: bool = False) -> bytes:
    """What the key sends; nothing for one that no terminal knows. `application`: DECCKM is set."""
    if event.is_printable and event.character:
        return event.character.encode("utf-8", "replace")
    return _bytes_of(event.key, application=application)


def _bytes_of(key: str, *, application: bool) -> bytes:
    if key in _PLAIN:
        return _PLAIN[key].encode()
    *held, last = key.split("+")
    number = 1 + sum(_MODIFIERS.get(name, 0) for name in held)
    if last in _MOVING:
        lead = "\x1bO" if application and number == 1 else "\x1b["
        return f"{lead}{f'1;{number}' if number > 1 else ''}{_MOVING[last]}".encode()
    if last in _OF_F_KEYS:
        lead = f"\x1b[1;{number}" if number > 1 else "\x1bO"
        return f"{lead}{_OF_F_KEYS[last]}".encode()
    if last in _NUMBERED:
        return f"\x1b[{_NUMBERED[last]}{f';{number}' if number > 1 else ''}~".encode()
    if held and held[0] == "alt":
        rest = _bytes_of("+".join([*held[1:], last]), application=application)
        return b"\x1b" + rest if rest else b""
    if held == ["ctrl"] and len(last) == 1 and "a" <= last <= "z":
        return bytes([ord(last) - 96])
    return last.encode() if not held and len(last) == 1 else b""


def paste_of(text: str, *, brackets: bool) -> bytes:
    """A paste as the program reads it; nothing in it can end the brackets early."""
    typed = text.replace("\r\n", "\n").replace("\n", "\r")
    if not brackets:
        return typed.encode("utf-8", "replace")
    return b"\x1b[200~" + typed.replace("\x1b[201~", "").encode("utf-8", "replace") + b"\x1b[201~"
