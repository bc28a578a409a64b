"""Words that are known only when a command runs, and whether a rule could mean them."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import FOUND, QUOTED, REFERENCE, unmarked, word_set
from dirge_py.permission.command_splitter import SplitCommand, is_unresolved, with_folders_spelled
from dirge_py.permission.launchers import READERS, REMOVERS, find_starts
from dirge_py.permission.patterns import MANY, ONE

_REFERENCE = "\ue022"
_LONGEST = 256
_MOST_WORDS = 64
_MOST_NAMES = 64
_WRITERS = REMOVERS | word_set(
    "rmdir mkdir touch truncate tee mv cp install ln chmod chown chgrp dd sed rsync patch unzip"
)
_LISTERS = word_set("find fd fdfind ls rg git")
_FILTERS = word_set("grep egrep head tail sort uniq")
_RANGE = re.compile(r"(?<!\$)\{[^{}]*\.\.[^{}]*\}")
_SEARCHERS = word_set("grep egrep fgrep zgrep rg ag ack sed awk gawk mawk jq yq")
_COUNTED = {
    **dict.fromkeys(("head", "tail"), word_set("-n -c --lines --bytes")),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), word_set("-e -m -A -B -C")),
}

Names = Callable[[str], Sequence[str] | None]
"""The names a pattern stands for in the folder at hand, relative to it; None: too many."""


@dataclass(frozen=True, slots=True)
class UnresolvedWord:
    """The form of one word."""

    form: str = ""
    """Its text, with `MANY` and `ONE` for what is not known."""
    is_rest: bool = False
    """It stands for any number of any words."""


@dataclass(frozen=True, slots=True)
class UnresolvedCommand:
    """A command of which something is known only when it runs."""

    words: tuple[UnresolvedWord, ...]
    """The forms of its words."""
    shown: str
    """The word that is not known, as it is written."""
    is_program: bool
    """That word names the program."""


def unresolved_commands(
    commands: Sequence[SplitCommand], *, home: str, cwd: str, names: Names
) -> Iterator[UnresolvedCommand]:
    """The commands that could be several, in the forms they can have."""
    for words in commands:
        placed = [with_folders_spelled(word, home, cwd) for word in words[:_MOST_WORDS]]
        shown = next((word for word in placed if _is_open(word)), "")
        if not shown:
            continue
        head = _head(placed[0])
        rest = tuple(one for word in placed[1:] for one in _argument(word, names))
        is_program = _is_open(placed[0])
        yield UnresolvedCommand((*head, *rest), unmarked(shown), is_program)


def unresolved_paths(commands: Sequence[SplitCommand], sources: Sequence[str]) -> tuple[str, ...]:
    """Words of commands that read files, and files they are fed with, that name unknown files."""
    found = [unmarked(word) for word in sources if is_unresolved(word)]
    for words in commands:
        name = words[0].rsplit("/", 1)[-1]
        if name in READERS:
            found += map(unmarked, _unknown_operands(name, words))
    return tuple(dict.fromkeys(found))


def reads_of_finds(commands: Sequence[SplitCommand]) -> tuple[SplitCommand, ...]:
    """For every `find` that has files read: a command that reads all that it could find."""
    return tuple(
        ("grep", "-r", "x", *find_starts(words))
        for words in commands
        if words[0].rsplit("/", 1)[-1] == "find" and _has_files_read(words)
    )


def reads_of_listers(
    listers: Sequence[SplitCommand], words: SplitCommand
) -> tuple[SplitCommand, ...] | None:
    """The same for an `xargs` that gets the names which other commands list; None: it does not.

    `listers` are what its input goes through, in their order.
    """
    if words[0].rsplit("/", 1)[-1] != "xargs" or READERS.isdisjoint(words) or not listers:
        return None
    first, *filters = listers
    if first[0] not in _LISTERS or any(one[0] not in _FILTERS for one in filters):
        return None
    return (("grep", "-r", "x", *_listed_in(first)),)


def _listed_in(words: SplitCommand) -> tuple[str, ...]:
    """The folders whose files a command lists."""
    if words[0] == "find":
        return find_starts(words)
    operands = tuple(word for word in words[1:] if not word.startswith("-"))
    # `ls` leaves the folder out of the names; the others take a pattern or a subcommand first.
    return (*operands, ".") if words[0] == "ls" else operands[1:] or (".",)


def _has_files_read(words: SplitCommand) -> bool:
    runs = [words[at + 1 :] for at, one in enumerate(words) if one.startswith(("-exec", "-ok"))]
    return any(
        one.rsplit("/", 1)[-1] in READERS for run in runs for word in run for one in word.split()
    )


def unresolved_targets(commands: Sequence[SplitCommand], targets: Sequence[str]) -> tuple[str, ...]:
    """Words of commands that change files, and files they are redirected to, likewise."""
    found = [unmarked(word) for word in targets if is_unresolved(word)]
    for words in commands:
        name = words[0].rsplit("/", 1)[-1]
        if name in _WRITERS and (name != "sed" or any(w.startswith("-i") for w in words)):
            found += map(unmarked, _unknown_operands(name, words))
    return tuple(dict.fromkeys(found))


def _unknown_operands(name: str, words: SplitCommand) -> Iterator[str]:
    counted = _COUNTED.get(name, frozenset())
    is_first = name in _SEARCHERS and not any(word in ("-e", "-f") for word in words)
    for before, word in pairwise(words):
        is_option = word.startswith("-") and QUOTED in word and "=" not in word
        if not (is_unresolved(word) or _RANGE.search(word)) and not (
            word.startswith("-") or before in counted
        ):
            is_first = False
            continue
        if not (is_unresolved(word) or _RANGE.search(word)) or FOUND in word:
            continue
        is_value = before in counted and QUOTED in word
        if is_option or is_value or (is_first and QUOTED in word and "$" not in word):
            is_first = is_first and (is_option or is_value)
            continue
        yield word


def could_match(pattern: Sequence[tuple[str, bool]], words: Sequence[UnresolvedWord]) -> bool:
    """Whether a command of this form could fit a pattern: its words' forms, and which are rests."""
    rows, columns = len(pattern), len(words)
    fits = [[False] * (columns + 1) for _ in range(rows + 1)]
    fits[rows][columns] = True
    for row in range(rows, -1, -1):
        for column in range(columns, -1, -1):
            if row < rows and pattern[row][1]:
                fits[row][column] = fits[row + 1][column] or (
                    column < columns and fits[row][column + 1]
                )
            if column < columns and words[column].is_rest:
                fits[row][column] |= fits[row][column + 1] or (row < rows and fits[row + 1][column])
            elif row < rows and column < columns and not pattern[row][1]:
                fits[row][column] |= fits[row + 1][column + 1] and forms_overlap(
                    pattern[row][0], words[column].form
                )
    return fits[0][0]


