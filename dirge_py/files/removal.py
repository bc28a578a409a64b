"""Removing a folder of ours, whatever was made of it meanwhile."""

import contextlib
import itertools
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def remove_tree(folder: str, *, last: str = "") -> bool:
    """Remove a folder of ours, with what a command may have made of it. No link is followed.

    Where something is mounted in it, that is somebody else's: then all of it stays. The file `last`
    goes when all else is gone: what is left is known by it. Blocks.
    """
    if not _has_mounts(folder):
        with contextlib.suppress(OSError):
            _empty(folder, last)
            os.rmdir(folder)
    return not os.path.lexists(folder)


def _empty(folder: str, last: str) -> None:
    """Remove what is in the folder, however deep it goes and whatever its modes are.

    What lies deeper is moved up first: neither the length of a path nor the number of open folders
    sets a limit.

    Raises:
        OSError: the folder cannot be opened.
    """
    token = secrets.token_hex(8)
    unused = (f".{token}.{number}" for number in itertools.count())
    with _opened(folder, None) as top:
        waiting = [name for name in os.listdir(top) if name != last]
        while waiting:
            waiting += _remove(waiting.pop(), top, unused)
        if os.listdir(top) == [last]:
            os.unlink(last, dir_fd=top)


def _remove(name: str, top: int, unused: Iterator[str]) -> list[str]:
    """Remove what is in the folder `top` under this name; the folders in it get names in `top`.

    What cannot be removed keeps the folders that it is in.
    """
    moved: list[str] = []
    with contextlib.suppress(OSError):
        if not _is_folder(name, top):
            os.unlink(name, dir_fd=top)
            return moved
        with _opened(name, top) as folder:
            for each in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if _is_folder(each, folder):
                        up = next(unused)
                        _move_up(each, folder, up, top)
                        moved.append(up)
                    else:
                        os.unlink(each, dir_fd=folder)
        os.rmdir(name, dir_fd=top)
    return moved


def _move_up(name: str, folder: int, target: str, top: int) -> None:
    with _opened(name, folder):  # which sees to its mode: only who may write to it may move it
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=top)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


@contextmanager
def _opened(name: str, folder: int | None) -> Iterator[int]:
    """A folder (in another, or by its path), with all rights of its owner; no link is followed.

    Raises:
        OSError: it is none, or somebody else's.
    """
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags | getattr(os, "O_PATH", os.O_RDONLY), dir_fd=folder)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        opened = os.open(".", os.O_RDONLY | flags, dir_fd=handle)
    finally:
        os.close(handle)
    try:
        yield opened
    finally:
        os.close(opened)


def _has_mounts(folder: str) -> bool:
    """Whether something is mounted in it. Where nobody can tell, nothing is."""
    try:
        with open(_MOUNTS, "rb") as stream:
            lines = stream.read().split(b"\n")
    except OSError:
        return False
    places = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    real = os.fsencode(os.path.realpath(folder))
    return any(_plain(place).startswith(real + b"/") or _plain(place) == real for place in places)


def _plain(escaped: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes((int(found[1], 8),)), escaped)
