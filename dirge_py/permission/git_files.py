"""Reads files of a git folder: regular ones of a sane size, and nothing else."""

from pathlib import Path

from dirge_py.files.regular_file import read_regular
from dirge_py.permission.git_settings import Unreadable

_MAX_POINTER_BYTES = 64 * 1024


def read_text(path: str, limit: int = _MAX_POINTER_BYTES) -> str:
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError, Unreadable: it is none, cannot be read, or is larger than `limit` bytes.
    """
    content = read_regular(Path(path), limit + 1)
    if len(content) > limit:
        raise Unreadable(f"{path} is too large")
    return content
