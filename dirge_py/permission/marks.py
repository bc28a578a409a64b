"""Marks in the words of a command line: which letters still mean something to the shell.

A `$` that expands, an unquoted `*` and the like stand for themselves; where quotes or a backslash
took their meaning away, a mark stands in their place. Marks are letters of a private area.
"""

import re

_DEAD = {
    char: chr(0xE000 + number) for number, char in enumerate(("$", "*", "?", "[", "{", "`", "~"))
}
QUOTED = "\ue010"
"""A `$` between double quotes: what it expands to is no word of its own and is not split."""
FED = "\ue011"
"""A word of its own: the command reads text that stands in the command line."""
UNRUN = "\ue012"
"""A word of its own: these words are text or a pattern of `case`, not surely a command."""
FOUND = "\ue013"
"""In a word: a file that a `find` comes upon."""
ANYTHING = "$()"
"""A substitution whose content was taken out: any number of any words."""

REFERENCE = re.compile(
    rf"[${QUOTED}](?:\{{[^}}]*\}}?|[A-Za-z_][A-Za-z0-9_]*|[@*#?$!0-9-]|\(\))|`|{FOUND}"
)
_NAME = re.compile(r"\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_TO_MARK = str.maketrans(_DEAD)
_PLAIN = str.maketrans({**{mark: char for char, mark in _DEAD.items()}, QUOTED: "$", FOUND: "{}"})
_WITHOUT = str.maketrans(
    dict.fromkeys((*_DEAD.values(), QUOTED, FOUND, FED, UNRUN), "\ufffd")  # marks that are no marks
)


def clean(text: str) -> str:
    """Text from outside: letters that would be taken for marks are replaced."""
    return text.translate(_WITHOUT)


def quoted(text: str) -> str:
    """The text, as if it stood between single quotes."""
    return text.translate(_TO_MARK)


def plain(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words without marks, as a rule would be compared with them."""
    return tuple(word.translate(_PLAIN) for word in words if word not in (FED, UNRUN))


def plain_text(word: str) -> str:
    """One word without marks."""
    return word.translate(_PLAIN)


def revived(value: str) -> str:
    """The value of a variable where it expands unquoted: patterns in it count again."""
    for char in "*?[":
        value = value.replace(_DEAD[char], char)
    return value


def variable_of(reference: str) -> str:
    """The name, where the reference stands for the whole value of a variable; else ""."""
    found = _NAME.fullmatch(reference[1:])
    return found.group(1) if found and ("{" in reference) == ("}" in reference) else ""
