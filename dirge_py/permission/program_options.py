"""Parses the arguments of a known program: options by allow-list, then its operands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Literal

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import Word, word_set

OperandRule = Literal["path", "text", "revision", "none"]
"""What the operands are. `revision`: a git revision or a path, which cannot be told apart."""

names_in_text = cache(word_set)


@cache
def _signs(options: str, pattern: str) -> Mapping[str, str]:
    """Return what follows each option in the text: the sign that says whether it has a value."""
    return dict(re.findall(pattern, options))


_NUMBER = late_pattern(r"-\d+")
_MOST_COLONS = 8


class NotReadOnly(Exception):
    """The command may not run without a question; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The arguments that a program may get without a question.

    Options are listed as for `getopt`; long ones count only when spelled in full. `--help` and
    `--version` are always allowed.
    """

    short: str = field(default="", kw_only=False)
    """Its short options: `n:` has a value, `U::` may have an attached one."""
    long: str = field(default="", kw_only=False)
    """Its long options: `lines=` has a value, attached or as the next word, `color=?` may have an
    attached one."""
    paths: str = ""
    """Options, short or long, whose value is a file to read."""
    operands: OperandRule = "path"
    """The kind of its operands."""
    lead: int = 0
    """The number of first operands that are text, such as the pattern of a search."""
    lead_options: str = ""
    """Options that take the place of these texts."""
    needs: str = ""
    """Operands are allowed only together with one of these options."""
    most: int | None = None
    """The most operands that are allowed; None: no limit."""
    takes_globs: bool = False
    """Whether a file named like any of its options could do no harm."""
    takes_numbers: bool = False
    """Whether it takes options like `-5`."""


@dataclass(slots=True)
class ParsedOptions:
    """The parsed arguments: option names with their values, and operands in order."""

    seen: list[tuple[str, Word | None]] = field(default_factory=list)
    operands: list[Word] = field(default_factory=list)
    guarded: int | None = None
    """The number of operands before `--`; those after it cannot be options."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.seen)


def parse_options(row: Program, arguments: Sequence[Word]) -> ParsedOptions:
    """Split arguments into options and operands. Raises NotReadOnly for other options."""
    given = ParsedOptions()
    rest = iter(arguments)
    for word in rest:
        text = word.text
        if given.guarded is not None or text == "-" or not text.startswith("-"):
            given.operands.append(word)
        elif text == "--":
            given.guarded = len(given.operands)
        elif text.startswith("--"):
            given.seen.append(_long_option(row, word, rest))
        elif row.takes_numbers and _NUMBER.fullmatch(text):
            given.seen.append(("number", None))
        else:
            given.seen.extend(_short_options(row, word, rest))
    return given


def files_read(row: Program, given: ParsedOptions) -> Iterator[Word]:
    """Yield the operands and option values that name files.

    Raises NotReadOnly if it has too many operands, or a glob could become an option.
    """
    _check_operands(row, given)
    for name, value in given.seen:
        if name in names_in_text(row.paths) and value is not None:
            yield value
    lead = 0 if given.names & names_in_text(row.lead_options) else row.lead
    for index, word in enumerate(given.operands):
        if index < lead or row.operands == "text":
            # A glob may expand to file names, which the program then gets as operands.
            if word.has_glob:
                yield word
        elif word.text != "-":
            yield word
            if row.operands == "revision":
                yield from paths_behind_colons(word)


def paths_behind_colons(word: Word) -> Iterator[Word]:
    """Yield possible paths in `REVISION:PATH` or `:STAGE:PATH`; a revision may contain colons, too.

    `:!PATH` and `:^PATH` exclude a path, and `:/PATH` is relative to the top of the work tree.
    """
    text = word.text
    if text.startswith((":!", ":^")):
        return
    if text.count(":") > _MOST_COLONS:
        raise NotReadOnly(f"one of its arguments has more than {_MOST_COLONS} colons")
    text = text.removeprefix(":/")
    if text != word.text:
        yield Word(text or ".", word.has_glob)
    for index, char in enumerate(text):
        if char == ":":
            yield Word(text[index + 1 :] or ".", word.has_glob)


def _check_operands(row: Program, given: ParsedOptions) -> None:
    count = len(given.operands)
    if count and row.operands == "none":
        raise NotReadOnly("dirge asks when it has arguments")
    if count and row.needs and not given.names & names_in_text(row.needs):
        raise NotReadOnly("its arguments could change something")
    if row.most is not None and count > row.most:
        raise NotReadOnly(f"it has more than {row.most} arguments")
    for index, word in enumerate(given.operands):
        if not word.has_glob:
            continue
        if row.most is not None and not word.is_single:
            raise NotReadOnly(f"{word.text} could expand to several arguments")
        is_behind_dashes = given.guarded is not None and index >= given.guarded
        if not (row.takes_globs or is_behind_dashes or word.is_no_option):
            raise NotReadOnly(f"{word.text} could be read as an option; put `--` before it")


def _long_option(row: Program, word: Word, rest: Iterator[Word]) -> tuple[str, Word | None]:
    name, has_value, value = word.text[2:].partition("=")
    if "*" in name or "?" in name or "[" in name:
        raise NotReadOnly(f"{word.text} could be read as another option")
    sign = _signs(f"help version {row.long}", r"([^\s=]+)(\S*)").get(name)
    if has_value and sign:
        if word.has_glob and name in names_in_text(row.paths):
            raise NotReadOnly(f"{word.text} is a pattern")
        return name, Word(value)
    if has_value or sign is None:
        raise NotReadOnly(f"its option --{name} is not known to be read-only")
    return name, _next_value(word, rest) if sign == "=" else None


def _short_options(
    row: Program, word: Word, rest: Iterator[Word]
) -> Iterator[tuple[str, Word | None]]:
    if word.has_glob:
        raise NotReadOnly(f"{word.text} could be read as another option")
    letters = word.text[1:]
    for index, letter in enumerate(letters):
        attached = letters[index + 1 :]
        sign = _signs(row.short, r"(.)(:*)").get(letter)
        if sign is None:
            raise NotReadOnly(f"its option -{letter} is not known to be read-only")
        if not sign:
            yield letter, None
            continue
        takes_next = sign == ":" and not attached
        yield letter, _next_value(word, rest) if takes_next else Word(attached)
        return


def _next_value(option: Word, rest: Iterator[Word]) -> Word:
    value = next(rest, None)
    if value is None:
        raise NotReadOnly(f"{option.text} has no value")
    # If the table were wrong about this option, its "value" would be read as an option.
    if value.text.startswith("-") and value.text != "-" and not _NUMBER.fullmatch(value.text):
        raise NotReadOnly(f"the value of {option.text} looks like an option")
    if value.has_glob:
        raise NotReadOnly(f"the value of {option.text} is a pattern")
    return value
