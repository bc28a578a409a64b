"""What the searches in a command that asks anyway would come upon: for what is denied."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from dirge_py.permission.danger import HOME_SIGN
from dirge_py.permission.facts import Place
from dirge_py.permission.folders import MOVERS
from dirge_py.permission.mentions import here
from dirge_py.permission.searches import Search, searched_loosely

_PATTERN = re.compile(r"[*?\[]")


class Looks(Protocol):
    """The looks at the file system that this takes; see `shell.Surroundings`."""

    @property
    def home(self) -> str: ...
    def place(self, path: str, /) -> Place: ...
    def is_folder(self, path: str, /) -> bool: ...
    def expand(self, folder: str, pattern: str, /) -> Sequence[str] | None: ...
    def kept_beneath(self, search: Search, cwd: str, start: str, /) -> Sequence[Place] | None: ...


def kept_loosely(
    commands: Iterable[Sequence[str]],
    folders: Sequence[str],
    around: Looks,
    *,
    guesses: Collection[str],
) -> Iterator[Place]:
    """What these commands would come upon: places that rules keep from being read, and dirge's own.

    Of the physical `folders` in which they may run, `guesses` stand for one that nobody knows: that
    dirge's own lies in there says nothing.
    """
    for words in commands:
        search = searched_loosely(words)
        if search is None:
            continue
        for folder in folders:
            for start in _starts(search, folder, around):
                is_guess = folder in guesses and start == folder
                for place in around.kept_beneath(search, folder, start) or ():
                    yield replace(place, forbidden="") if is_guess else place


def leads_anywhere(commands: Iterable[Sequence[str]], home: str) -> bool:
    """Whether a `cd` among the commands goes where nobody can tell."""
    targets = (
        HOME_SIGN.sub(lambda _: home, target)
        for words in commands
        if words[0] in MOVERS
        for target in words[1:]
    )
    return any(not target or target.startswith(("-", "$", "`")) for target in targets)


def _starts(search: Search, folder: str, around: Looks) -> Iterator[str]:
    """The physical folders below which the search may read."""
    words = [here(word.text) for word in search.starts]
    named = [HOME_SIGN.sub(lambda _: around.home, word, count=1) for word in words]
    paths = [os.path.join(folder, text) for text in named] or [folder]
    for text in named:
        if _PATTERN.search(text):
            paths += around.expand(folder, text) or ()
    reals = (around.place(path).real for path in paths)
    yield from filter(around.is_folder, dict.fromkeys(reals))
