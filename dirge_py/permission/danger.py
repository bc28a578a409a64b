"""Commands refused whatever the rules say: the machine or the home folder would be gone."""

import itertools
import os.path
import re
from collections.abc import Collection, Sequence

from dirge_py.permission.words import listed

_DISK_TOOLS = listed("fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mkswap mke2fs")
_REMOVERS = frozenset(("rm", "shred", "srm", "unlink"))
_REACH = 32
_MAX_STARTS = 20_000
_HARMLESS_DEVICES = frozenset(
    f"/dev/{name}"
    for name in ("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty")
)
HOME_SIGN = re.compile(r"(?:~|\$HOME|\$\{HOME[^}]*\})(?=/|\Z)")
_EVERYTHING_IN = re.compile(r"/*(?:\A|/)(?:\.?\*+|\.\[[^/]*\*?)\Z")


def destruction(words: Sequence[str], *, folders: Collection[str], home: str) -> str:
    """Why this one command must not run, or "".

    `folders` are the places it might run in.
    """
    if not words:
        return ""
    name = words[0].rsplit("/", 1)[-1]
    operands = [word for word in words[1:] if word and not word.startswith("-")]
    if name in _REMOVERS:
        return _removal(words, operands, folders, home)
    if name == "dd":
        devices = [word.partition("=")[2] for word in operands if "=" in word]
        return next((f"`dd` on the device {name}" for name in devices if is_device(name)), "")
    if name in _DISK_TOOLS or name == "mkfs" or name.startswith(("mkfs.", "newfs")):
        target = next((word for word in operands if is_device(word)), "")
        target = target or next((w for w in operands if _is_all(w, folders, home)), "")
        return f"`{name}` on {target}" if target else ""
    if name == "find" and "-delete" in words:
        return next((f"`find -delete` on {w}" for w in operands if _is_all(w, folders, home)), "")
    return ""


def windows(words: Sequence[str]) -> list[Sequence[str]]:
    """What follows each name that could be fatal, in text that cannot be taken apart."""
    starts = (at for at, word in enumerate(words) if _is_fatal(word.rsplit("/", 1)[-1]))
    found = (tuple(words[at : at + _REACH]) for at in starts)
    # Equal ones count once, so a text that only repeats itself costs next to nothing.
    return list(dict.fromkeys(itertools.islice(found, _MAX_STARTS)))


def _is_fatal(name: str) -> bool:
    known = name in _REMOVERS or name in _DISK_TOOLS or name in ("dd", "find", "mkfs")
    return known or name.startswith(("mkfs.", "newfs"))


def is_device(path: str) -> bool:
    """Whether `path` names a device that holds or is something."""
    normal = os.path.normpath(path)
    return normal.startswith("/dev/") and not (
        normal in _HARMLESS_DEVICES or normal.startswith(("/dev/fd/", "/dev/shm/", "/dev/pts/"))
    )


def _removal(
    words: Sequence[str], operands: Sequence[str], folders: Collection[str], home: str
) -> str:
    if "--no-preserve-root" in words:
        return "`--no-preserve-root`"
    for operand in operands:
        if is_device(operand) or _is_all(operand, folders, home):
            return f"`{words[0]}` on {operand}"
    return ""


def _is_all(operand: str, folders: Collection[str], home: str) -> bool:
    """Whether `operand` is the root, the home folder, one above it, or all that is in one."""
    # A function, so that a backslash in the home folder's name is no group reference.
    target = HOME_SIGN.sub(lambda found: home, operand, count=1) if operand[:1] in "~$" else operand
    target = _EVERYTHING_IN.sub("", target) or ("/" if target.startswith("/") else ".")
    return any(_contains_home(os.path.normpath(os.path.join(at, target)), home) for at in folders)


def _contains_home(path: str, home: str) -> bool:
    normal = "/" + path.strip("/")
    return normal == "/" or home == normal or home.startswith(normal + "/")
