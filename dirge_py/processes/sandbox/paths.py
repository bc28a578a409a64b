"""Comparing physical paths."""

import os
from collections.abc import Iterable


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute and physical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def upwards(path: str) -> list[str]:
    """`path` and every folder above it, the nearest first."""
    found = [path]
    while (above := os.path.dirname(path)) != path:
        path = above
        found.append(path)
    return found


def in_order(paths: Iterable[str]) -> list[str]:
    """Every folder before what is in it."""
    return sorted(paths, key=lambda path: path.split("/"))
