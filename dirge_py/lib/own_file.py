"""Whether a file is one's own: what another user can write must not decide what is run.

The rules of ssh for its settings, with room for groups that have one member and for containers.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from shlex import quote

from dirge_py.lib.lean_dataclass import dataclass

_OTHERS_WRITE = stat.S_IWOTH
_GROUP_WRITES = stat.S_IWGRP
_ROOT = 0
_NOBODY = 65534
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True, slots=True)
class Weakness:
    """Why a file is not one's own alone: words that follow its path, and a command that helps."""

    words: str
    fix: str


class UnsafeFile(OSError):
    """A file that is not read, as another user could have written it."""

    def __init__(self, path: str, weakness: Weakness) -> None:
        super().__init__(errno.EPERM, weakness.words, path)
        self.fix = weakness.fix


def weakness_of(path: str, status: os.stat_result | None = None) -> Weakness | None:
    """Who else can change the file at `path` or put another in its place; None: nobody can.

    `status` is that of the file once it is open. A link is followed; the folder of the link counts
    as well as that of the file.

    Raises:
        OSError: there is no such file.
    """
    found = _weakness(path, status if status is not None else os.stat(path), is_folder=False)
    if found is not None:
        return found
    for folder in dict.fromkeys((_folder(path), _folder(os.path.realpath(path)))):
        found = _weakness(folder, os.stat(folder), is_folder=True)
        if found is not None:
            return Weakness(f"is in {folder}, which {found.words}", found.fix)
    return None


def readable_by_others(path: str) -> Weakness | None:
    """Whether other users can read the file at `path`, the folders above it considered.

    Raises:
        OSError: there is no such file.
    """
    real = os.path.realpath(path)
    if not _can_be_closed(real):
        return None
    others, group = stat.S_IROTH, stat.S_IRGRP
    for place in _with_parents(real):
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
    # In such a folder, as /tmp, only the owner of a file can replace it.
    if is_folder and status.st_mode & stat.S_ISVTX:
        return None
    is_writable = status.st_mode & _OTHERS_WRITE or (
        status.st_mode & _GROUP_WRITES and not _is_private_group(status, path)
    )
    fix = f"chmod go-w {quote(path)}"
    return Weakness("can be written by other users", fix) if is_writable else None


def _is_own(uid: int, environment: Mapping[str, str] = os.environ) -> bool:
    us = os.geteuid()
    if uid in (_ROOT, us):
        return True
    if us == _ROOT:
        # `sudo dirge` with the home folder kept; a folder of the host's mounted into a container.
        return environment.get("SUDO_UID") == str(uid) or _in_container()
    # The owner has no name in here, and no process of this namespace can be that user.
    return uid == _NOBODY and _in_user_namespace()


def _is_private_group(status: os.stat_result, path: str) -> bool:
    """Whether the group has no member but the owner, as many systems make one for each user."""
    # With an access list the bits of the group stand for all that it names.
    with suppress(OSError, AttributeError):
        if os.getxattr(path, "system.posix_acl_access"):
            return False
    us = _user_name(os.geteuid())
    import grp  # noqa: PLC0415  (not on every system, and seldom needed)

    try:
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return status.st_gid == os.geteuid()
    return group.gr_name in (us, "root") and set(group.gr_mem) <= {us, "root"}


def _can_be_closed(real: str) -> bool:
    """Whether its mode is up to us: what a container is given as a secret is as it is."""
    is_read_only = bool(os.statvfs(real).f_flag & os.ST_RDONLY)
    return os.stat(real).st_uid == os.geteuid() and not is_read_only


def _user_name(uid: int) -> str:
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _in_container() -> bool:
    return any(map(os.path.exists, _CONTAINER_MARKS))


def _in_user_namespace() -> bool:
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() != ["0", "0", "4294967295"]
    except OSError:
        return False


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _with_parents(real: str) -> Iterator[str]:
    yield real
    while real != os.path.dirname(real):
        real = os.path.dirname(real)
        yield real
