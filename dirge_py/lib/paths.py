"""Physical paths compared by their components, and paths with `~` as people write them."""

import os
from collections.abc import Iterable
from pathlib import Path


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute and physical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(is_below(path, folder) for folder in folders)


def upwards(path: str) -> list[str]:
    """`path` and every folder above it, the nearest first."""
    folders = [path]
    while (above := os.path.dirname(path)) != path:
        path = above
        folders.append(path)
    return folders


def in_order(paths: Iterable[str]) -> list[str]:
    """`paths` sorted so that every folder comes before what is in it."""
    return sorted(paths, key=lambda path: path.split("/"))


def from_home(name: str) -> Path:
    """`name` with its `~` replaced; as it stands where nobody of that name has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def shorten_home(path: str) -> str:
    """`path` with `~` for the folder of the person whose program this is, where it is in there."""
    home = os.path.expanduser("~")
    is_inside = home not in ("~", "/") and path.startswith(home.rstrip("/") + "/")
    return f"~{path[len(home.rstrip('/')) :]}" if is_inside else path
