"""Where git keeps its things for a folder: what a sandbox must guard, and what git must see.

A `.git` file is text of the repository, so it may lie. It is followed only to a place that git
made for this folder, which shows by pointing back at it.
"""

import configparser
import os
import stat
from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, upwards

_SMALL_BYTES = 64 * 1024
_MODULE_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepository:
    """`top` is the folder with the `.git` entry; `places` are the git directories behind it."""

    top: str
    places: tuple[str, ...]


def repository_of(folder: str) -> GitRepository | None:
    """The repository that `folder` is in; None if in none, or if its `.git` leads nowhere."""
    for top in upwards(folder):
        entry = os.path.join(top, ".git")
        if os.path.isdir(entry):
            if is_git_directory(entry):
                return GitRepository(top=top, places=(os.path.realpath(entry),))
        elif os.path.isfile(entry):
            return GitRepository(top=top, places=tuple(_behind_file(entry)))
    return None


def is_git_directory(path: str) -> bool:
    """What git takes for a git directory of its own, not one that shares another's objects."""
    return os.path.isfile(os.path.join(path, "HEAD")) and all(
        os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")
    )


def modules_in(place: str) -> Iterator[str]:
    """The git directories of the submodules kept in the git directory `place`, nested ones too."""
    waiting, seen = [os.path.join(place, "modules")], 0
    while waiting and seen < _MODULE_LIMIT:
        folder = waiting.pop()
        seen += 1
        if is_git_directory(folder):
            yield folder
            waiting.append(os.path.join(folder, "modules"))
            continue
        waiting += _folders_in(folder)


def acting_in(place: str) -> Iterator[str]:
    """What names programs in the git directory `place` and its submodules', or leads elsewhere.

    `commondir` says where settings and hooks are looked for instead; one may be made at any time.
    """
    for directory in (place, *modules_in(place)):
        has_more = _has_settings_per_tree(directory)
        yield from (os.path.join(directory, name) for name in ("hooks", "config", "commondir"))
        trees = [directory, *_folders_in(os.path.join(directory, "worktrees"))]
        for tree in trees:
            own = os.path.join(tree, "config.worktree")
            if has_more or os.path.lexists(own):
                yield own
            if tree != directory:
                yield from (os.path.join(tree, name) for name in ("commondir", "gitdir"))


def submodule_entries(root: str) -> Iterator[str]:
    """The `.git` entries of the submodules below `root`, where they exist.

    Those that `.gitmodules` names, and those that git made, as a command may change that file.
    """
    folders = []
    for line in _read(os.path.join(root, ".gitmodules")).splitlines():
        name, _, value = line.strip().partition("=")
        folders += [os.path.join(root, value.strip())] if name.strip() == "path" else []
    repository = repository_of(root)
    for place in repository.places if repository else ():
        folders += [os.path.join(module, _working_tree(module)) for module in modules_in(place)]
    for folder in folders:
        entry = os.path.join(os.path.normpath(folder), ".git")
        if os.path.lexists(entry) and os.path.realpath(entry) == entry and is_below(entry, root):
            yield entry


def _behind_file(entry: str) -> list[str]:
    named = _read(entry).strip()
    if not named.startswith("gitdir:"):
        return []
    place = os.path.join(os.path.dirname(entry), named.removeprefix("gitdir:").strip())
    place = os.path.realpath(place)
    shared = os.path.dirname(os.path.dirname(place))
    if os.path.basename(os.path.dirname(place)) == "worktrees" and is_git_directory(shared):
        back = os.path.join(place, _read(os.path.join(place, "gitdir")).strip())
        return [shared] if os.path.realpath(back) == os.path.realpath(entry) else []
    if "modules" in place.split("/") and is_git_directory(place):
        back = os.path.realpath(os.path.join(place, _working_tree(place)))
        return [place] if back == os.path.realpath(os.path.dirname(entry)) else []
    return []


def _folders_in(folder: str) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _has_settings_per_tree(place: str) -> bool:
    return "worktreeconfig" in _read(os.path.join(place, "config")).lower()


def _working_tree(place: str) -> str:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(_read(os.path.join(place, "config")).replace("\t", ""))
        return (parser.get("core", "worktree", fallback="") or "").strip('"')
    except configparser.Error:
        return ""


def _read(path: str) -> str:
    """The beginning of a regular file; "" if it is none. Opening a pipe would wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return file.read(_SMALL_BYTES).decode(errors="replace") if is_regular else ""
