"""Comparing physical paths."""

import os
from collections.abc import Iterable

from dirge_py.lib import paths

is_below = paths.is_below


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
