"""Vim's motions and text objects, as offsets and ranges of characters in a text."""

from bisect import bisect_left, bisect_right
from typing import Literal

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass

Reach = Literal["exclusive", "inclusive", "lines"]
SIMPLE = frozenset("hljkwbeWBE0^$G;,{}")
"""Motions of a single key."""


@dataclass(frozen=True, slots=True)
class MotionTarget:
    """The target of a motion."""

    at: int
    reach: Reach = "exclusive"
    """What an operator includes."""


def move(
    text: str, at: int, motion: str, *, count: int | None = None, column: int | None = None
) -> MotionTarget | None:
    """Return the target of `count` times a motion of `SIMPLE` or `gg`, if there is one."""
    times = count or 1
    if motion in "wbeWBE":
        to = _by_words(text, at, motion.lower(), times, is_big=motion.isupper())
        return MotionTarget(to, "inclusive" if motion in "eE" else "exclusive")
    if motion in "jk":
        return _by_lines(text, at, times if motion == "j" else -times, column)
    if motion in "{}":
        return MotionTarget(_by_paragraphs(text, at, 1 if motion == "}" else -1, times))
    if motion in ("gg", "G"):
        starts = [0, *(place + 1 for place, char in enumerate(text) if char == "\n")]
        line = len(starts) if motion == "G" and not count else min(times, len(starts))
        return MotionTarget(first_word_on_line(text, starts[line - 1]), "lines")
    return _on_line(text, at, motion, times)


def find(
    text: str, at: int, motion: str, char: str, *, times: int, is_again: bool = False
) -> MotionTarget | None:
    """Return the target of `f`, `F`, `t` or `T` on this line, if there is one."""
    step = 1 if motion.islower() else -1
    start, end = line_start(text, at), line_end(text, at)
    place = at
    if is_again and motion in "tT":
        place += step
    for _ in range(times):
        place += step
        while start <= place < end and text[place] != char:
            place += step
        if not start <= place < end:
            return None
    if motion in "tT":
        place -= step
    return MotionTarget(place, "inclusive" if step > 0 else "exclusive")


def _on_line(text: str, at: int, motion: str, times: int) -> MotionTarget | None:
    start, end = line_start(text, at), line_end(text, at)
    word = first_word_on_line(text, at)
    places = {"h": max(start, at - times), "l": min(end, at + times), "0": start, "^": word}
    if motion in places:
        return MotionTarget(places[motion])
    below = _by_lines(text, at, times - 1, None) if times > 1 else MotionTarget(at)
    return MotionTarget(last_on_line(text, below.at), "inclusive") if below else None


def _by_lines(text: str, at: int, lines: int, column: int | None) -> MotionTarget | None:
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
    return MotionTarget(min(start + wanted, last_on_line(text, start)), "lines")


def _by_paragraphs(text: str, at: int, step: int, times: int) -> int:
    """Return the empty line before or after the paragraph, or the end of the text."""
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


FIRST_SIGN = "\U00100000"
"""Characters from here on stand for placeholders, which count as words."""
_SMALL = rf"[\w{FIRST_SIGN}-\U0010ffff]+|[^\w\s{FIRST_SIGN}-\U0010ffff]+"
_WORDS = {False: late_pattern(_SMALL), True: late_pattern(r"\S+")}
"""Words, of two kinds: letters and signs; big words have both."""
_RUNS = {is_big: late_pattern(rf"{words.pattern}|\s+") for is_big, words in _WORDS.items()}
"""Words, and the blanks between them."""
_EMPTY_LINE = late_pattern(r"(?<=\n)\n")


def _by_words(text: str, at: int, motion: str, times: int, *, is_big: bool) -> int:
    """Return the target of `w`, `b` or `e`; `w` and `b` stop at empty lines, too."""
    words = _WORDS[is_big].finditer(text)
    if motion == "e":
        ends = [word.end() - 1 for word in words]
        number = bisect_right(ends, at) + times - 1
        return ends[number] if number < len(ends) else max(0, len(text) - 1)
    starts = sorted(found.start() for found in (*words, *_EMPTY_LINE.finditer(text)))
    if motion == "w":
        number = bisect_right(starts, at) + times - 1
        return starts[number] if number < len(starts) else len(text)
    number = bisect_left(starts, at) - times
    return starts[number] if number >= 0 else 0


