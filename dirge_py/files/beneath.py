"""Opening a physical path below a folder handle, refusing every link on the way.

A path is resolved first (`resolve.py`) and judged; what is opened afterwards must be that very
place. So the opening follows no link at all: one that was put there in between is an error.
"""

import ctypes
import errno
import os
import stat
import sys

from dirge_py.files.resolve import reason_of
from dirge_py.types.errors import FileError

_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08

FOLDER = os.O_RDONLY | os.O_DIRECTORY
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
"""`O_NONBLOCK`: a FIFO without a writer would otherwise hold us until there is one."""


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_folder_handle(real: str) -> int:
    """A descriptor that stands for the folder `real`, whatever its path leads to later."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(real, flags | getattr(os, "O_PATH", os.O_RDONLY))


def open_beneath(anchor: int, relative: str, flags: int) -> int:
    """Open the physical path `relative` (no `..`, no leading `/`) below the folder `anchor`.

    Raises:
        OSError: as `os.open`; ELOOP (or ENOTDIR) where a component is a link.
    """
    opened = _openat2(anchor, relative or ".", flags)
    if opened is None:
        return walk_beneath(anchor, relative, flags)
    return opened


def walk_beneath(anchor: int, relative: str, flags: int) -> int:
    """`open_beneath` for kernels without openat2: one component at a time."""
    *folders, last = [part for part in relative.split("/") if part] or ["."]
    if ".." in (*folders, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    current = os.dup(anchor)
    try:
        for folder in folders:
            deeper = _open_one(folder, _WALK_FLAGS, current)
            os.close(current)
            current = deeper
        return _open_one(last, flags, current)
    finally:
        os.close(current)


def open_regular(anchor: int, relative: str, shown: str) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file and its status. `shown` names it in errors.

    Raises:
        FileError: it is missing, may not be read, is no regular file, or a link appeared.
    """
    try:
        descriptor = open_beneath(anchor, relative, FILE)
    except OSError as error:
        raise FileError(f"{shown}: {reason_of(error)}.") from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise FileError(f"{shown} is not a regular file.", hint="Only regular files can be opened.")


_WALK_FLAGS = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)


def _open_one(name: str, flags: int, folder: int) -> int:
    # A link is refused by the kernel: ELOOP, or ENOTDIR together with O_DIRECTORY.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _load_syscall() -> "ctypes._FuncPointer | None":
    if not sys.platform.startswith("linux"):
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


_syscall = _load_syscall()


def _openat2(anchor: int, relative: str, flags: int) -> int | None:
    """The descriptor, or None where the kernel has no openat2 (or a sandbox forbids it)."""
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
