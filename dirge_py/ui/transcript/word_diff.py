"""Which words of a changed line are not those of the line it was: for marking them in a diff.

Whatever the lines are, the cost stays small: long lines and long stretches are left unmarked.
"""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from rich.cells import split_graphemes

from dirge_py.lib.hunks import common_start

LONGEST_LINE = 500
"""Characters of a line beyond which its words are not compared."""

LONGEST_STRETCH = 200
"""Changed lines in a row beyond which it is not looked for which was which."""

_MOST_TOKENS = 64
"""Tokens between the first and the last difference that are compared one by one: it is quadratic.
Of more, the whole is marked."""

_LOOKED_AHEAD = 10
_ALIKE = 0.5
"""Share of words that two lines must have in common to count as one line that was changed."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_FIRST_WIDE = "\u2e80"
"""From here on scripts do not put blanks between words: each character is one."""

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Stretches of characters, from and to, in order and apart from each other."""

Pair: TypeAlias = tuple[int | None, int | None]
"""Positions of a removed and an added line that stand beside each other; None: nothing does."""


def pair_lines(removed: Sequence[str], added: Sequence[str]) -> list[Pair]:
    """Which line became which, in order; lines that are like none stand beside what is left."""
    pairs: list[Pair] = []
    old = new = 0
    for old_at, new_at in [*_matches(removed, added), (len(removed), len(added))]:
        pairs += _side_by_side(range(old, old_at), range(new, new_at))
        if old_at < len(removed):
            pairs.append((old_at, new_at))
        old, new = old_at + 1, new_at + 1
    return pairs


def mark_words(old: str, new: str) -> tuple[Spans, Spans]:
    """The stretches of two lines that the other does not have; none if they are too different."""
    if max(len(old), len(new)) > LONGEST_LINE:
        return (), ()
    before, after = _tokens(old), _tokens(new)
    head = common_start(before, after)
    tail = common_start(before[head:][::-1], after[head:][::-1])
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    old_marks, new_marks = [False] * len(before), [False] * len(after)
    for old_at, old_to, new_at, new_to in _differences(*middle):
        old_marks[head + old_at : head + old_to] = [True] * (old_to - old_at)
        new_marks[head + new_at : head + new_to] = [True] * (new_to - new_at)
    if not (_is_alike(before, old_marks) or _is_alike(after, new_marks)):
        return (), ()
    return _spans(before, old_marks), _spans(after, new_marks)


def _matches(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that are alike, both rising; each is the likest of the next ones."""
    if len(removed) + len(added) > LONGEST_STRETCH:
        return []
    words = [_words(line) for line in added]
    found: list[tuple[int, int]] = []
    free = 0
    for at, line in enumerate(removed):
        mine = _words(line)
        near = range(free, min(free + _LOOKED_AHEAD, len(added)))
        best = max(near, key=lambda other: _share(mine, words[other]), default=None)
        if best is not None and _share(mine, words[best]) >= _ALIKE:
            found.append((at, best))
            free = best + 1
    return found


def _side_by_side(old: Sequence[int], new: Sequence[int]) -> list[Pair]:
    count = max(len(old), len(new))
    return [
        (old[at] if at < len(old) else None, new[at] if at < len(new) else None)
        for at in range(count)
    ]


def _words(line: str) -> "Counter[str]":
    if len(line) > LONGEST_LINE:
        return Counter()
    return Counter(_telling(_tokens(line)))


def _telling(tokens: Sequence[str]) -> list[str]:
    """The words, or where there are none the signs: brackets make no two lines alike."""
    return [token for token in tokens if _is_word(token)] or [
        token for token in tokens if not token.isspace()
    ]


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _share(one: "Counter[str]", other: "Counter[str]") -> float:
    whole = one.total() + other.total()
    return 2 * (one & other).total() / whole if whole else 0.0


def _tokens(line: str) -> list[str]:
    """Words, blanks and single signs; never less than a whole grapheme."""
    if line.isascii():
        return _TOKEN.findall(line)
    tokens: list[str] = []
    was = ""
    for start, end, _ in split_graphemes(line)[0]:
        first = line[start]
        is_joined = first.isalnum() and first < _FIRST_WIDE
        kind = "word" if is_joined else "blank" if first.isspace() else ""
        if kind and kind == was:
            tokens[-1] += line[start:end]
        else:
            tokens.append(line[start:end])
        was = kind
    return tokens


def _differences(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    if not old or not new or max(len(old), len(new)) > _MOST_TOKENS:
        return [(0, len(old), 0, len(new))]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    codes = matcher.get_opcodes()
    return [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]


def _is_alike(tokens: Sequence[str], marks: Sequence[bool]) -> bool:
    """Whether enough stayed as it was for the marks to say more than that the line is another."""
    has_words = any(map(_is_word, tokens))
    told = [not token.isspace() and (_is_word(token) or not has_words) for token in tokens]
    kept = sum(is_told and not mark for is_told, mark in zip(told, marks, strict=True))
    return kept > 0 and kept * 3 >= sum(told)


def _spans(tokens: Sequence[str], marks: list[bool]) -> Spans:
    """The marked stretches; a blank between two marks is marked, too."""
    for at in range(1, len(tokens) - 1):
        if marks[at - 1] and marks[at + 1] and tokens[at].isspace():
            marks[at] = True
    spans: list[tuple[int, int]] = []
    at = 0
    for token, is_marked in zip(tokens, marks, strict=True):
        if is_marked and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], at + len(token))
        elif is_marked:
            spans.append((at, at + len(token)))
        at += len(token)
    return spans
