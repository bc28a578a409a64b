"""Lists the files below a folder: for a search, and for a project.

Both follow no links and skip files that `.gitignore` files ignore.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dirge_py.files.resolve import FOLDER, Kind, kind_of, open_beneath, open_regular, reason_of
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


IGNORE_FILE_LIMIT = 1 << 20
"""The most bytes of an ignore file that are read."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one ignore file."""

    base: str
    """The folder that their patterns are relative to, a physical path."""
    spec: "GitIgnoreSpec"
    """The patterns, as pathspec parsed them."""


def parse_ignore_file(base: str, content: bytes) -> IgnoreRules:
    """Parse the ignore file of the folder `base`; invalid lines are skipped."""
    lines = [line.rstrip("\r") for line in content.decode(errors="replace").split("\n")]
    try:
        return IgnoreRules(base, _spec_of(lines))
    except (ValueError, re.error):
        valid: list[str] = []
        for line in lines:
            with suppress(ValueError, re.error):
                _spec_of([line])
                valid.append(line)
        return IgnoreRules(base, _spec_of(valid))


def ignored_by(rules: Sequence[IgnoreRules], real: str, *, is_folder: bool) -> bool:
    """Whether the last rule that matches this physical path ignores it."""
    for each in reversed(rules):
        path = real[len(each.base.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        is_ignored = each.spec.check_file(path).include
        if is_ignored is not None:
            return is_ignored
    return False


def _rules_within(
    real: str, names: Set[str], inherited: Sequence[IgnoreRules], read: Callable[[str], bytes]
) -> Sequence[IgnoreRules]:
    """Return the rules in a folder with these entries; a nested repository inherits none."""
    rules = [] if ".git" in names else list(inherited)
    for name in (".git/info/exclude", ".gitignore"):
        if name.partition("/")[0] in names:
            with suppress(OSError, FileError):
                rules.append(parse_ignore_file(real, read(name)))
    return rules


def _spec_of(lines: Iterable[str]) -> "GitIgnoreSpec":
    # pathspec takes 35 ms to import, and most folders have no ignore file.
    spec: type[GitIgnoreSpec] = import_module("pathspec").GitIgnoreSpec
    return spec.from_lines(lines)


ALWAYS_SKIPPED = frozenset({".git", "node_modules"})


class WorkspaceRoots(Protocol):
    """The folders of a workspace to walk over, and the files to skip. A `Workspace` is one."""

    withheld: Callable[[str], bool]
    """Returns whether the rules hide the file at this physical path from models."""

    def anchor(self, real: str) -> tuple[int, str]:
        """Return the open folder to start from for the physical `real`, and the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryEntry:
    """One entry of a folder."""

    name: str
    kind: Kind
    size: int
    """Its size in bytes."""
    link: str | None = None
    """The target of a link; None if it is not a link."""


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
    """The options of a walk, and afterwards how many files it skipped."""

    root: str
    """The folder to walk over, a physical path."""
    wanted: Callable[[str], bool] = lambda path: True
    """Whether a file with this relative path is wanted; called before the file is examined."""
    include_hidden: bool = False
    """Whether to include names that begin with a dot."""
    is_aborted: Callable[[], bool] = lambda: False
    """Returns whether to stop; called before each folder."""
    withheld: int = field(default=0, init=False)
    """The number of wanted files that the rules hide from models."""


def list_directory(roots: WorkspaceRoots, real: str, shown: str) -> list[DirectoryEntry]:
    """Return everything in a folder, sorted by name. Raises FileError if it can't be listed."""
    try:
        with _opened(roots, real) as folder:
            return [_entry(folder, name) for name in sorted(os.listdir(folder))]
    except OSError as error:
        raise FileError(f"{shown} cannot be listed: {reason_of(error)}.") from error


def _opened(roots: WorkspaceRoots, real: str) -> AbstractContextManager[int]:
    """Open the folder at the physical path `real` for a block. Raises OSError."""
    return closing_descriptor(open_beneath(*roots.anchor(real), FOLDER))


def walk(roots: WorkspaceRoots, search: FileSearch) -> Iterator[FoundFile]:
    """Yield the wanted files below `search.root`, except in unreadable folders. Blocks."""
    # An explicit stack, because folders may be nested deeper than Python's recursion limit.
    waiting = [("", _rules_above(roots, search.root))]
    while waiting and not search.is_aborted():
        folder, inherited = waiting.pop()
        real = _join(search.root, folder)
        files: list[FoundFile] = []
        folders: list[tuple[str, Sequence[IgnoreRules]]] = []
        try:
            with _opened(roots, real) as descriptor, os.scandir(descriptor) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
                names = {entry.name for entry in entries}
                rules = _rules_within(real, names, inherited, partial(_read_below, descriptor))
                for entry in entries:
                    path = _join(folder, entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not _is_wanted(entry, path, search) or ignored_by(
                        rules, _join(real, entry.name), is_folder=is_folder
                    ):
                        continue
                    if is_folder:
                        folders.append((path, rules))
                    elif roots.withheld(_join(real, entry.name)):
                        search.withheld += 1
                    else:
                        with suppress(OSError):  # It may have been removed since the listing.
                            status = entry.stat(follow_symlinks=False)
                            files.append(FoundFile(path, status.st_size, status.st_mtime_ns))
        except OSError:
            continue
        yield from files
        waiting += reversed(folders)


def _is_wanted(entry: "os.DirEntry[str]", path: str, search: FileSearch) -> bool:
    """Whether the entry is a folder to visit, or a file to find, unless it is ignored."""
    is_hidden = entry.name.startswith(".") and not search.include_hidden
    if is_hidden or entry.name in ALWAYS_SKIPPED:
        return False
    is_file = entry.is_file(follow_symlinks=False)
    return entry.is_dir(follow_symlinks=False) or (is_file and search.wanted(path))


def _rules_above(roots: WorkspaceRoots, root: str) -> Sequence[IgnoreRules]:
    """Return the rules of the repository around `root`, or none if that is ignored itself."""
    folders = [root]
    while not os.path.exists(_join(folders[-1], ".git")):
        if folders[-1] == "/":
            return []
        folders.append(os.path.dirname(folders[-1]))
    rules: Sequence[IgnoreRules] = []
    for folder in reversed(folders[1:]):
        with suppress(OSError), _opened(roots, folder) as descriptor:
            names = set(os.listdir(descriptor))
            rules = _rules_within(folder, names, rules, partial(_read_below, descriptor))
    return [] if ignored_by(rules, root, is_folder=True) else rules


def _read_below(folder: int, name: str) -> bytes:
    descriptor, _ = open_regular(folder, name, name)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(IGNORE_FILE_LIMIT)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder and name else folder or name


def _entry(folder: int, name: str) -> DirectoryEntry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        link = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else None
    except OSError:
        return DirectoryEntry(name=name, kind="missing", size=0)
    return DirectoryEntry(name=name, kind=kind_of(status.st_mode), size=status.st_size, link=link)


_NEVER_OURS = frozenset(("node_modules", "bower_components", "jspm_packages", "__pypackages__"))
_OFTEN_OTHERS = {".venv", "venv", "vendor", ".bundle", "Pods", "Carthage", ".pixi", ".yarn"}
_DEPENDENCIES = _NEVER_OURS | _OFTEN_OTHERS | {"deps", "_opam"}
_OTHERS = _NEVER_OURS | _OFTEN_OTHERS | {"site-packages", "dist-packages", ".tox", ".nox"}
"""Folders of these names contain third-party code, ignored or not."""


_ARTIFACT_FOLDERS = {
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
    ".nyc_output", ".gradle", ".cache", "htmlcov",
}  # fmt: skip
_ARTIFACT_ENDINGS = (".pyc", ".pyo", ".o", ".obj", ".class", ".gcda", ".gcno")
_ARTIFACT_NAMES = (".coverage", "coverage.xml")


@dataclass(slots=True)
class FileListing:
    """The contents of a project's folder; all paths are relative to it."""

    paths: list[str] = field(default_factory=list)
    """Files and links that are not ignored."""
    dependencies: list[str] = field(default_factory=list)
    """Folders of installed dependencies; their contents are not listed."""
    closed: list[str] = field(default_factory=list)
    """Folders that could not be read."""


def is_dependency_folder(path: str) -> bool:
    """Whether an ignored folder of this name contains installed packages."""
    return os.path.basename(path.rstrip("/")) in _DEPENDENCIES or _is_environment(path)


def is_work_of_others(folder: str, *, base: str, top: str) -> bool:
    """Whether `folder` is in dependencies, in an ignored folder, or in another repository.

    Only folders below `base` count, where the user works. All are physical paths: `base` is at or
    below `top`, the top of the work tree, and `folder` below `base`.
    """
    here = top.rstrip("/")
    rules = _rules_within(here, _git_names(here), (), partial(_read_at, here))
    for step in os.path.relpath(folder, top).split("/"):
        here = f"{here}/{step}"
        is_below = here.startswith(f"{base.rstrip('/')}/")
        if is_below and (step in _OTHERS or _is_environment(here)):
            return True
        names = _git_names(here)
        is_ignored = ignored_by(rules, here, is_folder=True)
        if is_below and (is_ignored or ".git" in names):
            return True
        inherited = () if is_ignored else rules
        rules = _rules_within(here, names, inherited, partial(_read_at, here))
    return False


def _git_names(folder: str) -> Set[str]:
    names = (".git", ".gitignore")
    return {name for name in names if os.path.lexists(os.path.join(folder, name))}


def list_unignored(
    root: str, *, below: str = "", most: int, is_stopped: Callable[[], bool] = lambda: False
) -> FileListing:
    """List what is below `root`/`below`, paths relative to `root`, without following links. Blocks.

    Replaces `git ls-files` where git can't be used. Links and hidden files count, too; folders of
    installed dependencies are listed separately, without their contents. Stops at `most` paths, or
    when `is_stopped` returns True.
    """
    listing = FileListing()
    waiting: list[tuple[str, Sequence[IgnoreRules]]] = [(below.rstrip("/"), ())]
    while waiting and len(listing.paths) < most and not is_stopped():
        folder, inherited = waiting.pop()
        real = os.path.join(root, folder).rstrip("/")
        inner: list[tuple[str, Sequence[IgnoreRules]]] = []
        try:
            with os.scandir(real) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            listing.closed.append(folder)
            continue
        names = {entry.name for entry in entries}
        rules = _rules_within(real, names, inherited, partial(_read_at, real))
        for entry in entries:
            if entry.name == ".git":
                continue
            path = _join(folder, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            is_ignored = ignored_by(rules, entry.path, is_folder=is_folder)
            never_ours = _DEPENDENCIES if is_ignored else _NEVER_OURS
            if is_folder and (entry.name in never_ours or _is_environment(entry.path)):
                listing.dependencies.append(path)
            elif is_folder and not is_ignored:
                inner.append((path, rules))
            elif not is_ignored:
                listing.paths.append(path)
        waiting += reversed(inner)
    return listing


def _is_environment(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "pyvenv.cfg"))


def _read_at(real: str, name: str) -> bytes:
    return read_regular(Path(real, name), IGNORE_FILE_LIMIT, follow=False)


def is_build_artifact(path: str) -> bool:
    """Whether builds and tests create files with the name of this relative path."""
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(_ARTIFACT_ENDINGS)
        or name.startswith(_ARTIFACT_NAMES)
        or not _ARTIFACT_FOLDERS.isdisjoint(folders.split("/"))
    )
