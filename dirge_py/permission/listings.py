"""Folders as a search for secrets sees them. One that has not changed is not listed again."""

import os
from collections.abc import Sequence

from dirge_py.files.stamps import StampCache
from dirge_py.permission.protected import may_be_secret

MAX_FOLDERS_KNOWN = 100_000

_RULING = frozenset((".rgignore", ".ignore", ".gitignore", ".git"))


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


_NOTHING = Listing(1)
_KNOWN: StampCache[Listing] = StampCache(MAX_FOLDERS_KNOWN)


def listing_of(folder: str) -> Listing:
    """What is in a folder; nothing where it cannot be listed."""
    try:
        return _KNOWN.get(folder, _listed)
    except OSError:
        return _NOTHING


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
