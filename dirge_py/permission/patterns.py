"""What a rule's pattern matches: words of a command, a path, a name.

Commands: the pattern is split into words as a shell would (quotes and backslash make what they hold
literal). A word `*` or `**` stands for any number of words, also none; inside a word `*` is any
text and `?` one character. Paths: `*` and `?` stay within one component, a component `**` is any
number of them, so `src/**` is `src` and all beneath it; backslash makes the next character literal.
Names: `*` and `?` over the whole text.
"""

import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.words import Word

_OPERATORS = frozenset(("&&", "||", ";", "|", "&", "|&", ">", ">>", "<"))


MANY, ONE = "\ue020", "\ue021"
"""In the form of a word: any text, and any one letter."""


@dataclass(frozen=True, slots=True)
class WordPattern:
    """One word of a command pattern; `is_rest` is the word that stands for any number of words.

    `is_open`: it ends in a star of its own. `form` is its text with `MANY` and `ONE`.
    """

    regex: re.Pattern[str]
    is_literal: bool
    is_rest: bool = False
    is_open: bool = False
    form: str = ""

    def matches(self, word: Word, *, is_strict: bool) -> bool:
        # What an unquoted `*` becomes is decided when the command runs: a rule that grants the
        # literal star was not meant for it.
        if is_strict and word.has_glob and self.is_literal:
            return False
        return self.regex.fullmatch(word.text) is not None


@lru_cache(maxsize=4096)
def command_pattern(text: str) -> tuple[WordPattern, ...]:
    """The words of a command pattern.

    Raises:
        ValueError: in words a person can use.
    """
    words: list[WordPattern] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        word, position = _read_word(text, position)
        words.append(word)
    if not words:
        raise ValueError("the pattern is empty")
    return tuple(words)


def match_command(
    pattern: Sequence[WordPattern],
    words: Sequence[Word],
    *,
    is_strict: bool,
    spelled: Mapping[int, str] = MappingProxyType({}),
) -> bool:
    """Whether the whole of `words` fits. `is_strict` is how rules that allow are read.

    Where a rule asks or denies, a star at the end of the last word goes on over further words:
    whoever denies `git push*` means `git push --force`, too. `spelled` are the places of words that
    no star stands for: the pattern has to begin the word there as it is given.
    """
    if not is_strict and pattern[-1].is_open:
        pattern = (*pattern, _REST)
    at, word_at, star, star_word = 0, 0, -1, 0
    while word_at < len(words):
        if at < len(pattern) and pattern[at].is_rest:
            star, star_word = at, word_at
            at += 1
            if at == len(pattern):
                return all(place < word_at for place in spelled)
        elif (
            at < len(pattern)
            and pattern[at].matches(words[word_at], is_strict=is_strict)
            and pattern[at].form.startswith(spelled.get(word_at, ""))
        ):
            at += 1
            word_at += 1
        elif star >= 0 and star_word not in spelled:
            star_word += 1
            at, word_at = star + 1, star_word
        else:
            return False
    return all(word.is_rest for word in pattern[at:])


def quoted_command(words: Sequence[Word]) -> str:
    """The pattern that matches exactly these words."""
    return shlex.join([word.text for word in words])


@lru_cache(maxsize=4096)
def path_pattern(text: str) -> re.Pattern[str]:
    """An absolute path pattern, to be matched in full against a path without a slash at its end.

    Raises:
        ValueError: in words a person can use.
    """
    stretches = [""]
    for component in text.split("/"):
        if component in ("", "."):
            continue
        if component == "..":
            raise ValueError("`..` is not followed in a pattern; write the path itself")
        if component == "**":
            stretches.append("")
        else:
            stretches[-1] += "/" + _component(component)
    return re.compile(starred(stretches, "(?:/[^/]+)"), re.DOTALL)


def match_path(pattern: re.Pattern[str], path: str, *, is_strict: bool) -> bool:
    """Whether `path` fits. Strict reading compares as spelled, else case and form are ignored."""
    trimmed = path.rstrip("/")
    if pattern.fullmatch(trimmed):
        return True
    if is_strict:
        return False
    normal = unicodedata.normalize("NFC", trimmed)
    return _path_pattern_folded(pattern.pattern).fullmatch(normal) is not None


@lru_cache(maxsize=4096)
def _path_pattern_folded(regex: str) -> re.Pattern[str]:
    return re.compile(unicodedata.normalize("NFC", regex), re.DOTALL | re.IGNORECASE)


def quoted_path(path: str) -> str:
    """The pattern that matches exactly this path."""
    return re.sub(r"([*?\\]|\A\s|\s\Z)", r"\\\1", path)


def starred(pieces: Sequence[str], step: str) -> str:
    """A regex for `pieces` with any number of `step` between each two of them.

    A piece between two stars is taken where it first fits, and kept there. That is never wrong for
    pieces of a fixed length, and without it a row of stars would take time without end.
    """
    first, *further = pieces
    if not further:
        return first
    *middle, last = further
    return first + "".join(f"(?>{step}*?{piece})" for piece in middle if piece) + f"{step}*{last}"


@lru_cache(maxsize=4096)
def name_pattern(text: str) -> re.Pattern[str]:
    """A pattern for a host, a tool, an agent: compared without case."""
    return re.compile(_wildcards(text, one=".").lower(), re.DOTALL)


def quoted_name(name: str) -> str:
    """The pattern that matches exactly this name."""
    return quoted_path(name)


def _read_word(text: str, start: int) -> tuple[WordPattern, int]:
    pieces, position, quoted = [""], start, False
    is_literal = True
    form = ""
    while position < len(text) and not text[position].isspace():
        char = text[position]
        if char in "'\"":
            end = text.find(char, position + 1)
            if end < 0:
                raise ValueError(f"a {char} is not closed")
            pieces[-1] += re.escape(text[position + 1 : end])
            form += text[position + 1 : end]
            position, quoted = end + 1, True
        elif char == "\\":
            if position + 1 >= len(text):
                raise ValueError("nothing follows the last backslash")
            pieces[-1] += re.escape(text[position + 1])
            form += text[position + 1]
            position, quoted = position + 2, True
        else:
            _add(char, pieces, one=".")
            form += {"*": MANY, "?": ONE}.get(char, char)
            is_literal = is_literal and char not in "*?"
            position += 1
    spelled = text[start:position]
    if not quoted and spelled in _OPERATORS:
        raise ValueError(
            f"`{spelled}` joins commands; a rule is compared with one command at a time"
        )
    return WordPattern(
        re.compile(starred(pieces, "."), re.DOTALL),
        is_literal,
        not quoted and spelled in ("*", "**"),
        is_open=text[position - 1] == "*" and text[position - 2 : position - 1] != "\\",
        form=form,
    ), position


_REST = WordPattern(re.compile(".*", re.DOTALL), is_literal=False, is_rest=True)


def _component(text: str) -> str:
    return _wildcards(text, one="[^/]") + r"(?=/|\Z)"


def _wildcards(text: str, *, one: str) -> str:
    """A regex for text in which `*` is any number of `one` and `?` is one of them."""
    pieces, position = [""], 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            if position + 1 >= len(text):
                raise ValueError("nothing follows the last backslash")
            pieces[-1] += re.escape(text[position + 1])
            position += 2
            continue
        _add(char, pieces, one=one)
        position += 1
    return starred(pieces, one)


def _add(char: str, pieces: list[str], *, one: str) -> None:
    if char == "*":
        pieces.append("")
    else:
        pieces[-1] += one if char == "?" else re.escape(char)
