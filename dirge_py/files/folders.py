"""Creating the folders a new file needs, without following a link on the way."""

import contextlib
import os
from collections.abc import Iterator

from dirge_py.files.beneath import FOLDER, open_beneath
from dirge_py.files.resolve import reason_of
from dirge_py.types.errors import FileError


@contextlib.contextmanager
def make_folders(anchor: int, relative: str, shown: str) -> Iterator[int]:
    """A descriptor of the folder of the file `relative` below `anchor`, created if need be.

    Folders that were created are removed again if the block fails and left them empty.

    Raises:
        FileError: a folder cannot be created or opened. `shown` names the file in it.
    """
    created: list[str] = []
    try:
        folder = _open_or_make(anchor, os.path.dirname(relative), created)
    except OSError as error:
        _remove(anchor, created)
        raise FileError(
            f"{shown} was not written: {reason_of(error)} at its folder.",
            hint="Nothing was changed.",
        ) from error
    try:
        yield folder
    except BaseException:
        _remove(anchor, created)
        raise
    finally:
        os.close(folder)


def _open_or_make(anchor: int, relative: str, created: list[str]) -> int:
    parts = [part for part in relative.split("/") if part]
    depth, folder = _deepest_existing(anchor, parts)
    for end in range(depth + 1, len(parts) + 1):
        path = "/".join(parts[:end])
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parts[end - 1], dir_fd=folder)
                created.append(path)
        finally:
            os.close(folder)
        folder = open_beneath(anchor, path, FOLDER)
    return folder


def _deepest_existing(anchor: int, parts: list[str]) -> tuple[int, int]:
    """How many of `parts` exist, and a descriptor of the last of them."""
    depth = len(parts)
    while True:
        try:
            return depth, open_beneath(anchor, "/".join(parts[:depth]), FOLDER)
        except FileNotFoundError:
            if depth == 0:
                raise
            depth -= 1


def _remove(anchor: int, created: list[str]) -> None:
    for folder in reversed(created):
        with contextlib.suppress(OSError):
            os.rmdir(folder, dir_fd=anchor)
