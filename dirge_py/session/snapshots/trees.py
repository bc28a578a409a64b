"""What git says about trees, read."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import TreeChange

TREE = re.compile(r"[0-9a-f]{40}")
LINK = "120000"
_KINDS: dict[str, Literal["added", "removed"]] = {"A": "added", "D": "removed"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a tree: its git mode, and the name of its content."""

    mode: str
    oid: str

    @property
    def is_link(self) -> bool:
        return self.mode == LINK

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"


def entries_of(listing: bytes) -> dict[str, Entry]:
    """The files in the output of `git ls-tree -r -z`, by path."""
    found: dict[str, Entry] = {}
    for line in listing.split(b"\0"):
        words, tab, name = line.partition(b"\t")
        if tab:
            mode, kind, oid = words.decode("ascii").split(" ")
            if kind == "blob":
                found[os.fsdecode(name)] = Entry(mode, oid)
    return found


def changes_in(listing: bytes) -> Sequence[TreeChange]:
    """The changes in the output of `git diff-tree -z --raw`, with lines if `--numstat` follows."""
    fields = listing.split(b"\0")
    kinds: dict[str, Literal["added", "changed", "removed"]] = {}
    lines: dict[str, tuple[int, int]] = {}
    position = 0
    while position < len(fields):
        head = fields[position]
        if head.startswith(b":"):
            letter = head.rpartition(b" ")[2].decode("ascii")[:1]
            kinds[os.fsdecode(fields[position + 1])] = _KINDS.get(letter, "changed")
            position += 2
            continue
        position += 1
        added, _, rest = head.partition(b"\t")
        removed, tab, name = rest.partition(b"\t")
        if tab and added.isdigit() and removed.isdigit():
            lines[os.fsdecode(name)] = (int(added), int(removed))
    return tuple(
        TreeChange(path=path, kind=kind, lines=lines.get(path))
        for path, kind in sorted(kinds.items())
    )


class Contents:
    """The contents in files that `git cat-file --batch` wrote, by their names."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path, int, int]] = {}

    def add(self, file: Path) -> None:
        with open(file, "rb") as stream:
            self._places |= {oid: (file, start, size) for oid, start, size in _blobs(stream)}

    def __contains__(self, oid: str) -> bool:
        return oid in self._places

    def read(self, oid: str) -> bytes | None:
        """The content, None if it is not there or not what its name says."""
        place = self._places.get(oid)
        if place is None:
            return None
        file, start, size = place
        with open(file, "rb") as stream:
            stream.seek(start)
            content = stream.read(size)
        return content if blob_id(content) == oid else None


_HEAD_BYTES = 128
"""`<oid> blob <size>` and its line end fit into that."""


def _blobs(stream: BinaryIO) -> Iterator[tuple[str, int, int]]:
    end = os.fstat(stream.fileno()).st_size
    position = 0
    while position < end:
        stream.seek(position)
        head, newline, _ = stream.read(_HEAD_BYTES).partition(b"\n")
        if not newline:
            return
        position += len(head) + 1
        words = head.decode("ascii", "replace").split()
        if len(words) != 3 or words[1] != "blob" or not words[2].isdecimal():
            continue
        size = int(words[2])
        if position + size > end:
            return
        yield words[0], position, size
        position += size + 1


def blob_id(content: bytes) -> str:
    """The name that git gives to this content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
