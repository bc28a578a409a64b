"""Entry points of installed packages, found without a costly import when there are none."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points_of(group: str) -> "Sequence[EntryPoint]":
    """Return the entry points of a group, in no order.

    Usually no package has one. `importlib.metadata` takes longer to import than reading the lists.
    """
    mark = f"[{group}]".encode()
    if not any(map(_is_archive, sys.path)) and not any(mark in content for content in _lists()):
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _is_archive(path: str) -> bool:
    return path.endswith(".egg") or os.path.isfile(path)


def _lists() -> Iterator[bytes]:
    """Yield the `entry_points.txt` of each installed package."""
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                        yield file.read()
                except OSError:
                    continue
