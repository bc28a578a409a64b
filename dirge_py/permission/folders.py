"""In which folder each part of a command line runs: follows `cd` as bash does, guessing high."""

import os.path
from collections.abc import Callable, Iterable, Sequence

from dirge_py.permission.words import Joint, Part

MOVERS = frozenset(("cd", "pushd", "popd"))
_MAX_FOLDERS = 8


class Folders:
    """Folders as bash keeps them: paths whose links are not followed.

    `possible` are those the part at hand may run in. `is_lost`: nobody can know; then they hold
    the root and the home folder, too, so that nothing which would be fatal there gets through.
    """

    def __init__(self, cwd: str, home: str, real: Callable[[str], str]) -> None:
        self.possible = [cwd]
        self.is_lost = False
        self._start = cwd
        self._home = home
        self._real = real
        self._before: list[str] = []

    @property
    def is_moved(self) -> bool:
        return self.possible != [self._start]

    def enter(self, joint: Joint) -> None:
        """Go on to the next part. Only behind `&&` is it sure that the `cd` before went well."""
        if joint not in ("&&", "|"):
            self.possible = _distinct([*self.possible, *self._before])

    def follow(self, part: Part, *, is_piped: bool) -> Sequence[str]:
        """Go where this `cd` leads; the new folders, none if nobody can tell."""
        target, is_physical = _target(part, self._home)
        if not target or is_piped:
            self.lose()
            return ()
        joined = [os.path.join(folder, target) for folder in self.possible]
        moved = _distinct(map(self._real if is_physical else os.path.normpath, joined))
        if part.joint == "||":
            self.possible = _distinct([*self.possible, *moved])
        else:
            self._before = _distinct([*self._before, *self.possible])
            self.possible = moved
        if len(self.possible) + len(self._before) > _MAX_FOLDERS:
            self.lose()
            return ()
        return moved

    def lose(self, guesses: Iterable[str] = ()) -> None:
        """Something went to a folder that nobody can know; it might be one of `guesses`."""
        self.is_lost = True
        self.possible = _distinct([*self.possible, *self._before, "/", self._home, *guesses])


def _target(part: Part, home: str) -> tuple[str, bool]:
    """Where a `cd` goes, "" if unknown, and whether it follows links first."""
    words = part.words[1:]
    is_physical = False
    while words and words[0].text in ("-P", "-L"):
        is_physical = words[0].text == "-P"
        words = words[1:]
    if not words:
        return home, is_physical
    if len(words) > 1 or words[0].has_glob or words[0].text.startswith("-"):
        return "", is_physical
    return words[0].text, is_physical


def _distinct(folders: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(folders))
