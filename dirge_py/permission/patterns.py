"""Patterns for commands, paths and names, and the files that a glob matches.

Commands: the pattern is split into words as in a shell (text in quotes or after a backslash is
literal). A word `*` or `**` stands for any number of words, also none; inside a word `*` is any
text and `?` one character. Paths: `*` and `?` stay within one component, a component `**` is any
number of them, so `src/**` is `src` and everything below it; a backslash makes the next character
literal. Names: `*` and `?` over the whole text.
"""

import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import Word
from dirge_py.permission.facts import UnresolvedWord


def program_of(words: Sequence[str]) -> str:
    """Return the program that a command starts, without its folder; "" for no words."""
    return words[0].rsplit("/", 1)[-1] if words else ""


_OPERATORS = frozenset(("&&", "||", ";", "|", "&", "|&", ">", ">>", "<"))


MANY, ONE = "\ue020", "\ue021"
"""The marks in a word's form for any text and for any one character."""
_LONGEST_FORM = 256


@dataclass(frozen=True, slots=True)
class WordPattern:
    """One word of a command pattern."""

    regex: re.Pattern[str]
    """Matches the whole word."""
    is_literal: bool
    """Whether it has no wildcards."""
    is_rest: bool = False
    """Whether it stands for any number of words."""
    is_open: bool = False
    """Whether it ends in an unquoted star."""
    form: str = ""
    """Its text, with `MANY` and `ONE` for wildcards."""

    def matches(self, word: Word, *, is_strict: bool) -> bool:
        # An unquoted `*` is expanded when the command runs: a rule that grants the literal star was
        # not meant for it.
        if is_strict and word.has_glob and self.is_literal:
            return False
        return self.regex.fullmatch(word.text) is not None


@lru_cache(maxsize=4096)
def command_pattern(text: str) -> tuple[WordPattern, ...]:
    """Parse a command pattern into words. Raises ValueError with a message for users."""
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
    """Whether all of `words` match. `is_strict` is how allow rules are read.

    In ask and deny rules, a star at the end of the last word also covers further words: a rule that
    denies `git push*` means `git push --force`, too. `spelled` maps positions of words that no star
    matches to the text that the pattern's word has to begin with.
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


def could_match(pattern: Sequence[WordPattern], words: Sequence[UnresolvedWord]) -> bool:
    """Whether a command of which only the form is known could match a pattern."""
    return _overlap(pattern, words, lambda word: word.is_rest, _words_overlap)


def _words_overlap(one: WordPattern | UnresolvedWord, other: WordPattern | UnresolvedWord) -> bool:
    if max(len(one.form), len(other.form)) > _LONGEST_FORM:
        return True
    return _overlap(one.form, other.form, MANY.__eq__, lambda a, b: a == b or ONE in (a, b))


def _overlap(
    one: Sequence[Any],
    other: Sequence[Any],
    is_many: Callable[[Any], bool],
    fits: Callable[[Any, Any], bool],
) -> bool:
    """Whether something has both forms, in which some elements stand for any number of others."""
    row = [False] * len(other) + [True]
    for at in range(len(other) - 1, -1, -1):
        row[at] = row[at + 1] and is_many(other[at])
    for element in reversed(one):
        above, row = row, [False] * (len(other) + 1)
        row[-1] = above[-1] and is_many(element)
        for at in range(len(other) - 1, -1, -1):
            if is_many(element) or is_many(other[at]):
                row[at] = above[at] or row[at + 1]
            else:
                row[at] = above[at + 1] and fits(element, other[at])
    return row[0]


def quoted_command(words: Sequence[Word]) -> str:
    """Return the pattern that matches exactly these words."""
    return shlex.join([word.text for word in words])


@lru_cache(maxsize=4096)
def path_pattern(text: str) -> re.Pattern[str]:
    """Compile an absolute path pattern, matched in full against a path without a final slash.

    Raises ValueError with a message for users.
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
            stretches[-1] += "/" + _wildcards(component, one="[^/]") + r"(?=/|\Z)"
    return re.compile(regex_with_gaps(stretches, "(?:/[^/]+)"), re.DOTALL)


def match_path(pattern: re.Pattern[str], path: str, *, is_strict: bool) -> bool:
    """Whether `path` matches. Strict matching compares exactly, else case and form are ignored."""
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
    """Return the pattern that matches exactly this path."""
    return re.sub(r"([*?\\]|\A\s|\s\Z)", r"\\\1", path)


def regex_with_gaps(pieces: Sequence[str], step: str) -> str:
    """Return a regex for `pieces` with any number of `step` between each two of them.

    A piece between two stars is matched where it first fits, without backtracking. For pieces of a
    fixed length that is always correct, and it keeps a row of stars from taking exponential time.
    """
    first, *further = pieces
    if not further:
        return first
    *middle, last = further
    return first + "".join(f"(?>{step}*?{piece})" for piece in middle if piece) + f"{step}*{last}"


