"""Checks that only the user can change a file, for files whose content may decide what is run.

The rules are those of ssh for its settings, except for groups with one member and for containers.
"""

import errno
import os
import stat
from contextlib import suppress
from shlex import quote

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import upwards

_ROOT = 0
_NOBODY = 65534
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True, slots=True)
class Weakness:
    """Why others can change or read a file."""

    words: str
    """The reason; it follows the path."""
    fix: str
    """A command that fixes it."""


class UnsafeFile(OSError):
    """A file that is not read because another user could have written it."""

    def __init__(self, path: str, weakness: Weakness) -> None:
        super().__init__(errno.EPERM, weakness.words, path)
        self.fix = weakness.fix


def weakness_of(path: str, status: os.stat_result | None = None) -> Weakness | None:
    """Return why others can change or replace the file at `path`; None if they can't.

    `status` is that of the open file. A link is followed; both the folder of the link and that of
    the file are checked. Raises OSError: there is no such file.
    """
    weakness = _weakness(path, status if status is not None else os.stat(path), is_folder=False)
    if weakness is not None:
        return weakness
    places = (os.path.abspath(path), os.path.realpath(path))
    for folder in dict.fromkeys(map(os.path.dirname, places)):
        weakness = _weakness(folder, os.stat(folder), is_folder=True)
        if weakness is not None:
            return Weakness(f"is in {folder}, which {weakness.words}", weakness.fix)
    return None


def readable_by_others(path: str) -> Weakness | None:
    """Return why other users can read the file at `path`; None if they cannot. Raises OSError."""
    real = os.path.realpath(path)
    is_read_only = bool(os.statvfs(real).f_flag & os.ST_RDONLY)
    if os.stat(real).st_uid != os.geteuid() or is_read_only:
        # The mode cannot be changed from here, as for a secret mounted into a container.
        return None
    others, group = stat.S_IROTH, stat.S_IRGRP
    for place in upwards(real):
        status = os.stat(place)
        mode = status.st_mode if not _is_private_group(status, place) else status.st_mode & ~group
        if not mode & (others | group):
            return None
        others, group = stat.S_IXOTH, stat.S_IXGRP
    return Weakness("can be read by other users", f"chmod go-rwx {quote(path)}")


def _weakness(path: str, status: os.stat_result, *, is_folder: bool) -> Weakness | None:
    if not _is_own(status.st_uid):
        owner = f"belongs to another user ({_user_name(status.st_uid)})"
        return Weakness(owner, f"chown {_user_name(os.geteuid())} {quote(path)}")
    # In a sticky folder such as /tmp only the owner of a file can replace it.
    if is_folder and status.st_mode & stat.S_ISVTX:
        return None
    is_writable = status.st_mode & stat.S_IWOTH or (
        status.st_mode & stat.S_IWGRP and not _is_private_group(status, path)
    )
    fix = f"chmod go-w {quote(path)}"
    return Weakness("can be written by other users", fix) if is_writable else None


def _is_own(uid: int) -> bool:
    us = os.geteuid()
    if uid in (_ROOT, us):
        return True
    if us == _ROOT:
        # `sudo dirge` with the home folder kept; a host folder mounted into a container.
        is_container = any(map(os.path.exists, _CONTAINER_MARKS))
        return os.environ.get("SUDO_UID") == str(uid) or is_container
    # The owner has no name in here, and no process of this namespace can be that user.
    return uid == _NOBODY and _in_user_namespace()


def _is_private_group(status: os.stat_result, path: str) -> bool:
    """Whether the owner is the group's only member; many systems create one group per user."""
    # With an access control list the group bits stand for everyone that it names.
    with suppress(OSError, AttributeError):
        if os.getxattr(path, "system.posix_acl_access"):
            return False
    us = _user_name(os.geteuid())
    import grp

    try:
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return status.st_gid == os.geteuid()
    return group.gr_name in (us, "root") and set(group.gr_mem) <= {us, "root"}


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _in_user_namespace() -> bool:
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() != ["0", "0", "4294967295"]
    except OSError:
        return False
