"""The files an unquoted pattern could stand for, guessed high and within limits."""

import os
import re
from collections.abc import Sequence

from dirge_py.permission.patterns import starred

MAX_ENTRIES = 20_000
MAX_FOUND = 400

_MAGIC = re.compile(r"[*?\[]")


class Expansions:
    """What patterns could become. The limits hold for all patterns of one decision together."""

    def __init__(self) -> None:
        self._entries_left = MAX_ENTRIES
        self._found_left = 2 * MAX_FOUND
        self._names: dict[str, list[str] | None] = {}

    def expand(self, folder: str, pattern: str) -> Sequence[str] | None:
        """Absolute paths of what `pattern` could become in `folder`; None if they are too many.

        The fixed part before the first pattern is always among them: it is what gets listed.
        """
        components = pattern.split("/")
        fixed = next(index for index, part in enumerate(components) if _MAGIC.search(part))
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
        if component in ("", ".", "..") or not _MAGIC.search(component):
            self._entries_left -= 1
            return [component] if self._entries_left >= 0 else None
        if folder not in self._names:
            self._names[folder] = _names(folder, self._entries_left)
        names = self._names[folder]
        if names is None or len(names) >= self._entries_left:
            return None
        self._entries_left -= 1 + len(names)
        wanted = _regex(component)
        shows_hidden = component.startswith(".")
        return [n for n in names if wanted.fullmatch(n) and (shows_hidden or n[0] != ".")]


def names_in(folders: Sequence[str], pattern: str) -> Sequence[str] | None:
    """What `pattern` becomes in any of the folders, as a program is given it; None: too many."""
    expansions = Expansions()
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


def _names(folder: str, most: int) -> list[str] | None:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > most:
                    return None
    except OSError:
        return []
    return names


def _regex(component: str) -> re.Pattern[str]:
    # What stands in brackets is not looked at: any text there counts as a match.
    before, bracket, _ = component.partition("[")
    pieces = [re.escape(piece).replace(r"\?", ".") for piece in before.split("*")]
    return re.compile(starred([*pieces, ""] if bracket else pieces, "."), re.DOTALL)
