"""What the variables of a command line hold, as far as it says so itself.

Only assignments of plain text count, and of the home and the working folder. Whatever else could
set a variable makes all of them unknown.
"""

import itertools
import os
import re
from collections.abc import Hashable, Iterator, Sequence

from dirge_py.permission.marks import (
    ANYTHING,
    QUOTED,
    REFERENCE,
    revived,
    variable_of,
)
from dirge_py.permission.words import listed

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?)=", re.DOTALL)
_DECLARERS = listed("export declare typeset readonly local")
_SETTERS = listed("read mapfile readarray getopts unset select printf let coproc")
_FROM_OUTSIDE = ("TMPDIR", "USER", "LOGNAME", "VIRTUAL_ENV")
_SET_BY_PROGRAMS = re.compile(
    r"BASH.*|DIRGE.*|GIT_.*|.*PAGER|.*EDITOR|VISUAL|.*_PROXY|.*_proxy|COMP_.*|COPROC|DIRSTACK|EPOCH.*"
    r"|E?UID|FUNCNAME|FUNCNEST|GROUPS|HIST.*|HOME|HOST.*|IFS|LANG.*|LC_.*|LINENO|LINES|COLUMNS"
    r"|MACHTYPE|MAPFILE|OLDPWD|OPT.*|OSTYPE|P?PID|PATH|PIPESTATUS|PPID|PS\d|PWD|RANDOM|READLINE.*"
    r"|REPLY|SECONDS|SHELL.*|SHLVL|SRANDOM|TERM|TZ|_"
)
_MOST_VARIANTS = 8
_NOT_UNKNOWN = ("HOME", "PWD")
Words = tuple[str, ...]


