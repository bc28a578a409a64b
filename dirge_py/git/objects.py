"""Git's data as files: trees and changes as git prints them, contents, lists of paths, indexes."""

import hashlib
import os
import re
import stat
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass

TREE_ID = late_pattern(r"[0-9a-f]{40}")
_LINK_MODE = "120000"
_ChangeKind: TypeAlias = Literal["added", "changed", "removed"]
_KINDS: dict[str, _ChangeKind] = {"A": "added", "D": "removed"}
_LENGTH_BITS = 0xFFF


def read_names(file: Path) -> list[str]:
    """The paths in a list that git wrote, each ended by a NUL."""
    return [os.fsdecode(name) for name in file.read_bytes().split(b"\0") if name]


def write_names(file: Path, names: Iterable[str], before: bytes = b"") -> None:
    """Write a list of paths that git reads, each after the bytes `before`."""
    file.write_bytes(b"".join(before + os.fsencode(name) + b"\0" for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """One path that differs between two trees."""

    path: str
    """The path, relative to the project."""
    kind: _ChangeKind
    """What happened to it."""
    lines: tuple[int, int] | None = None
    """How many lines were added and removed; None for binary files."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a tree."""

    mode: str
    """Its mode in git."""
    oid: str
    """The object id of its content."""

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK_MODE

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"


def parse_tree(listing: bytes) -> dict[str, TreeEntry]:
    """The files in the output of `git ls-tree -r -z`, by path."""
    found: dict[str, TreeEntry] = {}
    for line in listing.split(b"\0"):
        words, tab, name = line.partition(b"\t")
        if tab:
            mode, kind, oid = words.decode("ascii").split(" ")
            if kind == "blob":
                found[os.fsdecode(name)] = TreeEntry(mode, oid)
    return found


def parse_changes(listing: bytes) -> Sequence[TreeChange]:
    """The changes in the output of `git diff-tree -z --raw`, with lines if `--numstat` follows."""
    kinds: dict[str, _ChangeKind] = {}
    lines: dict[str, tuple[int, int]] = {}
    fields = iter(listing.split(b"\0"))
    for head in fields:
        if head.startswith(b":"):
            letter = head.rpartition(b" ")[2].decode("ascii")[:1]
            kinds[os.fsdecode(next(fields))] = _KINDS.get(letter, "changed")
            continue
        added, _, rest = head.partition(b"\t")
        removed, tab, name = rest.partition(b"\t")
        if tab and added.isdigit() and removed.isdigit():
            lines[os.fsdecode(name)] = (int(added), int(removed))
    return tuple(
        TreeChange(path=path, kind=kind, lines=lines.get(path))
        for path, kind in sorted(kinds.items())
    )


def read_blob(folder: Path, oid: str) -> bytes | None:
    """Return a content from its file; None if it is missing, or damaged: its hash is not `oid`."""
    try:
        content = (folder / oid).read_bytes()
    except OSError:
        return None
    return content if blob_id(content) == oid else None


def blob_id(content: bytes) -> str:
    """The object id that git gives to this content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def is_in_index(index: Path, path: str) -> bool:
    """Whether an index holds this path; False if there is no valid index."""
    name = os.fsencode(path)
    try:
        content = index.read_bytes()
    except OSError:
        return False
    # Each name ends with a NUL and follows its length; longer paths may have the same end.
    length = min(len(name), _LENGTH_BITS)
    places = (match.start() for match in re.finditer(re.escape(name + b"\0"), content))
    return content.startswith(b"DIRC") and any(
        int.from_bytes(content[max(0, at - 2) : at], "big") & _LENGTH_BITS == length
        for at in places
    )


def count_index_entries(index: Path) -> int:
    """How many files an index holds; 0 if there is no valid index."""
    try:
        with open(index, "rb") as stream:
            signature, _version, count = struct.unpack(">4sII", stream.read(12))
    except (OSError, struct.error):
        return 0
    return int(count) if signature == b"DIRC" else 0


def write_import_stream(
    root: str, paths: Iterable[str], target: Path, *, deadline: Callable[[], float]
) -> None:
    """Write the regular files below `root` to `target`, in the format of `git fast-import`.

    Files that are gone, or can't be read, are left out. Raises TimeoutError: the `deadline` (by
    `time.monotonic`) is over; OSError: the stream can't be written.
    """
    with closing_descriptor(open_folder_handle(root)) as anchor, open(target, "wb") as stream:
        for path in paths:
            if time.monotonic() > deadline():
                raise TimeoutError
            content = _read_beneath(anchor, path)
            if content is not None:
                stream.write(b"blob\ndata %d\n%b\n" % (len(content), content))


def _read_beneath(anchor: int, path: str) -> bytes | None:
    try:
        with open(open_beneath(anchor, path, FILE), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
