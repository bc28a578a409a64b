"""Paths that mean something else in every process, so nothing can be said about them from here."""

import os
import re

_MAGIC = re.compile(r"/proc/(?:self|thread-self|[0-9]+)/|/dev/(?:fd|stdin|stdout|stderr)/")
_MAX_LINKS = 40


def magic(path: str, real: str = "") -> str:
    """Why the absolute `path` leads elsewhere in another process, or "". Follows its links.

    `real` is where it leads; a path that is its own goal has no links to follow.
    """
    if path == real:
        return f"{path} is another place in every process" if _MAGIC.match(path + "/") else ""
    pending = path.split("/")[::-1]
    at, links = "", 0
    while pending and links < _MAX_LINKS:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = at.rpartition("/")[0]
            continue
        at = f"{at}/{name}"
        if _MAGIC.match(at + "/"):
            return f"{at} is another place in every process"
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue
        links += 1
        at = "" if target.startswith("/") else at.rpartition("/")[0]
        pending.extend(reversed(target.split("/")))
    return ""