def line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return the offset of the line's newline, or of the end of the text."""
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline


def last_on_line(text: str, at: int) -> int:
    """Return the last character of the line at `at`; its start if it is empty."""
    return max(line_start(text, at), line_end(text, at) - 1)


def first_word_on_line(text: str, at: int) -> int:
    start, end = line_start(text, at), line_end(text, at)
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def rested(text: str, at: int) -> int:
    """Move an offset to a character, as normal mode needs it."""
    at = max(0, min(at, len(text)))
    return min(at, last_on_line(text, at))


_PAIRS = {
    opening: pair
    for pair, names in {"()": "()b", "{}": "{}B", "[]": "[]", "<>": "<>"}.items()
    for opening in names
}
_QUOTES = "\"'`"
NAMES = frozenset((*"wWp", *_PAIRS, *_QUOTES))
"""The second keys of text objects, behind `i` or `a`."""


def find_object(text: str, at: int, name: str, *, is_around: bool) -> tuple[int, int] | None:
    """Return start and end of the text object around `at`, if there is one."""
    if not text:
        return None
    at = min(at, len(text) - 1)
    if name in "wW":
        return _word(text, at, is_big=name == "W", is_around=is_around)
    if name == "p":
        return _paragraph(text, at, is_around=is_around)
    pair = _quoted(text, at, name) if name in _QUOTES else _enclosed(text, at, _PAIRS[name])
    if pair is None:
        return None
    start, end = pair
    return (start, end + 1) if is_around else (start + 1, end)


def _word(text: str, at: int, *, is_big: bool, is_around: bool) -> tuple[int, int]:
    low, high = line_start(text, at), line_end(text, at)
    if low == high:
        return at, at
    runs = [run.span() for run in _RUNS[is_big].finditer(text, low, high)]
    number = next(number for number, run in enumerate(runs) if min(at, high - 1) < run[1])
    start, end = runs[number]
    if not is_around:
        return start, end
    if end < high and (text[start].isspace() or text[end].isspace()):
        return start, runs[number + 1][1]
    if start > low and text[start - 1].isspace():
        start = runs[number - 1][0]
    return start, end


def _paragraph(text: str, at: int, *, is_around: bool) -> tuple[int, int]:
    """Return the lines up to an empty one; around: with the empty lines behind them."""
    start, end = line_start(text, at), line_end(text, at)
    is_gap = start == end
    while start > 0 and _is_empty(text, start - 1) == is_gap:
        start = line_start(text, start - 1)
    while end < len(text) and _is_empty(text, end + 1) == is_gap:
        end = line_end(text, end + 1)
    while is_around and end < len(text) and _is_empty(text, end + 1) != is_gap:
        end = line_end(text, end + 1)
    return start, min(len(text), end + 1)


def _is_empty(text: str, at: int) -> bool:
    return line_start(text, at) == line_end(text, at)


def _quoted(text: str, at: int, quote: str) -> tuple[int, int] | None:
    """Return the quotes around or behind `at` on its line."""
    low, high = line_start(text, at), line_end(text, at)
    places = [place for place in range(low, high) if text[place] == quote]
    for start, end in zip(places[::2], places[1::2], strict=False):
        if at <= end:
            return start, end
    return None


def _enclosed(text: str, at: int, pair: str) -> tuple[int, int] | None:
    opening, closing = pair[0], pair[1]
    start = _unmatched(text, at if text[at] != closing else at - 1, -1, opening, closing)
    if start is None:
        return None
    end = _unmatched(text, start + 1, 1, closing, opening)
    return None if end is None else (start, end)


def _unmatched(text: str, at: int, step: int, wanted: str, other: str) -> int | None:
    depth = 0
    while 0 <= at < len(text):
        if text[at] == wanted:
            if not depth:
                return at
            depth -= 1
        elif text[at] == other:
            depth += 1
        at += step
    return None
