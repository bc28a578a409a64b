"""The SQLite database of the index: sessions and their texts.

It is opened only as it was left. SQLite itself notices few kinds of damage, so a checksum of the
whole file lies beside it. What does not match is deleted, not repaired: journals hold everything.
"""

import contextlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.session.index.results import (
    MATCH_BEGIN,
    MATCH_END,
    MATCHES_PER_SESSION,
    IndexedSession,
    SearchMatch,
    SearchQuery,
    search_match,
    session_from_totals,
)
from dirge_py.session.index.sources import (
    FileMarks,
    SessionTotals,
    are_unchanged,
    decode_marks,
    encode_marks,
    read_appended,
    read_whole,
    searchable_texts,
    sessions_in,
)
from dirge_py.session.record import Record

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


class StaleIndex(Exception):
    """The file is not as it was left, or of another version."""


def _sqlite() -> Any:
    """The module `sqlite3`; only a search needs it, and a Python may be built without it."""
    return import_module("sqlite3")


def index_errors() -> tuple[type[Exception], ...]:
    """What says that the index cannot be trusted; everything else is a bug or the disk's."""
    return (StaleIndex, _sqlite().Error, ValueError, TypeError, LookupError)


@contextlib.contextmanager
def open_database(path: Path) -> Iterator["sqlite3.Connection"]:
    """A connection that is written back, and its checksum kept, when the block ends well.

    Raises:
        Stale: what is there cannot be used; see `remove_database`.
        OSError: the folder cannot be written.
        ImportError: this Python has no SQLite.
    """
    sqlite = _sqlite()
    is_new = not path.exists()
    if not is_new and _checksum_of(path) != _stored_checksum(path):
        raise StaleIndex
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
        _store_checksum(path)


