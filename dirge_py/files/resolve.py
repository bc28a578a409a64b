"""Where a path really leads: components walked one by one, as the kernel walks them."""

import errno
import os
import stat
from collections.abc import Callable
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.types.errors import FileError

MAX_LINKS = 40
"""Links followed before a path counts as a loop: the limit of the Linux kernel."""

is_beneath = is_below_any

Kind = Literal["file", "dir", "other", "missing"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A physical path: no links, no `.` or `..`. Only its last components may be missing."""

    real: str
    kind: Kind

    @property
    def exists(self) -> bool:
        return self.kind != "missing"


def absolute(path: str, cwd: str) -> str:
    """`path` seen from `cwd`, with `~` expanded and links and `..` left as they are.

    `..` stays because `link/..` is the parent of what the link points at, not of the link.
    """
    check_spelling(path)
    joined = os.path.join(cwd, os.path.expanduser(path))
    parts = [part for part in joined.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def check_spelling(path: str) -> None:
    """Refuse what no file system call could take.

    Raises:
        FileError: the path is empty, holds a NUL or cannot be encoded.
    """
    if not path:
        raise FileError("The path is empty.", hint="Give the path of a file or folder.")
    if "\0" in path:
        raise FileError(f"{path!r} holds a NUL character.", hint="Give the path without it.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileError(
            f"{path!r} cannot be written as a file name.", hint="Give the path in plain Unicode."
        ) from None


def resolve(path: str, *, on_step: Callable[[str], object] | None = None) -> Resolved:
    """Where the absolute `path` leads now, every link on the way followed.

    Components at the end may be missing (a file to be created, in folders to be created); a `..`
    after a missing one leads nowhere, in the kernel and here. `on_step` is
    given every physical place on the way, links included.

    Raises:
        FileError: a link loop, a file used as a folder, a folder that may not be searched.
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
        if on_step is not None:
            on_step(step)
        status = _look_at(step, path)
        if status is None:
            return Resolved(_with_missing_tail(step, pending, path), "missing")
        if not stat.S_ISLNK(status.st_mode):
            real, kind = step, kind_of(status.st_mode)
            continue
        links += 1
        if links > MAX_LINKS:
            raise FileError(f"{path}: more than {MAX_LINKS} links, probably a loop.")
        target = _target_of(step, path)
        if target.startswith("/"):
            real = ""
        pending.extend(_reversed_parts(target))
    return Resolved(real or "/", kind)


def _reversed_parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _look_at(step: str, asked: str) -> os.stat_result | None:
    try:
        return os.lstat(step)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"{asked}: {reason_of(error)} at {step}.") from None


def _target_of(step: str, asked: str) -> str:
    try:
        return os.readlink(step)
    except OSError as error:
        raise FileError(f"{asked} changed while it was looked at: {reason_of(error)}.") from None


def _with_missing_tail(step: str, pending: list[str], asked: str) -> str:
    tail = pending[::-1]
    if ".." in tail:
        raise FileError(f"{asked}: {step} does not exist, so `..` after it leads nowhere.")
    return "/".join([step, *tail])


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    return "dir" if stat.S_ISDIR(mode) else "other"


def reason_of(error: OSError) -> str:
    """The error in a few lower-case words."""
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
    errno.ELOOP: "a link stands where none was",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EROFS: "the file system is read-only",
}
