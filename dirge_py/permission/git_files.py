"""Reads files of a git folder: regular ones of a sane size, and nothing else."""

import os
import stat
import time
from collections.abc import Iterator
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below
from dirge_py.permission.git_settings import Unreadable

MAX_ALTERNATES = 16
_MAX_POINTER_BYTES = 64 * 1024

_LISTED = ("", "info", "objects/info", "rebase-merge", "rebase-apply", "sequencer", "branches")
_LISTED_BELOW = ("worktrees", "remotes")
"""Folders whose files git prints lines of: in a message about a bad line, or as they are."""

Stamp: TypeAlias = tuple[int, int, int, int, int]
SETTLED_NS = 2_000_000_000
"""A file that changed this recently may change again without another stamp."""


def read_text(path: str, limit: int = _MAX_POINTER_BYTES) -> str:
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError, Unreadable: it is none, cannot be read, or is larger than `limit` bytes.
    """
    # O_NONBLOCK: a pipe in a file's place must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(f"{path} is no regular file")
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise Unreadable(f"{path} is too large")
    return content


def stamp_of(path: str) -> Stamp:
    """What differs after every change of a file, also of one that sets its time back.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(path)
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def is_settled(stamp: Stamp) -> bool:
    """Whether a further change would surely give the file another stamp."""
    return time.time_ns() - stamp[-1] > SETTLED_NS


def foreign_links(git_dir: str) -> Iterator[str]:
    """The links among git's own files through which it would print lines of another file.

    A link to a file of the same name is how several work trees share a repository.
    """
    folders = [os.path.join(git_dir, name) for name in _LISTED]
    for name in _LISTED_BELOW:
        folder = os.path.join(git_dir, name)
        folders.append(folder)
        entries = _entries(folder)
        folders += filter(os.path.isdir, (*entries.links, *entries.others))
    for folder in folders:
        yield from _links_in(folder, git_dir)
    yield from _links_of_alternates(os.path.join(git_dir, "objects"), git_dir)


def links_of(folder: str) -> tuple[str, ...]:
    """The paths of the links in a folder; none where there is no folder.

    Raises:
        OSError: it cannot be listed.
    """
    return _entries(folder).links


def _links_in(folder: str, git_dir: str) -> Iterator[str]:
    for link in _entries(folder).links:
        real = os.path.realpath(link)
        if not is_below(real, git_dir) and os.path.basename(real) != os.path.basename(link):
            yield link


def _links_of_alternates(objects: str, git_dir: str) -> Iterator[str]:
    """The same in the object folders that git would go on to: it reads their `info`, too."""
    pending, seen = [objects], {objects}
    while pending:
        folder = pending.pop()
        if folder != objects:
            yield from _links_in(f"{folder}/info", git_dir)
        file = f"{folder}/info/alternates"
        for line in read_text(file).splitlines() if os.path.lexists(file) else ():
            further = os.path.realpath(os.path.join(folder, line))
            if line and not line.startswith("#") and further not in seen:
                seen.add(further)
                pending.append(further)
        if len(seen) > MAX_ALTERNATES:
            raise Unreadable(f"{objects} borrows from more than {MAX_ALTERNATES} folders")


@dataclass(frozen=True, slots=True)
class _Entries:
    """The paths in a folder: links, and all else."""

    links: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_FOLDERS: dict[str, tuple[Stamp, _Entries]] = {}
_MAX_FOLDERS = 4096


def _entries(folder: str) -> _Entries:
    """What is in a folder. One that has not changed is not listed again."""
    try:
        stamp = stamp_of(folder)
        known = _FOLDERS.get(folder)
        if known and known[0] == stamp:
            return known[1]
        links: list[str] = []
        others: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                (links if entry.is_symlink() else others).append(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        return _Entries()
    found = _Entries(tuple(links), tuple(others))
    if is_settled(stamp):
        if len(_FOLDERS) >= _MAX_FOLDERS:
            _FOLDERS.clear()
        _FOLDERS[folder] = (stamp, found)
    return found
