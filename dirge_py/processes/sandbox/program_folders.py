"""Where programs lie that may be started unasked: in no workspace and in no home folder."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache

from dirge_py.lib.paths import is_below, is_below_any

PROGRAM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
    "/gnu/store", "/snap", "/run/current-system", "/run/wrappers", "/System", "/Library",
    "/home/linuxbrew/.linuxbrew",
)  # fmt: skip
"""Where programs of the system lie."""

USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where to look if the workspace holds every folder of `PATH`: to a shell an empty one means the
current folder.
"""


def closed_folders(roots: Sequence[str], home: str) -> tuple[str, ...]:
    """The physical folders in which no file may be executed: the workspace and the home folders.

    One that holds the system's programs, such as `/`, is left out: nothing could run without them.
    """
    reals = dict.fromkeys(
        os.path.realpath(path) for path in (*roots, home, _account_home()) if path
    )
    return tuple(path for path in reals if not any(is_below(one, path) for one in _system()))


@cache
def _account_home() -> str:
    """The home folder that the account has, whatever HOME says; "" if that is not on this machine.

    Read from the file: asking for the account (`pwd`) may go to a server.
    """
    user = str(os.geteuid()).encode()
    with suppress(OSError), open("/etc/passwd", "rb") as accounts:
        for line in accounts:
            fields = line.rstrip(b"\n").split(b":")
            if len(fields) > 5 and fields[2] == user:
                return os.fsdecode(fields[5])
    return ""


@cache
def _system() -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) for folder in PROGRAM_FOLDERS[:3])


def search_path(path: str, closed: Sequence[str]) -> str:
    """The folders of a `PATH` that lie in none of the physical folders `closed`; never empty."""
    folders = [one for one in path.split(os.pathsep) if os.path.isabs(one)]
    kept = [one for one in folders if not is_below_any(os.path.realpath(one), closed)]
    return os.pathsep.join(kept or USUAL_PATH)


def program_problem(name: str, path: str, closed: tuple[str, ...]) -> str:
    """Why the program `name` must not be started unasked, or "".

    A name that is nowhere on `path` is no problem: it is built into the shell, or fails.
    """
    found = shutil.which(name, path=_remembered_path(path, closed))
    if found is not None and not is_below_any(os.path.realpath(found), closed):
        return ""
    found = found or shutil.which(name, path=path)
    if found is None or not os.path.isabs(found):
        return ""
    return f"`{name}` is {found}, and programs in the workspace or your home folder can do anything"


# For judging only, which would cost more than all else it does. Where a folder of PATH becomes a
# link into the workspace later, the kernel still executes nothing there.
_remembered_path = lru_cache(maxsize=16)(search_path)


@lru_cache(maxsize=16)
def remembered_closed_folders(roots: tuple[str, ...], home: str) -> tuple[str, ...]:
    """As `closed_folders`, for folders that are physical already."""
    return closed_folders(roots, home)
