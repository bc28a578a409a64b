"""Where a motion leads to, and what an operator would take on the way."""

from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.prompt.vim.words import (
    first_word_on_line,
    last_on_line,
    line_end,
    line_start,
    next_word,
    word_before,
    word_end,
)

Reach = Literal["exclusive", "inclusive", "lines"]

SIMPLE = frozenset("hljkwbeWBE0^$G;,{}")
"""Motions of one key; `f F t T` take a character, `g` another key."""

_AWAY = {"f": 1, "t": 1, "F": -1, "T": -1}
_OPPOSITE = {"f": "F", "F": "f", "t": "T", "T": "t"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a motion ends; None from `move` means that there is no such place."""

    at: int
    reach: Reach = "exclusive"


@dataclass(frozen=True, slots=True)
class Found:
    """What `f`, `F`, `t` or `T` looked for last."""

    motion: str
    char: str


def move(
    text: str, at: int, motion: str, *, count: int | None = None, column: int | None = None
) -> Target | None:
    """The target of a motion of `SIMPLE`, or of `gg`, made `count` times."""
    times = count or 1
    if motion in "wbeWBE":
        return _by_words(text, at, motion, times)
    if motion in "jk":
        return _by_lines(text, at, times if motion == "j" else -times, column)
    if motion in "{}":
        return Target(_by_paragraphs(text, at, 1 if motion == "}" else -1, times))
    if motion in ("gg", "G"):
        return _to_line(text, count if motion == "G" or count else 1)
    return _on_line(text, at, motion, times)


def find(text: str, at: int, found: Found, *, times: int, is_again: bool = False) -> Target | None:
    """The target of `f`, `F`, `t` or `T`, on this line only."""
    step = _AWAY[found.motion]
    start, end = line_start(text, at), line_end(text, at)
    place = at
    if is_again and found.motion in "tT":
        place += step
    for _ in range(times):
        place += step
        while start <= place < end and text[place] != found.char:
            place += step
        if not start <= place < end:
            return None
    if found.motion in "tT":
        place -= step
    return Target(place, "inclusive" if step > 0 else "exclusive")


def opposite(found: Found) -> Found:
    return Found(_OPPOSITE[found.motion], found.char)


def _on_line(text: str, at: int, motion: str, times: int) -> Target | None:
    start, end = line_start(text, at), line_end(text, at)
    if motion == "h":
        return Target(max(start, at - times))
    if motion == "l":
        return Target(min(end, at + times))
    if motion == "0":
        return Target(start)
    if motion == "^":
        return Target(first_word_on_line(text, at))
    below = _by_lines(text, at, times - 1, None) if times > 1 else Target(at)
    return Target(last_on_line(text, below.at), "inclusive") if below else None


def _by_words(text: str, at: int, motion: str, times: int) -> Target:
    step = {"w": next_word, "b": word_before, "e": word_end}[motion.lower()]
    for _ in range(min(times, len(text))):
        at = step(text, at, is_big=motion.isupper())
    return Target(at, "inclusive" if motion in "eE" else "exclusive")


def _by_lines(text: str, at: int, lines: int, column: int | None) -> Target | None:
    start = line_start(text, at)
    wanted = at - start if column is None else column
    for _ in range(min(abs(lines), len(text))):
        if lines > 0:
            start = line_end(text, start) + 1
            if start > len(text):
                return None
        else:
            if start == 0:
                return None
            start = line_start(text, start - 1)
    if abs(lines) > len(text):
        return None
    return Target(min(start + wanted, last_on_line(text, start)), "lines")


def _by_paragraphs(text: str, at: int, step: int, times: int) -> int:
    """The empty line before or behind the paragraph, or the end of the text."""
    lines = text.split("\n")
    line = text.count("\n", 0, at)
    for _ in range(min(times, len(lines))):
        while 0 <= line < len(lines) and not lines[line]:
            line += step
        while 0 <= line < len(lines) and lines[line]:
            line += step
    if line < 0:
        return 0
    return len(text) if line >= len(lines) else sum(len(above) + 1 for above in lines[:line])


def _to_line(text: str, number: int | None) -> Target:
    starts = [0, *(place + 1 for place, char in enumerate(text) if char == "\n")]
    line = len(starts) if number is None else min(number, len(starts))
    return Target(first_word_on_line(text, starts[line - 1]), "lines")
