"""Where words, lines and characters are in a text; positions are offsets of characters."""

from typing import Literal

Kind = Literal[0, 1, 2]

FIRST_SIGN = "\U00100000"
"""From here on characters stand for a whole thing, such as a paste, which counts as a word."""


def kind_of(char: str, *, is_big: bool) -> Kind:
    """0: space, 1: part of a word, 2: another sign; for big words all signs are parts."""
    if char.isspace():
        return 0
    return 1 if is_big or char.isalnum() or char == "_" or char >= FIRST_SIGN else 2


def line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The place of the line's newline, or the end of the text."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def last_on_line(text: str, at: int) -> int:
    """The last character of the line around `at`; its start if it is empty."""
    return max(line_start(text, at), line_end(text, at) - 1)


def first_word_on_line(text: str, at: int) -> int:
    start, end = line_start(text, at), line_end(text, at)
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def rested(text: str, at: int) -> int:
    """Where the cursor may rest in normal mode: on a character, not behind the line's last."""
    at = max(0, min(at, len(text)))
    return min(at, last_on_line(text, at))


def next_word(text: str, at: int, *, is_big: bool) -> int:
    """The start of the next word; an empty line counts as one."""
    end = len(text)
    if at >= end:
        return end
    kind = kind_of(text[at], is_big=is_big)
    while kind and at < end and kind_of(text[at], is_big=is_big) == kind:
        at += 1
    while at < end and text[at].isspace():
        at += 1
        if at < end and text[at] == "\n" and text[at - 1] == "\n":
            return at
    return at


def word_end(text: str, at: int, *, is_big: bool) -> int:
    """The last character of the word that ends next."""
    last = max(0, len(text) - 1)
    at += 1
    while at < last and text[at].isspace():
        at += 1
    while at < last and _same(text, at, at + 1, is_big=is_big):
        at += 1
    return min(at, last)


def word_before(text: str, at: int, *, is_big: bool) -> int:
    """The start of the word before."""
    at -= 1
    while at > 0 and text[at].isspace():
        if text[at] == "\n" and text[at - 1] == "\n":
            return at
        at -= 1
    while at > 0 and _same(text, at, at - 1, is_big=is_big):
        at -= 1
    return max(0, at)


def _same(text: str, one: int, other: int, *, is_big: bool) -> bool:
    kind = kind_of(text[one], is_big=is_big)
    return kind != 0 and kind == kind_of(text[other], is_big=is_big)
