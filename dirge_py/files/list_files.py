"""Files of a project that are its own: neither ignored, nor dependencies, nor build artifacts.

`list_unignored` stands in for `git ls-files` where no git can be asked. Links and hidden files
count, too. Folders of installed dependencies are listed apart, and not looked into.
"""

import os
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from dirge_py.files.ignore_rules import (
    IGNORE_FILE_LIMIT,
    IgnoreRules,
    ignored_by,
    parse_ignore_file,
)
from dirge_py.files.safe_read import read_regular

_DEPENDENCIES = frozenset(
    (
        "node_modules", "bower_components", "jspm_packages", ".venv", "venv", "vendor", ".bundle",
        "Pods", "Carthage", "deps", "_opam", "__pypackages__", ".pixi", ".yarn",
    )
)  # fmt: skip
_NEVER_OURS = frozenset(("node_modules", "bower_components", "jspm_packages", "__pypackages__"))
_OTHERS = _NEVER_OURS | {
    ".venv", "venv", "vendor", "site-packages", "dist-packages", "Pods", "Carthage", ".tox", ".nox",
    ".bundle", ".yarn", ".pixi",
}  # fmt: skip
"""Folders of these names hold the work of others, ignored or not."""


_ARTIFACT_FOLDERS = frozenset(
    (
        "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
        ".nyc_output", ".gradle", ".cache", "htmlcov",
    )
)  # fmt: skip
_ARTIFACT_ENDINGS = (".pyc", ".pyo", ".o", ".obj", ".class", ".gcda", ".gcno")
_ARTIFACT_NAMES = (".coverage", "coverage.xml")


@dataclass(slots=True)
class FileListing:
    """What stands below a folder; all paths relative to it."""

    paths: list[str] = field(default_factory=list)
    """Files and links that are not ignored."""
    dependencies: list[str] = field(default_factory=list)
    """Folders of installed dependencies; nothing in them is listed."""
    closed: list[str] = field(default_factory=list)
    """Folders that could not be read."""


def is_dependency_folder(path: str) -> bool:
    """Whether an ignored folder of this name holds what was installed and is not made here."""
    return os.path.basename(path.rstrip("/")) in _DEPENDENCIES or _is_environment(path)


def is_work_of_others(folder: str, *, base: str, top: str) -> bool:
    """Whether `folder` lies in dependencies, in what git ignores, or in another repository.

    Only what is below `base` counts: whoever works in such a folder means it. All are physical
    paths, `base` at or below `top`, where the rules of git begin, and `folder` below `base`.
    """
    here = top.rstrip("/")
    rules = _rules_within(here, _git_names(here), ())
    for step in os.path.relpath(folder, top).split("/"):
        here = f"{here}/{step}"
        is_below = here.startswith(f"{base.rstrip('/')}/")
        if is_below and (step in _OTHERS or _is_environment(here)):
            return True
        names = _git_names(here)
        is_ignored = ignored_by(rules, here, is_folder=True)
        if is_below and (is_ignored or ".git" in names):
            return True
        rules = _rules_within(here, names, () if is_ignored else rules)
    return False


def _git_names(folder: str) -> Set[str]:
    """The entries of a folder that say something to git."""
    names = (".git", ".gitignore")
    return {name for name in names if os.path.lexists(os.path.join(folder, name))}


def list_unignored(
    root: str,
    *,
    below: str = "",
    most: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> FileListing:
    """What stands below `root`/`below`; paths count from `root`. No link is followed. Blocks.

    Ends at `most` paths, or once it is stopped.
    """
    listing = FileListing()
    waiting: list[tuple[str, Sequence[IgnoreRules]]] = [(below.rstrip("/"), ())]
    while waiting and len(listing.paths) < most and not is_stopped():
        folder, rules = waiting.pop()
        waiting += reversed(_look_into(root, folder, rules, listing))
    return listing


def _look_into(
    root: str, folder: str, inherited: Sequence[IgnoreRules], listing: FileListing
) -> list[tuple[str, Sequence[IgnoreRules]]]:
    real = os.path.join(root, folder).rstrip("/")
    inner: list[tuple[str, Sequence[IgnoreRules]]] = []
    try:
        with os.scandir(real) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError:
        listing.closed.append(folder)
        return []
    rules = _rules_within(real, {entry.name for entry in entries}, inherited)
    for entry in entries:
        if entry.name == ".git":
            continue
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        is_ignored = ignored_by(rules, f"{real}/{entry.name}", is_folder=is_folder)
        if is_folder and _holds_dependencies(entry, is_ignored=is_ignored):
            listing.dependencies.append(path)
        elif is_folder and not is_ignored:
            inner.append((path, rules))
        elif not is_ignored:
            listing.paths.append(path)
    return inner


def _holds_dependencies(entry: "os.DirEntry[str]", *, is_ignored: bool) -> bool:
    if entry.name in _NEVER_OURS or _is_environment(entry.path):
        return True
    return is_ignored and entry.name in _DEPENDENCIES


def _is_environment(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "pyvenv.cfg"))


def _rules_within(
    real: str, names: Set[str], inherited: Sequence[IgnoreRules]
) -> Sequence[IgnoreRules]:
    """The rules that hold in a folder; a repository inside another starts afresh."""
    rules = [] if ".git" in names else list(inherited)
    for name in (".git/info/exclude", ".gitignore"):
        if name.partition("/")[0] in names:
            rules += _rules_from(real, name)
    return rules


def _rules_from(real: str, name: str) -> list[IgnoreRules]:
    try:
        content = read_regular(Path(real, name), IGNORE_FILE_LIMIT, follow=False)
    except OSError:
        return []
    return [parse_ignore_file(real, content)]


def is_build_artifact(path: str) -> bool:
    """Whether a file with this relative path has the name of one that builds and tests make.

    A run of the tests rewrites it, which says nothing about the files that people and models write.
    """
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(_ARTIFACT_ENDINGS)
        or name.startswith(_ARTIFACT_NAMES)
        or not _ARTIFACT_FOLDERS.isdisjoint(folders.split("/"))
    )
