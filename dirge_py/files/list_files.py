"""What stands below a folder and is not ignored, where no git can be asked.

Links and hidden files count, too. Folders of installed dependencies are told apart, and not looked
into.

Files that programs leave behind when a project is built or tested, ignored or not.

A run of the tests rewrites them, and says no less about the files that people and models write.
"""

import importlib
import os
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.files.safe_read import read_regular

if TYPE_CHECKING:
    from dirge_py.files.ignore_rules import IgnoreRules

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
_IGNORE_FILE_LIMIT = 1 << 20


@dataclass(slots=True)
class FileListing:
    """`paths` are relative, of files and links; `dependencies` are folders, `closed` unreadable."""

    paths: list[str] = field(default_factory=list)
    dependencies: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


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
        is_ignored = _is_ignored(here, rules, is_folder=True)
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
    root: str, folder: str, inherited: Sequence["IgnoreRules"], listing: FileListing
) -> list[tuple[str, Sequence["IgnoreRules"]]]:
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
        is_ignored = _is_ignored(f"{real}/{entry.name}", rules, is_folder=is_folder)
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


def _is_ignored(real: str, rules: Sequence["IgnoreRules"], *, is_folder: bool) -> bool:
    for each in reversed(rules):
        verdict = each.verdict(real + "/" if is_folder else real)
        if verdict is not None:
            return verdict
    return False


def _rules_within(
    real: str, names: Set[str], inherited: Sequence["IgnoreRules"]
) -> Sequence["IgnoreRules"]:
    """The rules that hold in a folder; a repository inside another starts afresh."""
    rules = [] if ".git" in names else list(inherited)
    for name in (".git/info/exclude", ".gitignore"):
        if name.partition("/")[0] in names:
            rules += _rules_from(real, name)
    return rules


def _rules_from(real: str, name: str) -> list["IgnoreRules"]:
    try:
        content = read_regular(Path(real, name), _IGNORE_FILE_LIMIT, follow=False)
    except OSError:
        return []
    # pathspec takes 35 ms to import; most folders do without.
    parse: Callable[[str, bytes], IgnoreRules] = importlib.import_module(
        "dirge_py.files.ignore_rules"
    ).parse
    return [parse(real, content)]


_ARTIFACT_FOLDERS = frozenset(
    (
        "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
        ".nyc_output", ".gradle", ".cache", "htmlcov",
    )
)  # fmt: skip
_ARTIFACT_ENDINGS = (".pyc", ".pyo", ".o", ".obj", ".class", ".gcda", ".gcno")
_ARTIFACT_NAMES = (".coverage", "coverage.xml")


def is_build_artifact(path: str) -> bool:
    """Whether a file with this relative path is known, by its name, to be such a one."""
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(_ARTIFACT_ENDINGS)
        or name.startswith(_ARTIFACT_NAMES)
        or not _ARTIFACT_FOLDERS.isdisjoint(folders.split("/"))
    )
