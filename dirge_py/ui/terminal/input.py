"""Parses the input of a terminal into events: keys, pastes, the mouse and the focus.

Unknown sequences are dropped; Textual's own parser would type half a mouse report into the prompt.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS, MODIFIER_FUNCTIONAL_KEYS
from textual._xterm_parser import XTermParser
from textual.keys import _character_to_key
from textual.message import Message

from dirge_py.lib.lazy import late_pattern

PASTE_PATIENCE_S = 2.0
"""Seconds without input that end a paste whose end is lost."""

_ESC = "\x1b"
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_FOCUS = {"\x1b[I": events.AppFocus, "\x1b[O": events.AppBlur}
_STRINGS = "]P_^X"
_LONGEST_STRING = 200_000
_LONGEST = 64
_CSI = late_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CSI_BEGUN = late_pattern(r"\x1b\[[0-?]*[ -/]*")
# Faulty terminals report words instead of numbers.
_MOUSE = late_pattern(r"\x1b\[<[^Mm\x1b]{0,40}[Mm]")
_MOUSE_BEGUN = late_pattern(r"\x1b\[<[-+.;\w]{0,40}")
_ORPHANED_MOUSE = late_pattern(r"\[<\d+;\d+;\d+[Mm]")
_STRING_END = late_pattern(r"\x07|\x1b\\")
_PASSED_ON = late_pattern(
    r"\x1b\[(?:<\d{1,5};-?\d{1,5};-?\d{1,5}[Mm]|\?\d{1,5};\d\$y|\d{1,5};\d{1,5}R"
    r"|48;[1-9]\d{0,4}(?:;[1-9]\d{0,4}){3}t)"
)
_EXTENDED = late_pattern(
    r"\x1b\[(\d{0,7})[\d:]*(?:;(\d{0,3})(?::(\d))?)?(?:;([\d:]*))?([u~ABCDEFHPQRS])"
)
_BACKGROUND = late_pattern(
    r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})"
)
_SCHEMES = {"\x1b[?997;1n": True, "\x1b[?997;2n": False}
"""Reports of mode 2031, with whether the background is dark."""
_SHIFT_AND_LOCKS = 1 | 64 | 128
_LAST_CODEPOINT = 0x10FFFF


@dataclass
class TerminalBackground(Message):
    """The terminal has reported its background."""

    is_dark: bool


class TerminalInput:
    """Turns the input of a terminal, in pieces of any size, into events."""

    def __init__(self) -> None:
        self._textual = XTermParser()
        self._held = ""
        self._paste: list[str] | None = None
        self._was_escape = self._was_cut_off = False

    def feed(self, text: str) -> Iterator[Message]:
        """Yield the events that this text completes."""
        if self._was_escape and (orphan := _ORPHANED_MOUSE.match(text)):
            # Its Esc came so early that it became a key.
            text = text[orphan.end() :]
        self._was_escape = False
        if self._was_cut_off and not text.startswith(_ESC):
            # The rest of a late paste must not be typed, as its lines would be sent.
            self._paste = [] if _PASTE_END in text or len(text) > _LONGEST else None
        self._was_cut_off = False
        self._held += text
        while self._held:
            if self._paste is not None:
                if not (yield from self._pasted(self._paste)):
                    return
            elif self._held[0] != _ESC:
                typed, mark, rest = self._held.partition(_ESC)
                self._held = mark + rest
                for character in typed:
                    yield from self._textual._sequence_to_key_events(character)
            elif size := _size(self._held):
                sequence, self._held = self._held[:size], self._held[size:]
                yield from self._meaning(sequence)
            else:
                return

    def idle(self, silent_s: float) -> Iterator[Message]:
        """Yield the events that are complete after `silent_s` without input."""
        if self._paste is not None:
            if silent_s >= PASTE_PATIENCE_S:
                self._paste.append(self._held)
                self._held, self._was_cut_off = "", True
                yield self._end_of_paste(self._paste)
            return
        held, self._held = self._held, ""
        if not held:
            return
        if held in (_ESC, _ESC * 2):
            self._was_escape = True
            yield from (events.Key("escape", _ESC) for _ in held)
        elif len(held) == 2:
            yield from self._with_alt(held[1])
        else:
            yield from self._meaning(held)

    def _pasted(self, paste: list[str]) -> Generator[Message, None, bool]:
        """Take the text of a paste; return whether its end was found."""
        text, end, rest = self._held.partition(_PASTE_END)
        if end:
            paste.append(text)
            self._held = rest
            yield self._end_of_paste(paste)
            return True
        begun = next(
            (n for n in range(len(_PASTE_END) - 1, 0, -1) if text.endswith(_PASTE_END[:n])), 0
        )
        paste.append(text[: len(text) - begun])
        self._held = text[len(text) - begun :]
        return False

    def _end_of_paste(self, paste: list[str]) -> Message:
        self._paste = None
        return events.Paste("".join(paste).replace("\x00", ""))

    def _meaning(self, sequence: str) -> Iterator[Message]:
        """Yield the events of a complete sequence; none if it is unknown."""
        if sequence == _PASTE_START:
            self._paste = []
        elif sequence in _FOCUS:
            yield _FOCUS[sequence]()
        elif sequence in _SCHEMES:
            yield TerminalBackground(_SCHEMES[sequence])
        elif color := _BACKGROUND.match(sequence):
            yield TerminalBackground(_is_dark(color))
        elif sequence == _ESC:
            yield events.Key("escape", _ESC)
        elif len(sequence) == 2:
            yield from self._with_alt(sequence[1])
        elif sequence.startswith(_ESC * 2):
            for event in self._meaning(sequence[1:]):
                if isinstance(event, events.Key):
                    yield _modified("alt", event.key)
        elif _PASSED_ON.fullmatch(sequence):
            yield from self._textual.feed(sequence)
        else:
            extended = self._extended(sequence)
            yield from self._known(sequence) if extended is None else extended

    def _known(self, sequence: str) -> Iterator[Message]:
        meant = ANSI_SEQUENCES_KEYS.get(sequence)
        if isinstance(meant, str):
            yield from self._textual._sequence_to_key_events(meant)
        elif isinstance(meant, tuple):
            yield from (events.Key(key.value, None) for key in meant)

    def _with_alt(self, character: str) -> Iterator[Message]:
        if character in "\r\n":
            yield events.Key("alt+enter", None)
        elif character == "\t":
            yield events.Key("shift+tab", None)
        else:
            for event in self._textual._sequence_to_key_events(character):
                yield _modified("alt", event.key)

    def _extended(self, sequence: str) -> list[events.Key] | None:
        """Return the keys of a sequence of the kitty keyboard protocol; None for another one."""
        match = _EXTENDED.fullmatch(sequence)
        if match is None:
            return None
        code, modifiers = int(match[1] or 1), int(match[2] or 0)
        name = FUNCTIONAL_KEYS.get(f"{code}{match[5]}", "")
        if not name and match[5] != "u":
            return None
        if match[3] == "3" or name in MODIFIER_FUNCTIONAL_KEYS or not _is_character(code):
            return []  # A released key, a modifier by itself, or no key at all.
        held = max(0, modifiers - 1)
        text = "".join(map(chr, filter(_is_character, map(_number, (match[4] or "").split(":")))))
        if not text and not name and not held & ~_SHIFT_AND_LOCKS:
            text = chr(code).upper() if held & 1 else chr(code)
        if text.isprintable() and text:
            # The text includes the modifiers: some terminals report AltGr as Ctrl+Alt.
            return [events.Key(c if c.isalnum() else _character_to_key(c), c) for c in text]
        plain = f"{_ESC}[{code};{modifiers}{match[5]}" if modifiers else f"{_ESC}[{code}{match[5]}"
        return [key.copy() for key in self._textual._parse_extended_key(plain) or ()]


def _size(text: str) -> int:
    """Return the length of the sequence at the start of `text`; 0 if it is incomplete."""
    kind = text[1:2]
    if kind == _ESC:
        if text[2:3] not in ("[", "O"):
            return 1 if len(text) > 2 else 0
        inner = _size(text[1:])
        return inner + 1 if inner else 0
    if kind == "[":
        return _size_of_csi(text)
    if kind == "O":
        size = 4 if text[2:3].isdigit() else 3
        return size if len(text) >= size else 0
    if kind and kind in _STRINGS:
        return _size_of_string(text)
    return 2 if kind else 0


def _size_of_csi(text: str) -> int:
    for start, size in (("\x1b[M", 6), ("\x1b[[", 4)):
        if text.startswith(start):
            return size if len(text) >= size else 0
    is_mouse = text.startswith("\x1b[<")
    if whole := (_MOUSE if is_mouse else _CSI).match(text):
        return whole.end()
    begun = (_MOUSE_BEGUN if is_mouse else _CSI_BEGUN).match(text)
    assert begun is not None
    return 0 if begun.end() == len(text) and len(text) < _LONGEST else begun.end()


def _size_of_string(text: str) -> int:
    if end := _STRING_END.search(text, 2):
        cut = text.find(_ESC, 2, end.start())
        return cut if cut >= 0 else end.end()
    cut = text.find(_ESC, 2)
    if 0 <= cut < len(text) - 1:
        return cut
    return len(text) if len(text) > _LONGEST_STRING else 0


def _is_dark(color: re.Match[str]) -> bool:
    """Whether a colour such as `rgb:1c1c/1c1c/1c1c` is nearer to black than to white."""
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in color.groups())
    return bool(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)


def _number(part: str) -> int:
    return int(part) if part.isdecimal() and len(part) < 8 else -1


def _is_character(code: int) -> bool:
    return 0 <= code <= _LAST_CODEPOINT and not 0xD800 <= code <= 0xDFFF


def _modified(modifier: str, key: str) -> events.Key:
    *modifiers, last = key.split("+") if len(key) > 1 else (key,)
    if len(last) == 1 and last.isupper():
        modifiers, last = [*modifiers, "shift"], last.lower()
    return events.Key("+".join([*sorted({*modifiers, modifier}), last]), None)
