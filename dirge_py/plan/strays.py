"""Sees which files a reviewer makes by hand in its copy of the project.

What a build or a test run makes there is what it is for. But a file that the reviewer wrote itself
is not in the project: a check that passes because of it shows nothing.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

_CACHES = frozenset(
    (
        ".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis",
        ".tox", ".cache", ".gradle", "node_modules",
    )
)  # fmt: skip
_INTERPRETERS = r"(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua|bash|sh|dash|zsh)"
_WRITERS = (
    r"(?:tee|cp|mv|ln|touch|mkdir|install|dd|patch|sed|awk|tar|unzip|rsync|truncate|ed|curl|wget"
    r"|git\s+(?:apply|am|checkout|restore|reset|stash|clone|merge|pull|cherry-pick))"
)
_BY_HAND = re.compile(
    rf"""
    (?<![<>]) >>? (?![>&]|\|?\s*/dev/(?:null|stdout|stderr)\b)
  | <<
  | \b{_INTERPRETERS}\b [^;&|\n]* \s -\w*[ceEr]\b
  | (?:\A|[;&|(\n`]|\b(?:do|then|else|exec|xargs|sudo|env)\b) \s* (?:\w+=\S*\s+)* {_WRITERS} \b
  | (?:/tmp|/var/tmp|/dev/shm)/ | \$\{{?TMPDIR
    """,
    re.VERBOSE,
)

_SHARED = frozenset(Path(os.path.realpath(p)) for p in (tempfile.gettempdir(), "/tmp", "/var/tmp"))
"""Where copies lie, among the files of others."""


class Strays:
    """Those in the copy around `folder`."""

    def __init__(self, folder: Path) -> None:
        around = takewhile(lambda one: one not in _SHARED, (folder, *folder.parents))
        self._top = str(next((one for one in around if os.path.lexists(one / ".git")), folder))
        self._before: dict[str, frozenset[str]] = {}
        self._made: set[str] = set()

    async def begin(self, call_id: str, command: str) -> None:
        """Call it before each command runs."""
        # The copy itself lies among temporary files, too.
        if _BY_HAND.search(command.replace(self._top, ".")):
            self._before[call_id] = await asyncio.to_thread(_listed, self._top)

    async def end(self, call_id: str) -> None:
        """Call it when the command is over."""
        before = self._before.pop(call_id, None)
        if before is not None:
            self._made |= await asyncio.to_thread(_listed, self._top) - before

    @property
    def are_there(self) -> bool:
        """Whether one of them is still there."""
        return any(os.path.lexists(path) for path in self._made)


def _listed(top: str) -> frozenset[str]:
    return frozenset(_entries(top))


def _entries(top: str) -> Iterator[str]:
    """Everything below `top` but what tools keep for themselves. No link is followed."""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name in _CACHES or entry.name.endswith(".pyc"):
                        continue
                    yield entry.path
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # What cannot be looked into cannot be told apart either.
