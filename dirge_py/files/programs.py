"""Programs that we start by name: found only where the workspace has no say."""

import os
from collections.abc import Iterable, Sequence

from dirge_py.errors import FileError
from dirge_py.files.resolve import is_beneath, resolve


def find_program(name: str, folders: Iterable[str], roots: Sequence[str]) -> str | None:
    """The first program `name` in `folders` that no root holds or leads to; None if there is none.

    A relative folder counts from wherever we stand, which is the workspace, so it is passed over.
    """
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isabs(path) and _is_program(path) and not _touches(path, roots):
            return path
    return None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _touches(path: str, roots: Sequence[str]) -> bool:
    """Whether the way to `path` enters a root: by its name, or by a link at any step."""
    steps: list[str] = []
    try:
        resolve(path, on_step=steps.append)
    except FileError:
        return True
    return any(is_beneath(step, roots) for step in steps)
