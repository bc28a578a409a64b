"""Session ids, their shortest distinct names, and the names of project folders."""

import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from dirge_py.git.repository import work_tree_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.types.errors import SessionError

_SESSION_ID = late_pattern(r"[A-Za-z0-9._-]{1,128}")
# `<id>` is also the name of a folder, which must not collide with these files.
_RESERVED_ENDINGS = (".jsonl", ".lock", ".damaged")
# Crockford's base 32: sorts like the numbers, no letters that look alike.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_SECONDS_PER_DAY = 24 * 60 * 60


def new_session_id(now: float) -> str:
    """An id like `20261120-b3k7qx` (UTC) that sorts by time, to 0.08 s; the last two are random."""
    moment = datetime.fromtimestamp(now, UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    part = (moment - midnight).total_seconds() / _SECONDS_PER_DAY
    tick = int(part * len(_DIGITS) ** 4)
    digits = [_DIGITS[tick >> shift & 31] for shift in (15, 10, 5, 0)]
    digits += [secrets.choice(_DIGITS) for _ in range(2)]
    return f"{moment:%Y%m%d}-{''.join(digits)}"


def check_session_id(session_id: str) -> str:
    """Return the id. Raises SessionError: its characters, length or ending aren't allowed."""
    if not _SESSION_ID.fullmatch(session_id) or session_id in (".", ".."):
        raise SessionError(
            f"{session_id!r} is not a valid session id.",
            hint="Use 1 to 128 letters, digits, dots, underscores or hyphens.",
        )
    if session_id.endswith(_RESERVED_ENDINGS):
        raise SessionError(
            f"{session_id!r} is not a valid session id: its ending is reserved.",
            hint=f"Choose one that does not end in {', '.join(_RESERVED_ENDINGS)}.",
        )
    return session_id


def project_root(path: Path) -> Path:
    """The real path of the git work tree around `path`, or of `path` where there is none."""
    return Path(work_tree_of(os.path.realpath(path)))


def project_id(path: Path) -> str:
    """The folder name of the project (git work tree) around `path`: a slug and 8 hex digits."""
    root = project_root(path)
    slug = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:40] or "root"
    return f"{slug}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"


def ids_fitting(ids: Sequence[str], name: str) -> list[str]:
    """The ids that match `name`: exactly, else by prefix, else by the part after the date."""
    if name in ids:
        return [name]
    return [known for known in ids if known.startswith(name)] or [
        known for known in ids if _tail(known).startswith(name)
    ]


_MIN_SHORT_NAME = 4


def short_names(ids: Iterable[str]) -> Mapping[str, str]:
    """The shortest unique name of each id of a project, of at least four characters.

    A prefix of the part after the date, else a prefix of the id, else the id itself.
    """
    known = set(ids)
    wholes = Counter(prefix for session_id in known for prefix in prefixes(session_id))
    tails = Counter(prefix for session_id in known for prefix in prefixes(_tail(session_id)))
    names = {}
    for session_id in known:
        # `ids_fitting` matches prefixes of whole ids first.
        short = (p for p in prefixes(_tail(session_id)) if tails[p] == 1 and not wholes[p])
        long = (p for p in prefixes(session_id, 2 * _MIN_SHORT_NAME) if wholes[p] == 1)
        names[session_id] = next(chain(short, long), session_id)
    return names


def _tail(session_id: str) -> str:
    return session_id.partition("-")[2]


def prefixes(name: str, shortest: int = _MIN_SHORT_NAME) -> Iterable[str]:
    """The prefixes of `name` from a length on, the shortest first, `name` included."""
    return (name[:length] for length in range(shortest, len(name) + 1))
