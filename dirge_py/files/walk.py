"""The files below a folder, as a search sees them: no links followed, ignored ones left out."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from dirge_py.files.ignore_rules import (
    IGNORE_FILE_LIMIT,
    IgnoreRules,
    ignored_by,
    parse_ignore_file,
)
from dirge_py.files.resolve import FOLDER, Kind, kind_of, open_beneath, open_regular, reason_of
from dirge_py.types.errors import FileError

ALWAYS_SKIPPED = frozenset({".git", "node_modules"})


class WorkspaceRoots(Protocol):
    """Where a walk starts from, and what it must pass over. A `Workspace` is one."""

    withheld: Callable[[str], bool]
    """Whether the rules keep the file at this physical path from a model."""

    def anchor(self, real: str) -> tuple[int, str]:
        """The open folder to start from for the physical path `real`, and the way from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryEntry:
    """One name in a folder."""

    name: str
    kind: Kind
    size: int
    """Its size in bytes."""
    link: str | None = None
    """What it points at; None if it is no link."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file below the folder of a search."""

    path: str
    """Its path, relative to that folder."""
    size: int
    """Its size in bytes."""
    mtime_ns: int
    """When its content was last changed, in nanoseconds since 1970."""


@dataclass(slots=True, kw_only=True)
class FileSearch:
    """What to walk over, and afterwards what was passed over."""

    root: str
    """The folder to walk over, a physical path."""
    wanted: Callable[[str], bool] = lambda path: True
    """Whether a file with this relative path is wanted; asked before the file is looked at."""
    include_hidden: bool = False
    """Walk over names that begin with a dot, too."""
    is_aborted: Callable[[], bool] = lambda: False
    """Whether to stop; asked before each folder."""
    withheld: int = field(default=0, init=False)
    """How many wanted files the rules keep from a model."""


def list_directory(roots: WorkspaceRoots, real: str, shown: str) -> list[DirectoryEntry]:
    """Everything in a folder, sorted by name.

    Raises:
        FileError: it is no folder, or may not be listed.
    """
    anchor, relative = roots.anchor(real)
    try:
        folder = open_beneath(anchor, relative, FOLDER)
    except OSError as error:
        raise FileError(f"{shown} cannot be listed: {reason_of(error)}.") from error
    try:
        return sorted((_entry(folder, name) for name in os.listdir(folder)), key=lambda e: e.name)
    finally:
        os.close(folder)


def walk(roots: WorkspaceRoots, search: FileSearch) -> Iterator[FoundFile]:
    """The wanted files below `search.root`, folder by folder, sorted within each.

    Folders that cannot be listed are passed over. Blocks: run it in a thread.
    """
    # An explicit stack: folders may be nested deeper than Python calls.
    waiting = [_Folder("", _rules_above(roots, search.root))]
    while waiting and not search.is_aborted():
        folder = waiting.pop()
        anchor, relative = roots.anchor(_join(search.root, folder.path))
        try:
            descriptor = open_beneath(anchor, relative, FOLDER)
        except OSError:
            continue
        try:
            found, inner = _look_into(roots, search, folder, descriptor)
        finally:
            os.close(descriptor)
        yield from found
        waiting += reversed(inner)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to look into, `path` from the search's root, and the rules that hold there."""

    path: str
    rules: Sequence[IgnoreRules]


def _look_into(
    roots: WorkspaceRoots, search: FileSearch, folder: _Folder, descriptor: int
) -> tuple[list[FoundFile], list[_Folder]]:
    real = _join(search.root, folder.path)
    found, inner = [], []
    with os.scandir(descriptor) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
        rules = _rules_within(real, {entry.name for entry in entries}, descriptor, folder.rules)
        for entry in entries:
            if _is_skipped(entry.name, search):
                continue
            path = _join(folder.path, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not (entry.is_file(follow_symlinks=False) and search.wanted(path)):
                continue
            if ignored_by(rules, _join(real, entry.name), is_folder=is_folder):
                continue
            if is_folder:
                inner.append(_Folder(path, rules))
            elif roots.withheld(_join(real, entry.name)):
                search.withheld += 1
            else:
                found += _with_status(path, entry)
    return found, inner


def _with_status(path: str, entry: os.DirEntry[str]) -> list[FoundFile]:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # gone since the folder was listed
        return []
    return [FoundFile(path, status.st_size, status.st_mtime_ns)]


def _is_skipped(name: str, search: FileSearch) -> bool:
    return name in ALWAYS_SKIPPED or (name.startswith(".") and not search.include_hidden)


def _rules_within(
    real: str, names: Set[str], descriptor: int, inherited: Sequence[IgnoreRules]
) -> Sequence[IgnoreRules]:
    """The rules that hold in a folder; a repository inside another starts afresh."""
    rules = [] if ".git" in names else list(inherited)
    if ".git" in names:
        rules += _rules_from(descriptor, ".git/info/exclude", real)
    if ".gitignore" in names:
        rules += _rules_from(descriptor, ".gitignore", real)
    return rules


def _rules_above(roots: WorkspaceRoots, root: str) -> Sequence[IgnoreRules]:
    """The rules of the repository around `root`, from its top down; none if it is not in one.

    Whoever searches an ignored folder means it, so there the rules from above do not count.
    """
    folders = [root]
    while not os.path.exists(_join(folders[-1], ".git")):
        if folders[-1] == "/":
            return []
        folders.append(os.path.dirname(folders[-1]))
    rules: Sequence[IgnoreRules] = []
    for folder in reversed(folders[1:]):
        anchor, relative = roots.anchor(folder)
        try:
            descriptor = open_beneath(anchor, relative, FOLDER)
        except OSError:
            continue
        try:
            rules = _rules_within(folder, set(os.listdir(descriptor)), descriptor, rules)
        finally:
            os.close(descriptor)
    return [] if ignored_by(rules, root, is_folder=True) else rules


def _rules_from(folder: int, relative: str, base: str) -> list[IgnoreRules]:
    try:
        descriptor, _ = open_regular(folder, relative, relative)
    except FileError:
        return []
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(IGNORE_FILE_LIMIT)
    return [parse_ignore_file(base, content)]


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder and name else folder or name


def _entry(folder: int, name: str) -> DirectoryEntry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        link = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else None
    except OSError:
        return DirectoryEntry(name=name, kind="missing", size=0)
    return DirectoryEntry(name=name, kind=kind_of(status.st_mode), size=status.st_size, link=link)