def remove_database(path: Path) -> None:
    """Delete the index. Raises OSError."""
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def has_full_text_search(connection: "sqlite3.Connection") -> bool:
    """Whether there is a full-text index; Python may have been built without."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone())


def _prepare(connection: "sqlite3.Connection", path: Path, *, is_new: bool) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    mode = "DELETE" if is_over_the_network(path) else "WAL"
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = NORMAL")
    if is_new:
        connection.executescript(_TABLES)
        with contextlib.suppress(_sqlite().OperationalError):
            connection.executescript(_WORDS)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        raise StaleIndex


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


def _checksum_of(path: Path) -> bytes:
    total = size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            total, size = zlib.crc32(piece, total), size + len(piece)
    return b"%d %08x\n" % (size, total)


def _stored_checksum(path: Path) -> bytes | None:
    try:
        return Path(f"{path}.sum").read_bytes()
    except FileNotFoundError:
        return None


def _store_checksum(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{path}.sum", flags, 0o600)
    try:
        os.write(fd, _checksum_of(path))
    finally:
        os.close(fd)


_SNIPPET_WORDS = 24
_PLACES = (
    "SELECT texts.key, texts.session, project, id, seq, at, kind FROM texts"
    " JOIN sessions ON sessions.key = texts.session"
)
_NEWEST_FIRST = "ORDER BY updated DESC, id DESC, project, seq DESC, texts.key DESC"


class IndexTables:
    """The index within one transaction."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._ask = connection.execute
        self._insert = connection.executemany
        self._has_words = has_full_text_search(connection)

    def take_in(self, project: str, folder: Path) -> None:
        """Bring one project up to date with the journals in `folder`, reading only what is new."""
        now = sessions_in(folder)
        known = {
            session_id: (key, decode_marks(files), tally)
            for key, session_id, files, tally in self._ask(
                "SELECT key, id, files, tally FROM sessions WHERE project = ?", (project,)
            ).fetchall()
        }
        for session_id in known.keys() - now.keys():
            self._forget(known[session_id][0])
        for session_id, marks in now.items():
            key, before, told = known.get(session_id, (None, (), ""))
            if key is not None and are_unchanged(before, marks):
                continue
            tally = SessionTotals.from_json(json.loads(told)) if told else SessionTotals()
            try:
                added = read_appended(folder, before, marks, last_seq=tally.last_seq)
                whole = read_whole(folder, marks) if added is None else None
            except OSError:
                continue  # gone meanwhile, or not for us: then it is not listed either
            if whole is not None:
                if key is not None:
                    self._forget(key)
                key, tally, added = None, SessionTotals(), (whole[0].records, whole[1])
            if added is not None:
                self._put(key, project, session_id, tally, *added)

    def sessions(self, projects: Sequence[str]) -> list[IndexedSession]:
        """The sessions of these projects, in no order."""
        rows = self._ask(
            f"SELECT project, id, files, tally FROM sessions WHERE {_among(projects)}", projects
        )
        return [
            session_from_totals(
                project, session_id, SessionTotals.from_json(json.loads(tally)), decode_marks(f)
            )
            for project, session_id, f, tally in rows
        ]

    def search(self, query: SearchQuery, projects: Sequence[str], limit: int) -> list[SearchMatch]:
        """The newest places in each of the `limit` sessions that were used last."""
        hits = self._hits(query, projects) if self._has_words else self._fitting(query, projects)
        places: Counter[int] = Counter()
        answer = []
        for key, session, project, session_id, seq, at, kind in hits:
            if session not in places and len(places) == limit:
                break
            places[session] += 1
            if places[session] <= MATCHES_PER_SESSION:
                marked = self._snippet(query, key)
                answer.append(
                    search_match(project, session_id, seq=seq, at=at, kind=kind, marked=marked)
                )
        return answer

    def _hits(self, query: SearchQuery, projects: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        return self._ask(
            f"{_PLACES} JOIN words ON words.rowid = texts.key"
            f" WHERE words MATCH ? AND {_among(projects)} {_NEWEST_FIRST}",
            (query.fts5, *projects),
        ).fetchall()

    def _fitting(self, query: SearchQuery, projects: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for place in self._ask(f"{_PLACES} WHERE {_among(projects)} {_NEWEST_FIRST}", projects):
            if query.fits(self._text(place[0])):
                yield place

    def _snippet(self, query: SearchQuery, key: int) -> str:
        if not self._has_words:
            return query.cut(self._text(key))
        (snippet,) = self._ask(
            "SELECT snippet(words, 0, ?, ?, '…', ?) FROM words WHERE words MATCH ? AND rowid = ?",
            (MATCH_BEGIN, MATCH_END, _SNIPPET_WORDS, query.fts5, key),
        ).fetchone()
        return str(snippet)

    def _text(self, key: int) -> str:
        (text,) = self._ask("SELECT text FROM texts WHERE key = ?", (key,)).fetchone()
        return str(text)

    def _forget(self, key: int) -> None:
        if self._has_words:
            # FTS5 has to be told the very texts it is to forget.
            self._ask(
                "INSERT INTO words (words, rowid, text)"
                " SELECT 'delete', key, text FROM texts WHERE session = ?",
                (key,),
            )
        self._ask("DELETE FROM texts WHERE session = ?", (key,))
        self._ask("DELETE FROM sessions WHERE key = ?", (key,))

    def _put(
        self,
        key: int | None,
        project: str,
        session_id: str,
        tally: SessionTotals,
        records: Sequence[Record],
        marks: FileMarks,
    ) -> None:
        """Write what `records` add to the session of this key (None: to a new one)."""
        for record in records:
            tally.take(record)
        updated = session_from_totals(project, session_id, tally, marks).updated.isoformat()
        row = (updated, encode_marks(marks), tally.as_json())
        if key is None:
            names = (project, session_id)
            key = self._ask(
                "INSERT INTO sessions (updated, files, tally, project, id) VALUES (?, ?, ?, ?, ?)",
                (*row, *names),
            ).lastrowid
            assert key is not None
        else:
            self._ask(
                "UPDATE sessions SET updated = ?, files = ?, tally = ? WHERE key = ?", (*row, key)
            )
        self._put_texts(key, records)

    def _put_texts(self, session: int, records: Iterable[Record]) -> None:
        (last,) = self._ask("SELECT coalesce(max(key), 0) FROM texts").fetchone()
        texts = [
            (session, record.seq, record.ts, *text)
            for record in records
            for text in searchable_texts(record)
        ]
        keyed = list(zip(count(last + 1), texts, strict=False))
        self._insert(
            "INSERT INTO texts (key, session, seq, at, kind, text) VALUES (?, ?, ?, ?, ?, ?)",
            [(key, *row) for key, row in keyed],
        )
        if self._has_words:
            self._insert(
                "INSERT INTO words (rowid, text) VALUES (?, ?)",
                [(key, row[-1]) for key, row in keyed],
            )


def _among(projects: Sequence[str]) -> str:
    return f"project IN ({', '.join('?' * len(projects))})"
