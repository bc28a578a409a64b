"""Many new files as one pack: a file per object would take ten times as long to write."""

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from dirge_py.files.beneath import FILE, open_beneath, open_folder_handle
from dirge_py.session.snapshots.trees import blob_id

_BLOB = 3
_PIECE = 1 << 20


class OutOfTime(Exception):
    """It took longer than it may."""


def write_pack(
    root: str, paths: Iterable[str], target: Path, *, is_late: Callable[[], bool]
) -> int:
    """Put the content of these regular files below `root` into the pack `target`; returns how many.

    Files that are gone, or cannot be read, are passed over. `is_late` is asked before each.

    Raises:
        OutOfTime: it is late.
        OSError: the pack cannot be written.
    """
    seen: set[bytes] = set()
    anchor = open_folder_handle(root)
    try:
        with open(target, "w+b") as pack:
            pack.write(_header(0))
            for path in paths:
                if is_late():
                    raise OutOfTime
                content = _content(anchor, path)
                if content is None:
                    continue
                name = bytes.fromhex(blob_id(content))
                if name not in seen:
                    seen.add(name)
                    pack.write(_entry_head(len(content)) + zlib.compress(content, 1))
            pack.seek(0)
            pack.write(_header(len(seen)))
            pack.seek(0)
            digest = hashlib.sha1(usedforsecurity=False)
            while piece := pack.read(_PIECE):
                digest.update(piece)
            pack.write(digest.digest())
    finally:
        os.close(anchor)
    return len(seen)


def _header(count: int) -> bytes:
    return b"PACK" + struct.pack(">II", 2, count)


def _entry_head(size: int) -> bytes:
    """Type and size: four bits of it, then seven in each further byte."""
    byte, size = _BLOB << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 128)
        byte, size = size & 127, size >> 7
    head.append(byte)
    return bytes(head)


def _content(anchor: int, path: str) -> bytes | None:
    try:
        descriptor = open_beneath(anchor, path, FILE)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            return stream.read()
        except OSError:
            return None