@lru_cache(maxsize=4096)
def name_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for a host, a tool or an agent, compared without case."""
    return re.compile(_wildcards(text, one=".").lower(), re.DOTALL)


_COMMAND_TOKEN = late_pattern(r"'([^']*)'|\"([^\"]*)\"|\\(.)|([^'\"\\])", re.DOTALL)
_PATH_TOKEN = late_pattern(r"\\(.)|([^\\])", re.DOTALL)
_Token: TypeAlias = tuple[str, bool]
"""Text of a pattern, and whether it is one character that may be a wildcard."""


def _token(kind: re.Pattern[str], text: str, position: int) -> tuple[_Token, int]:
    found = kind.match(text, position)
    if found is None and text[position] == "\\":
        raise ValueError("nothing follows the last backslash")
    if found is None or found.lastindex is None:
        raise ValueError(f"a {text[position]} is not closed")
    return (found[found.lastindex], found.lastindex == kind.groups), found.end()


def _regex_of(tokens: Iterable[_Token], one: str) -> str:
    """Return a regex in which the wildcard `*` is any number of `one` and `?` is one of them."""
    pieces = [""]
    for text, is_bare in tokens:
        if is_bare and text == "*":
            pieces.append("")
        else:
            pieces[-1] += one if is_bare and text == "?" else re.escape(text)
    return regex_with_gaps(pieces, one)


def _read_word(text: str, start: int) -> tuple[WordPattern, int]:
    tokens: list[_Token] = []
    position = start
    while position < len(text) and not text[position].isspace():
        token, position = _token(_COMMAND_TOKEN, text, position)
        tokens.append(token)
    spelled, marks = text[start:position], {("*", True): MANY, ("?", True): ONE}
    is_quoted = not all(is_bare for _, is_bare in tokens)
    if not is_quoted and spelled in _OPERATORS:
        raise ValueError(f"`{spelled}` joins commands, but a rule matches one command at a time")
    return WordPattern(
        re.compile(_regex_of(tokens, "."), re.DOTALL),
        is_literal=marks.keys().isdisjoint(tokens),
        is_rest=not is_quoted and spelled in ("*", "**"),
        is_open=text[position - 1] == "*" and text[position - 2 : position - 1] != "\\",
        form="".join(marks.get(token, token[0]) for token in tokens),
    ), position


_REST = WordPattern(late_pattern(".*", re.DOTALL), is_literal=False, is_rest=True)


def _wildcards(text: str, *, one: str) -> str:
    tokens, position = [], 0
    while position < len(text):
        token, position = _token(_PATH_TOKEN, text, position)
        tokens.append(token)
    return _regex_of(tokens, one)


MAX_ENTRIES = 20_000
MAX_FOUND = 400
GLOB = late_pattern(r"[*?\[]")
"""Matches a character that makes a word a pattern of file names."""


class GlobExpander:
    """Expands patterns. The limits apply to all patterns of one decision together."""

    def __init__(self) -> None:
        self._entries_left = MAX_ENTRIES
        self._found_left = 2 * MAX_FOUND
        self._names: dict[str, list[str] | None] = {}

    def expand(self, folder: str, pattern: str) -> Sequence[str] | None:
        """Return the absolute paths that match `pattern` in `folder`; None if too many.

        They include the fixed part before the first wildcard, because that folder gets listed.
        """
        components = pattern.split("/")
        fixed = next(index for index, part in enumerate(components) if GLOB.search(part))
        start = os.path.join(folder, "/".join(components[:fixed]) or ("/" if fixed else ""))
        found = [start]
        level = [start]
        for component in components[fixed:]:
            matches: list[str] = []
            for place in level:
                fitting = self._fitting(place, component)
                if fitting is None:
                    return None
                matches.extend(os.path.join(place, name) for name in fitting)
                if len(matches) > min(MAX_FOUND, self._found_left):
                    return None
            self._found_left -= len(matches)
            found.extend(matches)
            level = matches
        return found

    def _fitting(self, folder: str, component: str) -> list[str] | None:
        if component in ("", ".", "..") or not GLOB.search(component):
            self._entries_left -= 1
            return [component] if self._entries_left >= 0 else None
        if folder not in self._names:
            most = max(self._entries_left, 0)
            found: list[str] = []
            with suppress(OSError), os.scandir(folder) as entries:
                found = [entry.name for entry in islice(entries, most + 1)]
            self._names[folder] = found if len(found) <= most else None
        names = self._names[folder]
        if names is None or len(names) >= self._entries_left:
            return None
        self._entries_left -= 1 + len(names)
        # Brackets are not interpreted: they match any text.
        before, bracket, _ = component.partition("[")
        pieces = [re.escape(piece).replace(r"\?", ".") for piece in before.split("*")]
        regex = regex_with_gaps([*pieces, ""] if bracket else pieces, ".")
        wanted = re.compile(regex, re.DOTALL)
        shows_hidden = component.startswith(".")
        return [n for n in names if wanted.fullmatch(n) and (shows_hidden or n[0] != ".")]


def names_in(folders: Sequence[str], pattern: str) -> Sequence[str] | None:
    """Return what `pattern` expands to in any of the folders; None if that is too many."""
    expansions = GlobExpander()
    found: dict[str, None] = {}
    for folder in folders:
        paths = expansions.expand(folder, pattern)
        if paths is None:
            return None
        depth = os.path.join(folder, pattern).count("/")
        whole = (path for path in paths if path.count("/") == depth and path[-1] != "/")
        prefix = 0 if pattern.startswith("/") else len(os.path.join(folder, ""))
        found.update(dict.fromkeys(path[prefix:] for path in whole))
    return tuple(found)
