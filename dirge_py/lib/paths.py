"""Comparing physical paths, by their components.

Paths as people write them.
"""

import os
from collections.abc import Iterable
from pathlib import Path


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute and physical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(is_below(path, folder) for folder in folders)


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
