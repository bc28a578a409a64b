"""Reading what a project brings along: once, bounded, and nothing through a link.

The bytes that are hashed are kept and are what is loaded later, so nothing can be exchanged
between the question and the loading.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from dirge_py.files.beneath import FILE, open_beneath, open_folder_handle
from dirge_py.files.beneath import FOLDER as AS_FOLDER
from dirge_py.files.resolve import reason_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.trust import FOLDER, Brought, kind_of, may_hold

_MOST_FILES = 256
_MOST_ENTRIES = 4096
_MOST_LEVELS = 8
_MOST_FILE_BYTES = 1024 * 1024
_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that would act and is never loaded, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Luggage:
    """What was found in a project. `device` and `inode` are those of the folder it was found in.

    `too_much` says why nobody could be expected to judge it; then nothing else is there.
    """

    device: int
    inode: int
    files: tuple[Brought, ...] = ()
    refused: tuple[Refused, ...] = ()
    too_much: str = ""


class _TooMuch(Exception):
    """More than a person could look through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finds:
    files: list[Brought] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def read_acting(root: Path) -> Luggage:
    """Everything below `.dirge` of the folder `root` (a physical path) that would act.

    Raises:
        OSError: `root` cannot be opened.
    """
    anchor = open_folder_handle(str(root))
    try:
        status = os.fstat(anchor)
        finds, too_much = _Finds(), ""
        try:
            _read_all(anchor, finds)
        except _TooMuch as problem:
            finds, too_much = _Finds(), str(problem)
        return Luggage(
            device=status.st_dev,
            inode=status.st_ino,
            files=tuple(sorted(finds.files, key=lambda file: file.path)),
            refused=tuple(sorted(finds.refused, key=lambda each: each.path)),
            too_much=too_much,
        )
    finally:
        os.close(anchor)


def _read_all(anchor: int, finds: _Finds) -> None:
    left, room = _MOST_ENTRIES, _MOST_BYTES
    folders = [FOLDER]
    while folders:
        folder = folders.pop()
        for name, mode in _entries(anchor, folder, finds):
            left -= 1
            if left < 0:
                raise _TooMuch(f"{FOLDER} holds more than {_MOST_ENTRIES} entries")
            path = f"{folder}/{name}"
            is_folder = may_hold(path)
            if stat.S_ISDIR(mode):
                if is_folder and path.count("/") > _MOST_LEVELS:
                    raise _TooMuch(f"{path} lies too deep")
                folders += [path] if is_folder else []
            elif kind_of(path) or (is_folder and stat.S_ISLNK(mode)):
                room -= _take(anchor, path, mode, finds)
                if len(finds.files) > _MOST_FILES:
                    raise _TooMuch(f"{FOLDER} holds more than {_MOST_FILES} files that would act")
                if room < 0:
                    raise _TooMuch(f"the files of {FOLDER} are larger than 8 MiB together")


def _entries(anchor: int, folder: str, finds: _Finds) -> Iterator[tuple[str, int]]:
    """(name, mode) of each entry of the folder, in the order of their names."""
    try:
        handle = open_beneath(anchor, folder, AS_FOLDER)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = "it is a link" if _is_link(anchor, folder) else reason_of(error)
        finds.refused.append(Refused(path=folder, reason=reason))
        return
    try:
        with os.scandir(handle) as entries:
            for count, entry in enumerate(entries):
                if count > _MOST_ENTRIES:
                    raise _TooMuch(f"{folder} holds more than {_MOST_ENTRIES} entries")
                yield entry.name, entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return  # gone while we looked: it will not be loaded either
    finally:
        os.close(handle)


def _take(anchor: int, path: str, mode: int, finds: _Finds) -> int:
    """Read one file, or note why not; returns how many bytes were taken."""
    if not stat.S_ISREG(mode):
        reason = "it is a link" if stat.S_ISLNK(mode) else "it is no regular file"
        finds.refused.append(Refused(path=path, reason=reason))
        return 0
    try:
        content = _content(anchor, path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        finds.refused.append(Refused(path=path, reason=reason_of(error)))
        return 0
    if len(content) > _MOST_FILE_BYTES:
        finds.refused.append(Refused(path=path, reason="it is larger than 1 MiB"))
        return 0
    sha256 = hashlib.sha256(content).hexdigest()
    finds.files.append(Brought(path=path, content=content, sha256=sha256))
    return len(content)


def _content(anchor: int, path: str) -> bytes:
    descriptor = open_beneath(anchor, path, FILE)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return stream.read(_MOST_FILE_BYTES + 1)


def _is_link(anchor: int, path: str) -> bool:
    try:
        # `.dirge` itself: what lies above it is the project, and everything below is checked.
        status = os.stat(path, dir_fd=anchor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode)
