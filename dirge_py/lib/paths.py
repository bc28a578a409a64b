"""Comparing physical paths, by their components."""

from collections.abc import Iterable


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute and physical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(is_below(path, folder) for folder in folders)
