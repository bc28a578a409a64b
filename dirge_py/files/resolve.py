"""Resolves a path to its physical path, and opens exactly that one.

A path is resolved first, component by component, as in the kernel. Then the permission check judges
the physical path. Opening that, and creating its folders, follows no link: one that was created in
between is an error.
"""

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

MAX_LINKS = 40
"""The most links followed before a path counts as a loop: the limit of the Linux kernel."""
Kind = Literal["file", "dir", "other", "missing"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A physical path: no links, no `.` or `..`. Only its last components may be missing."""

    real: str
    kind: Kind
    """The kind of file there."""

    @property
    def exists(self) -> bool:
        return self.kind != "missing"


def absolute(path: str, cwd: str) -> str:
    """Return the absolute form of `path` relative to `cwd`: `~` expanded, links and `..` unchanged.

    `..` stays because `link/..` is the parent of the link's target, not of the link.
    """
    check_spelling(path)
    joined = os.path.join(cwd, os.path.expanduser(path))
    return "/" + "/".join(part for part in joined.split("/") if part not in ("", "."))


def check_spelling(path: str) -> None:
    """Raise FileError for a path that is empty, contains a NUL or can't be encoded."""
    if not path:
        raise FileError("The path is empty.", hint="Give the path of a file or folder.")
    if "\0" in path:
        raise FileError(f"{path!r} contains a NUL character.", hint="Give the path without it.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileError(
            f"{path!r} cannot be written as a file name.", hint="Give the path in plain Unicode."
        ) from None


def resolve(path: str) -> Resolved:
    """Return where the absolute `path` leads now, with every link on the way resolved.

    Components at the end may be missing, but without a `..` after them. Raises FileError for a link
    loop, a file used as a folder, or a folder that may not be searched.
    """
    pending = _reversed_parts(path)
    real = ""
    kind: Kind = "dir"
    links = 0
    while pending:
        part = pending.pop()
        if kind != "dir":
            raise FileError(f"{path}: {real or '/'} is not a folder.")
        if part == "..":
            real = os.path.dirname(real).rstrip("/")
            continue
        step = f"{real}/{part}"
        try:
            status = os.lstat(step)
        except FileNotFoundError:
            if ".." in pending:
                text = f"{path}: {step} does not exist, so `..` after it leads nowhere."
                raise FileError(text) from None
            return Resolved("/".join([step, *reversed(pending)]), "missing")
        except OSError as error:
            raise FileError(f"{path}: {reason_of(error)} at {step}.") from None
        if not stat.S_ISLNK(status.st_mode):
            real, kind = step, kind_of(status.st_mode)
            continue
        links += 1
        if links > MAX_LINKS:
            raise FileError(f"{path}: more than {MAX_LINKS} links, probably a loop.")
        try:
            target = os.readlink(step)
        except OSError as error:
            raise FileError(f"{path} changed while it was resolved: {reason_of(error)}.") from None
        if target.startswith("/"):
            real = ""
        pending.extend(_reversed_parts(target))
    return Resolved(real or "/", kind)


def _reversed_parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    return "dir" if stat.S_ISDIR(mode) else "other"


def reason_of(error: OSError) -> str:
    """Return the error as a few lower-case words."""
    if error.errno is None:
        return str(error)
    return _REASONS.get(error.errno) or os.strerror(error.errno).lower()


_REASONS = {
    errno.EACCES: "permission denied",
    errno.ENOENT: "no such file or folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.EIO: "the disk reported an error",
    errno.ELOOP: "an unexpected link",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EROFS: "the file system is read-only",
}


_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_HANDLE = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
FOLDER = os.O_RDONLY | os.O_DIRECTORY
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
"""`O_NONBLOCK`: opening a FIFO without a writer would otherwise block."""


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def open_folder_handle(real: str, folder: int | None = None) -> int:
    """Return a descriptor of the folder `real`, in `folder`, independent of changes to its path."""
    return os.open(real, _HANDLE, dir_fd=folder)


def open_beneath(anchor: int, relative: str, flags: int) -> int:
    """Open the physical path `relative` (no `..`, no leading `/`) below the folder `anchor`.

    Raises OSError as `os.open`; ELOOP (or ENOTDIR) if a component is a link.
    """
    opened = _openat2(anchor, relative or ".", flags)
    return walk_beneath(anchor, relative, flags) if opened is None else opened


def walk_beneath(anchor: int, relative: str, flags: int) -> int:
    """Do the same as `open_beneath` without openat2: one component at a time."""
    *folders, last = [part for part in relative.split("/") if part] or ["."]
    if ".." in (*folders, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    current = os.dup(anchor)
    try:
        # The kernel rejects a link: ELOOP, or ENOTDIR together with O_DIRECTORY.
        for folder in folders:
            deeper = os.open(folder, _HANDLE, dir_fd=current)
            os.close(current)
            current = deeper
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
    finally:
        os.close(current)


def open_regular(anchor: int, relative: str, shown: str) -> tuple[int, os.stat_result]:
    """Open a regular file; `shown` is its name in errors. Raises FileError, also for links."""
    try:
        descriptor = open_beneath(anchor, relative, FILE)
    except OSError as error:
        raise FileError(f"{shown}: {reason_of(error)}.") from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise FileError(f"{shown} is not a regular file.", hint="Only regular files can be opened.")


_syscall: Any = None
if sys.platform.startswith("linux"):
    _syscall = ctypes.CDLL(None, use_errno=True).syscall
    _syscall.restype = ctypes.c_long


def _openat2(anchor: int, relative: str, flags: int) -> int | None:
    """Return the descriptor, or None if the kernel has no openat2 (or a sandbox forbids it)."""
    if _syscall is None:
        return None
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    while True:
        opened = _syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(anchor),
            ctypes.c_char_p(os.fsencode(relative)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if opened >= 0:
            return int(opened)
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            return None
        if number not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number), relative)


@contextlib.contextmanager
def make_folders(anchor: int, relative: str, shown: str) -> Iterator[int]:
    """Yield a descriptor of the folder of the file `relative` below `anchor`, created if missing.

    If the block fails, created folders that are still empty are removed again. Raises FileError if
    a folder cannot be created or opened. `shown` is the file's name in errors.
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
    folder, path = os.dup(anchor), ""
    try:
        for part in filter(None, relative.split("/")):
            path = os.path.join(path, part)
            try:
                deeper = open_folder_handle(part, folder)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    created.append(path)
                deeper = open_folder_handle(part, folder)
            os.close(folder)
            folder = deeper
        return os.open(".", FOLDER | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def _remove(anchor: int, created: list[str]) -> None:
    for folder in reversed(created):
        with contextlib.suppress(OSError):
            os.rmdir(folder, dir_fd=anchor)
