"""The files that git tracks, read from its index without running git."""

import os
import stat
import struct
from collections.abc import Iterable, Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git_settings import Unreadable
from dirge_py.permission.protected import may_be_secret

MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_INDEXES = 64

_Stamp = tuple[int, int, int, int, int]
_REGULAR = 0o100000
_SPARSE_FOLDER = 0o040000
_EXTENDED = 0x4000
_KNOWN: dict[str, tuple[_Stamp, "_Index"]] = {}


@dataclass(frozen=True, slots=True)
class _Index:
    files: frozenset[str] = frozenset()
    suspects: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def work_trees_above(folder: str) -> Iterator[tuple[str, str]]:
    """Work tree and git folder of every repository that git could find from `folder`.

    Not only the first: git passes over one that is not whole and goes on upwards.

    Raises:
        OSError, Unreadable: it cannot be told.
    """
    while True:
        entry = os.path.join(folder, ".git")
        if os.path.isdir(entry):
            yield folder, entry
        elif os.path.lexists(entry):
            with open(entry, "rb") as stream:
                text = os.fsdecode(stream.read(4096)).strip()
            if not text.startswith("gitdir:"):
                raise Unreadable(entry)
            yield folder, os.path.join(folder, text.removeprefix("gitdir:").strip())
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def tracked_files(git_dir: str) -> frozenset[str]:
    """Paths of the regular files in a repository's index, from the top of its work tree.

    Raises:
        OSError, Unreadable: the index is of a kind that is not read here.
    """
    return _index(git_dir).files


def tracked_suspects(git_dir: str) -> tuple[str, ...]:
    """Those of the tracked files whose names could be secret. Raises as `tracked_files`."""
    return _index(git_dir).suspects


def tracked_folders(git_dir: str) -> tuple[str, ...]:
    """The folders that tracked files lie in, at any depth. Raises as `tracked_files`."""
    return _index(git_dir).folders


def _index(git_dir: str) -> _Index:
    path = os.path.join(git_dir, "index")
    if not os.path.lexists(path):
        return _Index()
    # O_NONBLOCK: a pipe in a file's place must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX_BYTES:
            raise Unreadable(path)
        stamp = (
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
        )  # fmt: skip
        known = _KNOWN.get(path)
        if known is None or known[0] != stamp:
            names = _names(stream.read(MAX_INDEX_BYTES))
            suspects = tuple(one for one in names if any(map(may_be_secret, one.split("/"))))
            if len(_KNOWN) >= MAX_INDEXES:
                _KNOWN.clear()
            index = _Index(frozenset(names), suspects, tuple(_folders_of(names)))
            known = _KNOWN[path] = (stamp, index)
    return known[1]


def _folders_of(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        folder = os.path.dirname(name)
        while folder and folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def _names(content: bytes) -> list[str]:
    """Names in the index, whose hashes are 20 bytes long or, in newer repositories, 32."""
    for hash_size in (20, 32):
        try:
            return list(_entries(content, hash_size))
        except (struct.error, ValueError, IndexError):
            continue
    raise Unreadable("an index of an unknown layout")


def _entries(content: bytes, hash_size: int) -> Iterator[str]:
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise Unreadable("an index of an unknown version")
    position, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", content, position + 24)
        (flags,) = struct.unpack_from(">H", content, position + 40 + hash_size)
        start = position + 42 + hash_size + (2 if flags & _EXTENDED else 0)
        kept = 0
        if version == 4:
            dropped, start = _variable_length(content, start)
            if dropped > len(name):
                raise ValueError("a name that takes more from the one before than it has")
            kept = len(name) - dropped
        end = content.index(b"\0", start)
        name = name[:kept] + content[start:end]
        # Without compressed names entries are padded with 1 to 8 NUL bytes to a multiple of eight.
        position = end + 1 if version == 4 else position + (end - position) // 8 * 8 + 8
        if mode & 0o170000 == _SPARSE_FOLDER:
            raise Unreadable("a sparse index")
        if mode & 0o170000 == _REGULAR:
            yield os.fsdecode(name)
    _check_extensions(content, position, len(content) - hash_size)


def _check_extensions(content: bytes, position: int, end: int) -> None:
    while position < end:
        kind, size = struct.unpack_from(">4sI", content, position)
        if kind == b"link":
            raise Unreadable("an index whose entries stand in another file, too")
        position += 8 + size
    if position != end:
        raise ValueError("something stands behind the extensions")


def _variable_length(content: bytes, position: int) -> tuple[int, int]:
    """A number as git packs it for offsets, and where the next byte is."""
    byte = content[position]
    position += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = content[position]
        position += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, position
