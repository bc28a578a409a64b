"""The SQLite file of the index: opened only as it was left, and thrown away otherwise.

SQLite itself notices few kinds of damage, so a checksum of the whole file lies beside it. What does
not fit it is not mended but deleted: the journals say everything again.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

NAME = "index.sqlite"
_VERSION = 2
_BESIDE = ("", "-wal", "-shm", "-journal", ".sum")
_PIECE = 1 << 20

_TABLES = """
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, project TEXT NOT NULL, id TEXT NOT NULL, updated TEXT NOT NULL,
    files TEXT NOT NULL, tally TEXT NOT NULL, UNIQUE (project, id));
CREATE TABLE texts (
    key INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, at TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX texts_of_session ON texts (session);
"""
_WORDS = """
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = 'texts', content_rowid = 'key', tokenize = 'unicode61 remove_diacritics 2');
"""

# There WAL has lost data, as it needs memory shared by all who have the file open.
_OVER_THE_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs")
)


class Stale(Exception):
    """The file is not as it was left, or of another version."""


def errors() -> tuple[type[Exception], ...]:
    """What says that the index cannot be trusted; everything else is a bug or the disk's."""
    return (Stale, import_module("sqlite3").Error, ValueError, TypeError, LookupError)


@contextlib.contextmanager
def opened(path: Path) -> Iterator["sqlite3.Connection"]:
    """A connection that is written back, and its checksum kept, when the block ends well.

    Raises:
        Stale: what is there cannot be used; see `remove`.
        OSError: the folder cannot be written.
        ImportError: this Python has no SQLite.
    """
    sqlite: Any = import_module("sqlite3")
    is_new = not path.exists()
    if not is_new and _sum_of(path) != _kept_sum(path):
        raise Stale
    # Made here, so that it is closed to others from its first byte.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection: sqlite3.Connection = sqlite.connect(path, isolation_level=None)
    try:
        _prepare(connection, path, is_new=is_new)
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        has_changed = is_new or connection.total_changes != before
        connection.execute("PRAGMA wal_checkpoint (TRUNCATE)")
    finally:
        connection.close()
    if has_changed:
        _keep_sum(path)


def remove(path: Path) -> None:
    """Delete the index. Raises OSError."""
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def has_words(connection: "sqlite3.Connection") -> bool:
    """Whether there is a full-text index; Python may have been built without."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone())


def _prepare(connection: "sqlite3.Connection", path: Path, *, is_new: bool) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    mode = "DELETE" if is_over_the_network(path) else "WAL"
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = NORMAL")
    if is_new:
        connection.executescript(_TABLES)
        with contextlib.suppress(import_module("sqlite3").OperationalError):
            connection.executescript(_WORDS)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        raise Stale


def is_over_the_network(path: Path, mounts: str | None = None) -> bool:
    """Whether `path` lies on a network file system, as far as /proc tells (None: read it)."""
    try:
        table = mounts if mounts is not None else Path("/proc/self/mounts").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    real = os.path.realpath(path)
    best, kind = "", ""
    for row in table.splitlines():
        fields = row.split(" ")
        if len(fields) < 3:
            continue
        place = fields[1].replace("\\040", " ")
        is_around = place == "/" or real == place or real.startswith(place + "/")
        if is_around and len(place) >= len(best):
            best, kind = place, fields[2]
    return kind in _OVER_THE_NETWORK


def _sum_of(path: Path) -> bytes:
    total = size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            total, size = zlib.crc32(piece, total), size + len(piece)
    return b"%d %08x\n" % (size, total)


def _kept_sum(path: Path) -> bytes | None:
    try:
        return Path(f"{path}.sum").read_bytes()
    except FileNotFoundError:
        return None


def _keep_sum(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{path}.sum", flags, 0o600)
    try:
        os.write(fd, _sum_of(path))
    finally:
        os.close(fd)
