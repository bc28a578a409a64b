"""Commands that read whole folders, and the files in there that a rule keeps from being read."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from dirge_py.permission.facts import Place
from dirge_py.permission.words import listed

MAX_ENTRIES = 20_000
MAX_FOUND = 16

_ALWAYS = listed("rg ag ack ripgrep tar zip rsync 7z")
_WITH_FLAG = listed("grep egrep fgrep zgrep bzgrep xzgrep cp scp diff")
_SEARCHES = listed("rg ag ack ripgrep grep egrep fgrep zgrep bzgrep xzgrep")
_RECURSIVE = re.compile(
    r"-[A-Za-z]*[rRa][A-Za-z]*|--recursive|--dereference-recursive|--archive|-d|--directories=.*"
)


def searched(words: Sequence[str]) -> Sequence[str] | None:
    """The words that may name folders all of whose files this command reads; None: it reads none.

    Empty: it names none, and takes the folder it runs in.
    """
    name = words[0].rsplit("/", 1)[-1]
    if name == "git":
        return () if "grep" in words[1:3] else None
    if name not in _ALWAYS and not (
        name in _WITH_FLAG and any(_RECURSIVE.fullmatch(word) for word in words[1:])
    ):
        return None
    named = [word for word in words[1:] if word and not word.startswith("-")]
    # A search takes its pattern first; that it could be a folder's name, too, does no harm.
    return named if len(named) > 1 or name not in _SEARCHES else ()


def files_beneath(
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


def fixed_part(pattern: str) -> str:
    """The folder or file that an absolute pattern begins with, before its first wildcard."""
    names = takewhile(lambda name: not re.search(r"[*?\\]", name), pattern.split("/"))
    return "/".join(names) or "/"


def starts_of(patterns: Iterable[str], copies: Sequence[tuple[str, str]]) -> list[str]:
    """Where to begin a search for what the absolute patterns match, also in copies of folders.

    `copies` are pairs of the copy and the original.
    """
    fixed = list(dict.fromkeys(map(fixed_part, patterns)))
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


Beneath = Callable[[str], Sequence[Place] | None]
"""The places below a physical folder that a rule keeps from being read; None: too many to tell."""
