"""What has to be taken into a snapshot, told from what git lists and how large the files are."""

import json
import os
import stat
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.ignoring import is_never_held

Stamp: TypeAlias = tuple[int, int, int]
"""Size, time of the last change in ns, inode: another one means another content."""

_LENGTH_BITS = 0xFFF
MIB = 1 << 20
MAX_KEPT_BYTES = 100 * MIB
"""What a tool is about to change is kept up to this size; tools change no larger files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Paths to take in anew, paths that are not held any more, and what is left out.

    `large` are all files above the limit; `nested` are folders of other repositories.
    """

    present: Sequence[str] = ()
    absent: Sequence[str] = ()
    large: Mapping[str, Stamp] = field(default_factory=dict)
    nested: Sequence[str] = ()
    unreadable: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not self.present and not self.absent


def candidates(
    root: str,
    *,
    changed: Iterable[str],
    others: Iterable[str],
    limit_bytes: int,
    also: Collection[str] = (),
) -> Candidates:
    """Sort out what git listed: `changed` are held and differ, `others` are not held.

    Those of `also` are taken in up to `MAX_KEPT_BYTES`.
    """
    present: list[str] = []
    absent: list[str] = []
    large: dict[str, Stamp] = {}
    nested: list[str] = []
    unreadable: list[str] = []
    held = dict.fromkeys(changed, True)
    for path, is_held in {**dict.fromkeys(others, False), **held}.items():
        if is_never_held(path):
            continue
        if path.endswith("/"):
            nested.append(path)
            continue
        full = f"{root}/{path}"
        status = _status(full)
        if status is not None and _may_be_held(status, path):
            limit = MAX_KEPT_BYTES if path in also else limit_bytes
            if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                large[path] = stamp_of(status)
            elif stat.S_ISLNK(status.st_mode) or os.access(full, os.R_OK):
                present.append(path)
                continue
            else:
                unreadable.append(path)
        if is_held:
            absent.append(path)
    return Candidates(
        present=present, absent=absent, large=large, nested=nested, unreadable=unreadable
    )


def _may_be_held(status: os.stat_result, path: str) -> bool:
    if stat.S_ISREG(status.st_mode):
        return True
    # Git takes no link of this name, as it would follow it when it looks for its settings.
    return stat.S_ISLNK(status.st_mode) and os.path.basename(path).lower() != ".gitmodules"


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ino


def stamps(root: str, paths: Iterable[str]) -> dict[str, Stamp]:
    """The stamps of those that are there."""
    found = {path: _status(f"{root}/{path}") for path in paths}
    return {path: stamp_of(status) for path, status in found.items() if status is not None}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def names_in(file: Path) -> list[str]:
    """The paths in a list of git's, each ended by a NUL."""
    return [os.fsdecode(name) for name in file.read_bytes().split(b"\0") if name]


def write_names(file: Path, names: Iterable[str]) -> None:
    file.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in names))


def write_absent(file: Path, names: Iterable[str]) -> None:
    """Lines for `git update-index --index-info` that take these paths out."""
    nothing = b"0 " + b"0" * 40 + b"\t"
    file.write_bytes(b"".join(nothing + os.fsencode(name) + b"\0" for name in names))


def is_in_index(index: Path, path: str) -> bool:
    """Whether an index holds this path; False for none, or one that is none."""
    name = os.fsencode(path)
    try:
        content = index.read_bytes()
    except OSError:
        return False
    # Each name ends with a NUL and has its length in front; longer paths may end alike.
    at = content.find(name + b"\0")
    while at >= 0:
        length = int.from_bytes(content[max(0, at - 2) : at], "big") & _LENGTH_BITS
        if length == min(len(name), _LENGTH_BITS):
            return content.startswith(b"DIRC")
        at = content.find(name + b"\0", at + 1)
    return False


def entries_in(index: Path) -> int:
    """How many files an index holds; 0 for none, or one that is none."""
    try:
        with open(index, "rb") as stream:
            signature, _version, count = struct.unpack(">4sII", stream.read(12))
    except (OSError, struct.error):
        return 0
    return int(count) if signature == b"DIRC" else 0


def load_stamps(file: Path) -> dict[str, Stamp] | None:
    """What `save_stamps` wrote; None if there is nothing (readable)."""
    try:
        stored = json.loads(file.read_text(encoding="ascii"))
        return {path: (size, time, node) for path, (size, time, node) in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def save_stamps(file: Path, found: Mapping[str, Stamp]) -> None:
    file.write_text(json.dumps(found), encoding="ascii")


def differing(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> list[str]:
    """The paths whose stamps are not the same, in order."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
