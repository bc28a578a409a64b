"""Programs whose arguments are files they change; they ask, and these are the files to show."""

from collections.abc import Iterator, Sequence
from typing import Literal

from dirge_py.permission.words import Word, listed

_CHANGE_ALL = listed("rm rmdir mkdir touch truncate shred tee unlink mv")
_CHANGE_LAST = frozenset(("cp", "install", "ln"))
_CHANGE_AFTER_FIRST = frozenset(("chmod", "chown", "chgrp"))

TURNS_SHELL = listed(
    "export declare typeset readonly local set unset shopt alias unalias source . eval exec trap"
    " enable hash builtin command pushd popd read mapfile readarray let getopts umask ulimit"
    " function return exit"
)
"""Builtins after which the next command of the same line may mean something else."""


def changed_files(words: Sequence[Word]) -> Iterator[tuple[Literal["read", "edit"], Word]]:
    """The files a command would change, or read in order to copy them, as far as its words tell."""
    if not words:
        return
    name = words[0].text.rsplit("/", 1)[-1]
    operands = list(_operands(words[1:]))
    if name in _CHANGE_ALL:
        yield from (("edit", word) for word in operands)
    elif name in _CHANGE_AFTER_FIRST:
        yield from (("edit", word) for word in operands[1:])
    elif name in _CHANGE_LAST and operands:
        yield from (("read", word) for word in operands[:-1])
        yield "edit", operands[-1]
    elif name == "dd":
        yield from (
            ("edit", Word(word.text[3:])) for word in operands if word.text.startswith("of=")
        )


def _operands(words: Sequence[Word]) -> Iterator[Word]:
    is_open = True
    for word in words:
        if is_open and word.text == "--":
            is_open = False
        elif is_open and word.text.startswith("--target-directory="):
            yield Word(word.text.partition("=")[2], word.has_glob)
        elif word.text and not (is_open and word.text.startswith("-")):
            yield word