class Variables:
    """Values by name, in the order of the text. None: nobody can tell.

    `is_late`: a value was found behind a use of its variable; it may hold there, too (in a loop, in
    a function), so that the text has to be read once more.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._values: dict[str, tuple[str, ...] | None] = {
            name: (os.environ[name],) for name in _FROM_OUTSIDE if name in os.environ
        }
        self._is_open = False
        self._used: dict[str, Sequence[str] | None] = {}
        self._unset: dict[str, bool] = {}

    @property
    def is_late(self) -> bool:
        return any(self._value(name) != value for name, value in self._used.items())

    @property
    def state(self) -> Hashable:
        """Equal as long as every variable holds what it held."""
        return self._is_open, tuple(self._values.items())

    def note(self, words: Words) -> None:
        """Take the assignments of one command; they hold for those behind it."""
        start = 0
        while start < len(words) and ASSIGNMENT.match(words[start]):
            start += 1
        for word in words[:start]:
            # In front of a command they are only for that one.
            self._assign(word, is_known=start == len(words))
        name, rest = (words[start], words[start + 1 :]) if start < len(words) else ("", ())
        if name in ("do", "then", "else", "{", "!", "time", "builtin", "command"):
            self.note(words[start + 1 :])
        elif name in _DECLARERS:
            for word in rest:
                if ASSIGNMENT.match(word):
                    self._assign(word, is_known=True)
                else:
                    self._is_open |= is_unknown(word) or bool(re.match(r"-[^xrgp]", word))
        elif name == "for" and len(rest) > 1 and rest[1] == "in":
            self._hold(rest[0], rest[2:] or ("",))
        elif name == "for" and rest:
            self._values[rest[0]] = None  # It goes through the arguments.
        elif name in ("source", ".") or (name == "eval" and any(map(REFERENCE.search, rest))):
            self._is_open = True
        elif name in _SETTERS and (name != "printf" or "-v" in rest):
            self._values.update(dict.fromkeys(rest))
            self._is_open |= any(map(REFERENCE.search, rest))

    def spread(self, words: Words) -> Iterator[Words]:
        """The command with known values in place of their variables, for every value."""
        choices = [self._choices(word) for word in words]
        count = 1
        for variants in choices:
            count *= len(variants)
        if count > _MOST_VARIANTS:
            choices = [variants if len(variants) == 1 else [(word,)]
                       for word, variants in zip(words, choices, strict=True)]  # fmt: skip
        for chosen in itertools.product(*choices):
            yield tuple(itertools.chain.from_iterable(chosen))

    def _choices(self, word: str) -> list[Words]:
        if not REFERENCE.search(word):
            return [(word,)]
        references = dict.fromkeys(REFERENCE.findall(word))
        variants: list[list[str]] = [[word]]
        for reference in references:
            values = self._of(reference)
            if (
                values is None
                and variable_of(reference) in _NOT_UNKNOWN
                and (variable_of(reference) in self._values)
            ):
                # By its name alone it would count as known.
                values = (ANYTHING,)
            if values is None or len(variants) * len(values) > _MOST_VARIANTS:
                continue
            variants = [
                [text for part in parts for text in _placed(part, reference, value)]
                for parts in variants
                for value in values
            ]
        return [tuple(parts) for parts in variants]

    def empty_in(self, words: Words) -> tuple[str, ...]:
        """The variables in `words` that count as empty, because nothing sets them."""
        names = (variable_of(one) for word in words for one in REFERENCE.findall(word))
        return tuple(dict.fromkeys(one for one in names if one and self._value(one) == ("",)
                                   and one not in self._values))  # fmt: skip

    def _of(self, reference: str) -> Sequence[str] | None:
        name = variable_of(reference)
        if name:
            self._used.setdefault(name, self._value(name))
        return self._value(name) if name else None

    def _value(self, name: str) -> Sequence[str] | None:
        if self._is_open:
            return None
        if name in self._values:
            return self._values[name]
        return ("",) if self._is_unset(name) else None

    def _is_unset(self, name: str) -> bool:
        """Whether nothing gives this variable a value: its name stands nowhere but in uses."""
        if name not in self._unset:
            is_set = name in os.environ or _SET_BY_PROGRAMS.fullmatch(name)
            other = rf"(?<![$\w])(?<!\$\{{){name}(?!\w)"
            self._unset[name] = not is_set and not re.search(other, self._text)
        return self._unset[name]

    def _assign(self, word: str, *, is_known: bool) -> None:
        found = ASSIGNMENT.match(word)
        assert found is not None
        name, index, plus = found.groups()
        if name in ("IFS", "BASH_ALIASES", "BASH_CMDS"):
            self._is_open = True
        if index or plus or not is_known:
            self._values[name] = None
        else:
            self._hold(name, (word[found.end() :],))

    def _hold(self, name: str, texts: Sequence[str]) -> None:
        values = [" ".join(choice) for text in texts for choice in self._choices(text)]
        before = self._values.get(name, ())
        is_known = before is not None and not any(map(self._is_unknown, values))
        self._values[name] = tuple(dict.fromkeys((*(before or ()), *values))) if is_known else None

    def _is_unknown(self, value: str) -> bool:
        names = map(variable_of, REFERENCE.findall(value))
        return any(name not in _NOT_UNKNOWN or name in self._values for name in names)


def _placed(text: str, reference: str, value: str) -> list[str]:
    """The words that `text` becomes with a value in the place of a reference."""

    def put(found: re.Match[str]) -> str:
        return value if found.group() == reference else found.group()

    if reference.startswith(QUOTED):
        value = value.replace("$", QUOTED)
        return [REFERENCE.sub(put, text)]
    value = revived(value)
    placed = REFERENCE.sub(put, text)
    return placed.split() if not value or re.search(r"\s", value) else [placed]


def is_unknown(word: str) -> bool:
    """Whether something in the word is not known before it runs. A number can name nothing else."""
    return any(
        variable_of(reference) not in _NOT_UNKNOWN and reference[1:] not in ("$", "?", "#")
        for reference in REFERENCE.findall(word)
    )


def with_places(word: str, home: str, cwd: str) -> str:
    """The word with the home folder and the working folder written out."""

    def place(found: re.Match[str]) -> str:
        return {"HOME": home, "PWD": cwd}.get(variable_of(found.group()), found.group())

    return REFERENCE.sub(place, word)
