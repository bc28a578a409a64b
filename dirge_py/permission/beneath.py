"""What lies below a folder that a search would come upon, though reading it is not allowed."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from dirge_py.lib.paths import is_below_any
from dirge_py.permission.facts import PathFact, Place
from dirge_py.permission.listings import listing_of
from dirge_py.permission.places import Places, is_public
from dirge_py.permission.protected import secrecy
from dirge_py.permission.rules import PolicySet, Rule, anchored, forbids
from dirge_py.permission.searches import Filter, Search, filter_of, suspects_of

MAX_ENTRIES = 20_000
"""How many paths are compared with rules."""
MAX_NAMES = 400_000
"""How many names are looked at in search of secrets: about half a second the first time."""
MAX_SECONDS = 1.0
"""How long a walk may take, whatever the ignore files of a repository say."""
MAX_FOUND = 16

NARROWER = "name the files or a smaller folder, or use the `grep` tool, which leaves secrets out"

_MOST_NAMED = 3

Beneath = Callable[[Search, str, str], Sequence[Place] | None]
"""What a search that runs in a physical folder would come upon below another, though it must not
be read unasked; None: there are too many files to tell.
"""


def kept_beneath(
    search: Search, cwd: str, start: str, *, places: Places, policy: PolicySet, roots: Sequence[str]
) -> Sequence[Place] | None:
    """The places below the physical folder `start` that this search reads and may not read unasked:
    dirge's own state, what rules keep from being read, and secrets. None: too many to tell.

    Raises:
        Refused: it cannot be told what the search reads.
    """
    reach = _Reach(filter_of(search, cwd, start), start)
    state = [one for one in places.state if is_below_any(one, [start]) and os.path.lexists(one)]
    found = [places.find(one) for one in state if reach.includes(one)]
    by_rules = _kept_by_rules(reach, policy)
    if by_rules is None:
        return found or None
    found += map(places.find, by_rules)
    is_denied = any(place.forbidden for place in found)
    if is_denied or policy.mode == "yolo":
        return found
    secrets = _secrets(reach, places.state, tuple(roots))
    if secrets is None:
        return found or None
    return [*found, *(_as_secret(places.find(path), path) for path in secrets)]


def _as_secret(place: Place, path: str) -> Place:
    # A folder of secrets, or a link to a secret, has no reason of its own.
    return place if place.secret else replace(place, secret=f"{path} may hold secrets")


def worded(found: Sequence[Place], search: Search, cwd: str) -> Sequence[Place]:
    """The places with reasons that name them all, and what to do instead; `cwd` is physical."""
    kept = [place for place in found if place.forbidden] or [
        place for place in found if place.secret
    ]
    if not kept:
        return found
    paths = [os.path.relpath(place.real, cwd) for place in kept]
    named = ", ".join(paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    option = ""
    if len(paths) <= _MOST_NAMED:
        option = search.leaving_out([(one, os.path.isdir(os.path.join(cwd, one))) for one in paths])
    instead = "use the `grep` tool, which leaves such files out" + (
        f", or add {option}" if option else ", or search a smaller folder"
    )
    what = "which is dirge's own state or keys" if kept[0].forbidden else "which may hold secrets"
    reason = f"it would also read {named}, {what}: {instead}"
    return [
        replace(place, forbidden=reason)
        if place.forbidden
        else replace(place, secret=reason)
        if place.secret
        else place
        for place in found
    ]


class _Reach:
    """Which paths below the start of a search it comes to."""

    def __init__(self, leaving: Filter, start: str) -> None:
        self.filter = leaving
        self.start = start.rstrip("/")

    def includes(self, path: str) -> bool:
        """Whether the search reads this file, or files in this folder."""
        if not path.startswith(self.start + "/"):
            return path == self.start
        at = self.start
        *folders, last = path[len(self.start) + 1 :].split("/")
        for name in folders:
            at = f"{at}/{name}"
            if self.filter.leaves_out(at, is_folder=True):
                return False
        return not self.filter.leaves_out(f"{at}/{last}", is_folder=os.path.isdir(path))


def _secrets(reach: _Reach, passed_over: Sequence[str], roots: tuple[str, ...]) -> list[str] | None:
    suspects = suspects_of(reach.filter)
    if suspects is not None:
        inner = (one for one in suspects if one.startswith(reach.start + "/"))
        found = (one for one in inner if _is_secret(one, roots) and reach.includes(one))
        return [one for one, _ in zip(found, range(MAX_FOUND), strict=False)]
    found_by_walk: list[str] = []
    leaves_out = reach.filter.leaves_out
    left = MAX_NAMES
    deadline = time.monotonic() + MAX_SECONDS
    pending = [reach.start or "/"]
    while pending and len(found_by_walk) < MAX_FOUND:
        folder = pending.pop()
        listing = listing_of(folder)
        left -= listing.entries
        if left < 0 or time.monotonic() > deadline:
            return found_by_walk or None
        base = folder.rstrip("/")
        for name in listing.suspects:
            path = f"{base}/{name}"
            if _is_secret(path, roots) and not leaves_out(path, is_folder=False):
                found_by_walk.append(path)
        for name in listing.folders:
            path = f"{base}/{name}"
            if path in passed_over or leaves_out(path, is_folder=True):
                continue
            if name in listing.suspect_folders and _is_secret_folder(path, roots):
                found_by_walk.append(path)
            else:
                pending.append(path)
    return found_by_walk[:MAX_FOUND]


def _is_secret(path: str, roots: tuple[str, ...]) -> bool:
    return bool(secrecy(path, roots)) and not is_public(path)


def _is_secret_folder(path: str, roots: tuple[str, ...]) -> bool:
    """Whether everything in this folder is secret, whatever its name."""
    return bool(secrecy(f"{path}/x", roots))


def _kept_by_rules(reach: _Reach, policy: PolicySet) -> list[str] | None:
    """Paths in reach that a rule keeps from being read; None: too many to tell."""
    rules = [
        rule
        for rule in policy.rules + policy.project_rules
        if rule.effect != "allow" and rule.op in ("read", "*")
    ]
    if not rules:
        return []
    patterns = (one for rule in rules for one in anchored(rule.pattern, policy.anchors))
    starts = _starts_of(patterns, policy.anchors.copies)
    return _files_beneath(
        reach.start or "/",
        starts,
        lambda path: _is_kept(path, rules, policy) and reach.includes(path),
    )


def _is_kept(path: str, rules: Iterable[Rule], policy: PolicySet) -> bool:
    fact = PathFact("read", Place(asked=path, real=path, inside=True))
    return any(forbids(rule, fact, policy.anchors) for rule in rules)


def _files_beneath(
    folder: str, starts: Sequence[str], is_wanted: Callable[[str], bool]
) -> list[str] | None:
    """Files below the physical `folder` that are wanted, looked for below `starts`; links are not
    followed. None: there are too many to look at.
    """
    found: list[str] = []
    budget = MAX_ENTRIES
    for start in starts:
        begin = _deeper(folder, start)
        for path in _walk(begin) if begin else ():
            budget -= 1
            if budget < 0:
                return None
            if is_wanted(path):
                found.append(path)
                if len(found) >= MAX_FOUND:
                    return found
    return found


def _fixed_part(pattern: str) -> str:
    """The folder or file that an absolute pattern begins with, before its first wildcard."""
    names = takewhile(lambda name: not re.search(r"[*?\\]", name), pattern.split("/"))
    return "/".join(names) or "/"


def _starts_of(patterns: Iterable[str], copies: Sequence[tuple[str, str]]) -> list[str]:
    """Where to begin a search for what the absolute patterns match, also in copies of folders.

    `copies` are pairs of the copy and the original.
    """
    fixed = list(dict.fromkeys(map(_fixed_part, patterns)))
    in_copies = [
        copy + deeper[len(original) :]
        for part in fixed
        for copy, original in copies
        if (deeper := _deeper(original, part))
    ]
    return list(dict.fromkeys((*fixed, *in_copies)))


def _deeper(one: str, other: str) -> str:
    """The deeper of two places if one lies in the other, else ""."""
    for outer, inner in ((one, other), (other, one)):
        if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
            return inner
    return ""


def _walk(begin: str) -> Iterator[str]:
    if not os.path.isdir(begin) or os.path.islink(begin):
        if os.path.lexists(begin):
            yield begin
        return
    pending = [begin]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    yield entry.path
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
