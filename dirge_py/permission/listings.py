"""Folders as a search for secrets sees them. One that has not changed is not listed again."""

import os
import time
from collections.abc import Sequence
from typing import TypeAlias

from dirge_py.permission.protected import may_be_secret

MAX_FOLDERS_KNOWN = 100_000

_RULING = frozenset((".rgignore", ".ignore", ".gitignore", ".git"))
_SETTLED_NS = 2_000_000_000


class Listing:
    """`suspects` are files that may be secret by their names, `suspect_folders` folders likewise.
    `has_rules`: something in it says which files searches leave out.
    """

    __slots__ = ("entries", "folders", "has_rules", "suspect_folders", "suspects")

    def __init__(
        self,
        entries: int,
        folders: Sequence[str] = (),
        suspects: Sequence[str] = (),
        *,
        has_rules: bool = False,
    ) -> None:
        self.entries = entries
        self.folders = folders
        self.suspects = suspects
        self.suspect_folders = frozenset(filter(may_be_secret, folders))
        self.has_rules = has_rules


_Stamp: TypeAlias = tuple[int, int, int, int]
_NOTHING = Listing(1)
_KNOWN: dict[str, tuple[_Stamp, Listing]] = {}


def listing_of(folder: str) -> Listing:
    """What is in a folder; nothing where it cannot be listed."""
    try:
        status = os.stat(folder)
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = _KNOWN.get(folder)
        if known and known[0] == stamp:
            return known[1]
        listing = _listed(folder)
    except OSError:
        return _NOTHING
    # A change in the same tick of the file system's clock would leave no trace.
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS:
        if len(_KNOWN) >= MAX_FOLDERS_KNOWN:
            _KNOWN.clear()
        _KNOWN[folder] = (stamp, listing)
    return listing


def _listed(folder: str) -> Listing:
    folders, suspects, entries, has_rules = [], [], 1, False
    with os.scandir(folder) as scanned:
        for entry in scanned:
            entries += 1
            has_rules = has_rules or entry.name in _RULING
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif may_be_secret(entry.name) and entry.is_file(follow_symlinks=False):
                suspects.append(entry.name)
    return Listing(entries, tuple(folders), tuple(suspects), has_rules=has_rules)
