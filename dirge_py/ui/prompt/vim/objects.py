"""Text objects: what `iw`, `a(`, `i"` and the like stand for at a place in a text."""

from dirge_py.ui.prompt.vim.words import kind_of, line_end, line_start

_PAIRS = {
    opening: pair
    for pair, names in {"()": "()b", "{}": "{}B", "[]": "[]", "<>": "<>"}.items()
    for opening in names
}
_QUOTES = "\"'`"

NAMES = frozenset((*"wWp", *_PAIRS, *_QUOTES))
"""The second keys of text objects."""


def find_object(text: str, at: int, name: str, *, is_around: bool) -> tuple[int, int] | None:
    """Start and end of the object around `at`, the end exclusive; None: there is none here."""
    if not text:
        return None
    at = min(at, len(text) - 1)
    if name in "wW":
        return _word(text, at, is_big=name == "W", is_around=is_around)
    if name == "p":
        return _paragraph(text, at, is_around=is_around)
    found = _quoted(text, at, name) if name in _QUOTES else _enclosed(text, at, _PAIRS[name])
    if found is None:
        return None
    start, end = found
    return (start, end + 1) if is_around else (start + 1, end)


def _word(text: str, at: int, *, is_big: bool, is_around: bool) -> tuple[int, int]:
    low, high = line_start(text, at), line_end(text, at)
    if low == high:
        return at, at
    start, end = _run(text, min(at, high - 1), low, high, is_big=is_big)
    if not is_around:
        return start, end
    if end < high and (text[start].isspace() or text[end].isspace()):
        return start, _run(text, end, low, high, is_big=is_big)[1]
    if start > low and text[start - 1].isspace():
        start = _run(text, start - 1, low, high, is_big=is_big)[0]
    return start, end


def _run(text: str, at: int, low: int, high: int, *, is_big: bool) -> tuple[int, int]:
    """The characters around `at` that are of its kind, between `low` and `high`."""
    kind = kind_of(text[at], is_big=is_big)
    start, end = at, at + 1
    while start > low and kind_of(text[start - 1], is_big=is_big) == kind:
        start -= 1
    while end < high and kind_of(text[end], is_big=is_big) == kind:
        end += 1
    return start, end


def _paragraph(text: str, at: int, *, is_around: bool) -> tuple[int, int]:
    """Lines up to an empty one; around: with the empty ones behind it."""
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
    """The quotes around or behind `at`, on its line."""
    low, high = line_start(text, at), line_end(text, at)
    places = [place for place in range(low, high) if text[place] == quote]
    for start, end in zip(places[::2], places[1::2], strict=False):
        if at <= end:
            return start, end
    return None


def _enclosed(text: str, at: int, pair: str) -> tuple[int, int] | None:
    """The brackets around `at`; on a bracket: the pair that it is part of."""
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