def forms_overlap(one: str, other: str) -> bool:
    """Whether some text has both forms."""
    if len(one) > _LONGEST or len(other) > _LONGEST:
        return True
    row = [False] * len(other) + [True]
    for at in range(len(other) - 1, -1, -1):
        row[at] = row[at + 1] and other[at] == MANY
    for char in reversed(one):
        above, row = row, [False] * (len(other) + 1)
        row[len(other)] = above[len(other)] and char == MANY
        for at in range(len(other) - 1, -1, -1):
            if char == MANY or other[at] == MANY:
                row[at] = above[at] or row[at + 1]
            else:
                row[at] = above[at + 1] and (char == other[at] or ONE in (char, other[at]))
    return row[0]


def _is_open(word: str) -> bool:
    return is_unresolved(word) or _form(word) != unmarked(word)


def _head(word: str) -> tuple[UnresolvedWord, ...]:
    """The program: as it is called, in any folder."""
    before, is_split = _first_part(word)
    form = _form(before)
    after = form.rpartition(_REFERENCE)[2]
    # What is unknown may hold folders, too; a pattern stays within one.
    name = after.rpartition("/")[2] if _REFERENCE not in form or "/" in after else MANY + after
    name = name.replace(_REFERENCE, MANY)
    if not is_split:
        return (UnresolvedWord(name),)
    return (
        (UnresolvedWord(MANY), UnresolvedWord(is_rest=True))
        if name
        else (UnresolvedWord(is_rest=True),)
    )


def _argument(word: str, names: Names) -> tuple[UnresolvedWord, ...]:
    before, is_split = _first_part(word)
    form = _form(before)
    if is_split:
        start = (UnresolvedWord(form.replace(_REFERENCE, MANY) + MANY),) if form else ()
        return (*start, UnresolvedWord(is_rest=True))
    if _REFERENCE in form or form == unmarked(word):
        return (UnresolvedWord(form.replace(_REFERENCE, MANY)),)
    if "{" in word:
        return (UnresolvedWord(form),)
    found = names(unmarked(word))
    if found is None or len(found) > _MOST_NAMES:
        return (UnresolvedWord(is_rest=True),)
    return tuple(map(UnresolvedWord, found or (unmarked(word),)))


def _first_part(word: str) -> tuple[str, bool]:
    """What stands before anything that could become several words, and whether there is such."""
    for found in REFERENCE.finditer(word):
        is_list = "@" in found.group()
        if not found.group().startswith((QUOTED, FOUND)) or is_list:
            return word[: found.start()], True
    return word, False


def _form(word: str) -> str:
    if word in ("[", "[["):
        return word
    form = REFERENCE.sub(_REFERENCE, word)
    form = form.replace("*", MANY).replace("?", ONE)
    for opening, closing in ("[]", "{}"):
        start, end = form.find(opening), form.rfind(closing)
        if 0 <= start < end and (opening == "[" or ".." in form[start:end]):
            form = form[:start] + MANY + form[end + 1 :]
    return unmarked(form)
