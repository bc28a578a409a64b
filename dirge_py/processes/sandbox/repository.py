"""Where git keeps its things for a folder: what a sandbox must guard, and what git must see.

A `.git` file is text of the repository, so it may lie. It is followed only to a place that git
made for this folder, which shows by pointing back at it.
"""

import configparser
import os
from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.sandbox.paths import is_below, upwards

_SMALL_BYTES = 64 * 1024
_MODULE_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """`top` is the folder with the `.git` entry; `places` are the git directories behind it."""

    top: str
    places: tuple[str, ...]


def repository_of(folder: str) -> Repository | None:
    """The repository that `folder` is in; None if in none, or if its `.git` leads nowhere."""
    for top in upwards(folder):
        entry = os.path.join(top, ".git")
        if os.path.isdir(entry):
            if is_git_directory(entry):
                return Repository(top=top, places=(os.path.realpath(entry),))
        elif os.path.isfile(entry):
            return Repository(top=top, places=tuple(_behind_file(entry)))
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
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def submodule_entries(top: str) -> Iterator[str]:
    """The `.git` entries of the submodules that `top` names, where they exist inside of it."""
    text = _read(os.path.join(top, ".gitmodules"))
    for line in text.splitlines():
        name, _, value = line.strip().partition("=")
        entry = os.path.join(top, value.strip(), ".git")
        if (
            name.strip() == "path"
            and os.path.lexists(entry)
            and os.path.realpath(entry) == os.path.normpath(entry)
            and is_below(os.path.normpath(entry), top)
        ):
            yield os.path.normpath(entry)


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


def _working_tree(place: str) -> str:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(_read(os.path.join(place, "config")).replace("\t", ""))
        return (parser.get("core", "worktree", fallback="") or "").strip('"')
    except configparser.Error:
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_SMALL_BYTES)
    except OSError:
        return ""
