"""Reads git's own settings files the way git does, letter by letter.

What git takes for a comment, a continued line or a section must be the same here: a difference
would hide a setting from us that git obeys.
"""

import string
from collections.abc import Iterator

_SPACE = " \t\r\n"
_KEY_LETTERS = frozenset(string.ascii_letters + string.digits + "-")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


class Unreadable(Exception):
    """The repository is not laid out as git lays one out; the message says where."""


def settings(text: str) -> tuple[tuple[str, str], ...]:
    """The `section.subsection.key` names and values of a git config file, in its order.

    Section and key are in lower case; a key without `=` has the value "".

    Raises:
        Unreadable: git would refuse it, too.
    """
    if "\0" in text:
        raise Unreadable("a settings file with a NUL in it")
    return tuple(_Reader(text.removeprefix("\ufeff").replace("\r\n", "\n")).settings())


class _Reader:
    """A place in the text. The end of the text reads as an end of line, as in git."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def settings(self) -> Iterator[tuple[str, str]]:
        section: str | None = None
        while self._position < len(self._text):
            char = self._next()
            if char in _SPACE:
                continue
            if char in "#;":
                self._skip_line()
            elif char == "[":
                section = self._section()
            elif section is None or char not in string.ascii_letters:
                raise self._wrong()
            else:
                key, char = self._key(char)
                yield f"{section}.{key}", self._value_after(char)

    def _next(self) -> str:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        return char or "\n"

    def _skip_line(self) -> None:
        while self._next() != "\n":
            pass

    def _section(self) -> str:
        name = ""
        while True:
            char = self._next()
            if char == "]" and name:
                return name
            if char in _SPACE:
                return f"{name}.{self._subsection(char)}"
            if char not in _KEY_LETTERS and char != ".":
                raise self._wrong()
            name += char.lower()

    def _subsection(self, char: str) -> str:
        while char in _SPACE:
            if char == "\n":
                raise self._wrong()
            char = self._next()
        if char != '"':
            raise self._wrong()
        name = ""
        while (char := self._next()) != '"':
            if char == "\\":
                char = self._next()
            if char == "\n":
                raise self._wrong()
            name += char
        if self._next() != "]":
            raise self._wrong()
        return name

    def _key(self, first: str) -> tuple[str, str]:
        """The key, and the first letter behind it and its blanks."""
        key = first.lower()
        while (char := self._next()) in _KEY_LETTERS:
            key += char.lower()
        while char in " \t":
            char = self._next()
        return key, char

    def _value_after(self, char: str) -> str:
        if char == "\n":
            return ""
        if char != "=":
            raise self._wrong()
        value, is_quoted, blanks = "", False, ""
        while (char := self._next()) != "\n":
            if not is_quoted and char in "#;":
                self._skip_line()
                return value
            if not is_quoted and char in _SPACE:
                blanks += char if value else ""
                continue
            if char == '"':
                is_quoted = not is_quoted
                value, blanks = value + blanks, ""
                continue
            if char == "\\":
                char = self._escaped()
            value, blanks = value + blanks + char, ""
        if is_quoted:
            raise self._wrong()
        return value

    def _escaped(self) -> str:
        char = self._next()
        if char == "\n":
            return ""
        if char not in _ESCAPES:
            raise self._wrong()
        return _ESCAPES[char]

    def _wrong(self) -> Unreadable:
        line = self._text.count("\n", 0, self._position) + 1
        return Unreadable(f"line {line} of a settings file is not as git writes it")
