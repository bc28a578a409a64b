"""Compares physical paths by components, formats paths with `~`, and names this program."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute and physical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(is_below(path, folder) for folder in folders)


def upwards(path: str) -> list[str]:
    """Return `path` and every folder above it, the nearest first."""
    folders = [path]
    while (above := os.path.dirname(path)) != path:
        path = above
        folders.append(path)
    return folders


def in_order(paths: Iterable[str]) -> list[str]:
    """Return `paths` sorted so that every folder comes before its contents."""
    return sorted(paths, key=lambda path: path.split("/"))


def from_home(name: str) -> Path:
    """Return `name` with `~` expanded; unchanged if that user has no home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def shorten_home(path: str) -> str:
    """Return `path` with `~` for the user's home folder, if it is in there."""
    home = os.path.expanduser("~")
    is_inside = home not in ("~", "/") and path.startswith(home.rstrip("/") + "/")
    return f"~{path[len(home.rstrip('/')) :]}" if is_inside else path


def own_command() -> str:
    """Return what starts this program in the user's shell: a path if `dirge` doesn't do so.

    Example: `~/dirge/.venv/bin/dirge`.
    """
    # dirge may have changed its folder; a relative path begins in the one where it was started.
    program = os.path.abspath(os.path.join(os.environ.get("PWD", ""), sys.argv[0]))
    if os.path.basename(program) != "dirge" or not os.path.exists(program):
        return "dirge"
    found = shutil.which("dirge")
    if found is not None and os.path.samefile(found, program):
        return "dirge"
    quoted = shlex.quote(program)
    return shorten_home(program) if quoted == program else quoted
