"""The files an unquoted pattern could stand for, guessed high and within limits."""

import os
import re
from collections.abc import Sequence

MAX_ENTRIES = 20_000
MAX_FOUND = 400

_MAGIC = re.compile(r"[*?\[]")


def expand(folder: str, pattern: str) -> Sequence[str] | None:
    """Absolute paths of what `pattern` could become in `folder`; None if they are too many.

    The fixed part before the first pattern is always among them: it is what gets listed.
    """
    components = pattern.split("/")
    fixed = next(index for index, part in enumerate(components) if _MAGIC.search(part))
    start = os.path.join(folder, "/".join(components[:fixed]) or ("/" if fixed else ""))
    found, budget = [start], MAX_ENTRIES
    level = [start]
    for component in components[fixed:]:
        matches: list[str] = []
        for place in level:
            names = _names(place, budget)
            if names is None:
                return None
            budget -= len(names)
            matches.extend(os.path.join(place, name) for name in _matching(component, names))
            if len(matches) > MAX_FOUND:
                return None
        found.extend(matches)
        level = matches
    return found


def _names(folder: str, budget: int) -> list[str] | None:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > budget:
                    return None
    except OSError:
        return []
    return names


def _matching(component: str, names: Sequence[str]) -> list[str]:
    if component in ("", ".", "..") or not _MAGIC.search(component):
        return [component]
    # What stands in brackets is not looked at: any text there counts as a match.
    pieces = re.split(r"([*?])", component.partition("[")[0])
    regex = "".join(
        {"*": ".*", "?": "."}.get(piece) or re.escape(piece) for piece in pieces if piece
    )
    wanted = re.compile(regex + (".*" if "[" in component else ""), re.DOTALL)
    shows_hidden = component.startswith(".")
    return [n for n in names if wanted.fullmatch(n) and (shows_hidden or not n.startswith("."))]
