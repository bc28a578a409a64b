"""Git's objects and index files: trees, changes and contents as git prints them, packs, entries."""

import hashlib
import os
import re
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle
from dirge_py.lib.lean_dataclass import dataclass

TREE_ID = re.compile(r"[0-9a-f]{40}")
_LINK_MODE = "120000"
_KINDS: dict[str, Literal["added", "removed"]] = {"A": "added", "D": "removed"}
_HEAD_BYTES = 128
"""`<oid> blob <size>` and its line end fit into that."""
_LENGTH_BITS = 0xFFF
_BLOB_TYPE = 3
_CHUNK_BYTES = 1 << 20


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
    kind: Literal["added", "changed", "removed"]
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


class BlobReader:
    """The contents in files that `git cat-file --batch` wrote, by object id."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path, int, int]] = {}

    def add(self, file: Path) -> None:
        with open(file, "rb") as stream:
            self._places |= {oid: (file, start, size) for oid, start, size in _read_blobs(stream)}

    def __contains__(self, oid: str) -> bool:
        return oid in self._places

    def read(self, oid: str) -> bytes | None:
        """The content; None if it is missing, or damaged: its hash is not `oid`."""
        place = self._places.get(oid)
        if place is None:
            return None
        file, start, size = place
        with open(file, "rb") as stream:
            stream.seek(start)
            content = stream.read(size)
        return content if blob_id(content) == oid else None


def _read_blobs(stream: BinaryIO) -> Iterator[tuple[str, int, int]]:
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
    at = content.find(name + b"\0")
    while at >= 0:
        length = int.from_bytes(content[max(0, at - 2) : at], "big") & _LENGTH_BITS
        if length == min(len(name), _LENGTH_BITS):
            return content.startswith(b"DIRC")
        at = content.find(name + b"\0", at + 1)
    return False


def count_index_entries(index: Path) -> int:
    """How many files an index holds; 0 if there is no valid index."""
    try:
        with open(index, "rb") as stream:
            signature, _version, count = struct.unpack(">4sII", stream.read(12))
    except (OSError, struct.error):
        return 0
    return int(count) if signature == b"DIRC" else 0


class PackTimeout(Exception):
    """Writing the pack took longer than it may."""


def write_pack(
    root: str, paths: Iterable[str], target: Path, *, deadline: Callable[[], float]
) -> int:
    """Write the contents of regular files below `root` into the pack `target`; returns how many.

    Files that are gone, or cannot be read, are left out.

    Raises:
        PackTimeout: the `deadline` (by `time.monotonic`) is over.
        OSError: the pack cannot be written.
    """
    seen: set[bytes] = set()
    anchor = open_folder_handle(root)
    try:
        with open(target, "w+b") as pack:
            pack.write(_pack_header(0))
            for path in paths:
                if time.monotonic() > deadline():
                    raise PackTimeout
                content = _read_for_pack(anchor, path)
                if content is None:
                    continue
                name = bytes.fromhex(blob_id(content))
                if name not in seen:
                    seen.add(name)
                    pack.write(_pack_entry_header(len(content)) + zlib.compress(content, 1))
            pack.seek(0)
            pack.write(_pack_header(len(seen)))
            pack.seek(0)
            digest = hashlib.sha1(usedforsecurity=False)
            while chunk := pack.read(_CHUNK_BYTES):
                digest.update(chunk)
            pack.write(digest.digest())
    finally:
        os.close(anchor)
    return len(seen)


def _pack_header(count: int) -> bytes:
    return b"PACK" + struct.pack(">II", 2, count)


def _pack_entry_header(size: int) -> bytes:
    """Type and size: four bits of it, then seven in each further byte."""
    byte, size = _BLOB_TYPE << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 128)
        byte, size = size & 127, size >> 7
    head.append(byte)
    return bytes(head)


def _read_for_pack(anchor: int, path: str) -> bytes | None:
    try:
        with open(open_beneath(anchor, path, FILE), "rb") as stream:
            return stream.read() if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else None
    except OSError:
        return None
