"""The searchable index of all sessions: an SQLite database, and only a cache of the journals.

SQLite itself detects few kinds of damage, so a checksum of the whole file is stored beside it. A
file that doesn't match is deleted, not repaired, because the journals hold everything.
"""

import contextlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import normalize

from dirge_py.lib.file_lock import hold_lock
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.index.sources import (
    DaySpending,
    FileMarks,
    SessionSummary,
    SessionTotals,
    are_unchanged,
    damaged_sessions,
    decode_marks,
    list_sessions,
    newest_first,
    read_appended,
    read_whole,
    searchable_texts,
    sessions_in,
)
from dirge_py.session.record import Record
from dirge_py.types.errors import UsageError

if TYPE_CHECKING:
    import sqlite3

MATCHES_PER_SESSION = 3
"""How many matches of one session a search shows."""
_WORD = late_pattern(r"[^\W_]+")
_CHARS_BEFORE_MATCH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMatch:
    """A text of a session that contains all words of a search."""

    project: str
    """The name of the project's session folder."""
    session_id: str
    """The id of the session."""
    seq: int
    """The number of the record."""
    at: str
    """When the record was written (ISO 8601)."""
    kind: str
    """The kind of text: prompt, answer, call, result, title or summary."""
    snippet: str
    """The words around the match, on one line."""
    matches: tuple[tuple[int, int], ...] = ()
    """The spans of the matches in `snippet`."""


class SearchQuery:
    """Words that must all occur in one text, each as the prefix of a word; `a.b` finds `a b`.

    Raises UsageError: the words hold neither letters nor digits.
    """

    def __init__(self, words: Sequence[str]) -> None:
        phrases = [_WORD.findall(part) for word in words for part in word.split()]
        phrases = [phrase for phrase in phrases if phrase]
        if not phrases:
            raise UsageError("the search has no words.", hint="Give words with letters in them.")
        self.fts5 = " AND ".join('"' + " ".join(phrase) + '" *' for phrase in phrases)
        """The query in the syntax of SQLite's full-text search."""
        self._patterns = [
            re.compile(
                r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, phrase)) + r"[^\W_]*", re.IGNORECASE
            )
            for phrase in phrases
        ]

    def matches(self, text: str) -> bool:
        """Check whether all the words occur in the text."""
        plain = _without_diacritics(text)
        return all(pattern.search(plain) for pattern in self._patterns)

    def match(self, text: str, **place: Any) -> SearchMatch:
        """Return the match in `text`; `place` are the other fields of it."""
        plain = _without_diacritics(text)
        spans = sorted(match.span() for p in self._patterns for match in p.finditer(plain))
        first = spans[0][0] if spans else 0
        start = max(0, first - _CHARS_BEFORE_MATCH)
        end = min(len(text), first + 2 * _CHARS_BEFORE_MATCH)
        before = "…" if start else ""
        snippet = before + text[start:end] + ("…" if end < len(text) else "")
        matches, at, shift = [], start, len(before) - start
        for begin, stop in spans:
            if at <= begin and stop <= end:
                matches.append((begin + shift, stop + shift))
                at = stop
        return SearchMatch(**place, snippet=snippet, matches=tuple(matches))


def _without_diacritics(text: str) -> str:
    """Return the text of the same length in which `é` is an `e`, as the index stores it."""
    return text if text.isascii() else "".join(normalize("NFD", char)[0] for char in text)


INDEX_NAME = "index.sqlite"
_VERSION = 4
_SUFFIXES = ("", "-wal", "-shm", "-journal", ".sum")
_CHUNK_BYTES = 1 << 20
_TABLES = """
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, project TEXT NOT NULL, id TEXT NOT NULL, updated TEXT NOT NULL,
    files TEXT NOT NULL, tally TEXT NOT NULL, UNIQUE (project, id));
CREATE TABLE texts (
    key INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, at TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX texts_of_session ON texts (session);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = 'texts', content_rowid = 'key', tokenize = 'unicode61 remove_diacritics 2');
"""


def _sqlite() -> Any:
    """Return the module, which some Pythons are built without."""
    return import_module("sqlite3")


def _index_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of an unusable index; all others are bugs or errors of the disk."""
    return (_sqlite().Error, ValueError, TypeError, LookupError)


@contextlib.contextmanager
def open_database(path: Path) -> Iterator["sqlite3.Connection"]:
    """A connection, committed at the end of the block.

    Raises ValueError: the index is damaged or of another version; OSError, ImportError.
    """
    sqlite = _sqlite()
    is_new = not path.exists()
    stored = Path(f"{path}.sum")
    if not is_new and not (stored.exists() and stored.read_bytes() == _checksum_of(path)):
        raise ValueError("the index doesn't match its checksum")
    # Create it here, so that other users can never read it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection: sqlite3.Connection = sqlite.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        if is_new:
            connection.executescript(_TABLES)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            raise ValueError("the index has another version")
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        has_changed = is_new or connection.total_changes != before
    finally:
        connection.close()
    if has_changed:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(stored, flags, 0o600), "wb") as file:
            file.write(_checksum_of(path))


def remove_database(path: Path) -> None:
    """Delete the index. Raises OSError."""
    for suffix in _SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _checksum_of(path: Path) -> bytes:
    total = size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_CHUNK_BYTES):
            total, size = zlib.crc32(piece, total), size + len(piece)
    return b"%d %08x\n" % (size, total)


class IndexTables:
    """The index within one transaction."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._execute = connection.execute
        self._insert = connection.executemany

    def update_project(self, project: str, folder: Path) -> None:
        """Update one project from the journals in `folder`, reading only new records."""
        now = sessions_in(folder)
        known = {
            session_id: (key, decode_marks(files), tally)
            for key, session_id, files, tally in self._execute(
                "SELECT key, id, files, tally FROM sessions WHERE project = ?", (project,)
            ).fetchall()
        }
        for session_id in known.keys() - now.keys():
            self._delete(known[session_id][0])
        for session_id, marks in now.items():
            key, before, stored = known.get(session_id, (None, (), ""))
            if key is not None and are_unchanged(before, marks):
                continue
            totals = SessionTotals.from_json(json.loads(stored)) if stored else SessionTotals()
            try:
                added = read_appended(folder, before, marks, last_seq=totals.last_seq)
                if added is None:
                    found, marks = read_whole(folder, marks)
                    added = found.records, marks
                    is_damaged = len(found.damage) > (found.torn_at is not None)
                    totals = SessionTotals(is_damaged=is_damaged)
                    if key is not None:
                        self._delete(key)
            except OSError:
                continue  # deleted meanwhile, or unreadable: don't list it
            self._add(key, project, session_id, totals, *added)

    def sessions(self, projects: Sequence[str]) -> list[SessionSummary]:
        """The sessions of these projects, unordered."""
        rows = self._execute(
            f"SELECT project, id, files, tally FROM sessions WHERE {_among(projects)}", projects
        )
        return [
            SessionTotals.from_json(json.loads(tally)).summary(
                project, session_id, decode_marks(files)
            )
            for project, session_id, files, tally in rows
        ]

    def spending(self, projects: Sequence[str]) -> list[DaySpending]:
        """What the requests of these projects cost, unordered."""
        rows = self._execute(f"SELECT tally FROM sessions WHERE {_among(projects)}", projects)
        totals = (SessionTotals.from_json(json.loads(tally)) for (tally,) in rows)
        return [spent for each in totals for spent in each.spending_by_day()]

    def search(self, query: SearchQuery, projects: Sequence[str], limit: int) -> list[SearchMatch]:
        """The newest matches of the `limit` sessions used last."""
        places: Counter[int] = Counter()
        answer = []
        for key, session, project, session_id, seq, at, kind in self._execute(
            "SELECT texts.key, texts.session, project, id, seq, at, kind FROM texts"
            " JOIN sessions ON sessions.key = texts.session"
            " JOIN words ON words.rowid = texts.key"
            f" WHERE words MATCH ? AND {_among(projects)}"
            " ORDER BY updated DESC, id DESC, project, seq DESC, texts.key DESC",
            (query.fts5, *projects),
        ).fetchall():
            if session not in places and len(places) == limit:
                break
            places[session] += 1
            if places[session] <= MATCHES_PER_SESSION:
                (text,) = self._execute("SELECT text FROM texts WHERE key = ?", (key,)).fetchone()
                place = {"project": project, "session_id": session_id, "seq": seq, "at": at}
                answer.append(query.match(str(text), kind=kind, **place))
        return answer

    def newest(self, project: str, kinds: Collection[str], limit: int) -> list[SearchMatch]:
        """The newest texts of these kinds, whole, the newest first."""
        rows = self._execute(
            "SELECT id, seq, at, kind, text FROM texts JOIN sessions"
            " ON sessions.key = texts.session WHERE project = ?"
            f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY at DESC, seq DESC LIMIT ?",
            (project, *kinds, limit),
        )
        return [
            SearchMatch(
                project=project, session_id=session_id, seq=seq, at=at, kind=kind, snippet=text
            )
            for session_id, seq, at, kind, text in rows
        ]

    def _delete(self, key: int) -> None:
        # FTS5 deletes a row only if given the same text that it has indexed.
        self._execute(
            "INSERT INTO words (words, rowid, text)"
            " SELECT 'delete', key, text FROM texts WHERE session = ?",
            (key,),
        )
        self._execute("DELETE FROM texts WHERE session = ?", (key,))
        self._execute("DELETE FROM sessions WHERE key = ?", (key,))

    def _add(
        self,
        key: int | None,
        project: str,
        session_id: str,
        totals: SessionTotals,
        records: Sequence[Record],
        marks: FileMarks,
    ) -> None:
        """Add `records` to the session with this key, or to a new one (None)."""
        for record in records:
            totals.add(record)
        updated = totals.summary(project, session_id, marks).updated.isoformat()
        key = self._execute(
            "INSERT OR REPLACE INTO sessions (key, updated, files, tally, project, id)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (key, updated, json.dumps(marks), totals.as_json(), project, session_id),
        ).lastrowid
        (last,) = self._execute("SELECT coalesce(max(key), 0) FROM texts").fetchone()
        texts = ((record, text) for record in records for text in searchable_texts(record))
        rows = [
            (number, key, record.seq, record.ts, *text)
            for number, (record, text) in enumerate(texts, start=last + 1)
        ]
        self._insert(
            "INSERT INTO texts (key, session, seq, at, kind, text) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        words = [(row[0], row[-1]) for row in rows]
        self._insert("INSERT INTO words (rowid, text) VALUES (?, ?)", words)


def _among(projects: Sequence[str]) -> str:
    return f"project IN ({', '.join('?' * len(projects))})"


Answer = TypeVar("Answer")
_REBUILD = "`dirge sessions reindex` rebuilds it, if there is space on the disk."
_LOCK_TIMEOUT_S = 10.0
"""How long to wait for other processes, which hold the index only for one query."""


class SessionIndex:
    """The index of all projects in `state_dir`, for queries about one of them or all.

    Each query first reads the new records of the journals, one process at a time. A broken index is
    deleted and rebuilt; if that fails, the journals answer the query, and costs stay unknown.
    """

    def __init__(self, state_dir: Path, project: str) -> None:
        self._folder = state_dir / "sessions"
        self._path = state_dir / INDEX_NAME
        self._lock = state_dir / "index.lock"
        self._project = project

    def sessions(self, *, everywhere: bool = False) -> list[SessionSummary]:
        """The sessions of this project, or of all projects, the most recently used first."""
        projects = self._projects(everywhere=everywhere)
        found = self._query(projects, lambda tables: tables.sessions(projects))
        if found is None:
            return self._list_journals(projects)
        damaged = {project: damaged_sessions(self._folder / project) for project in projects}
        return newest_first(
            replace(session, is_damaged=True) if session.id in damaged[session.project] else session
            for session in found
        )

    def search(
        self, words: Sequence[str], *, everywhere: bool = False, limit: int = 20
    ) -> list[SearchMatch]:
        """The newest texts with all the words: up to three in each of the newest `limit` sessions.

        Each word matches as a prefix. Raises UsageError: they hold neither letters nor digits.
        """
        query = SearchQuery(words)
        projects = self._projects(everywhere=everywhere)
        found = self._query(projects, lambda tables: tables.search(query, projects, limit))
        if found is not None:
            return found
        journals = (self._matches_in_journal(query, s) for s in self._list_journals(projects))
        return [match for found in islice(filter(None, journals), limit) for match in found]

    def spending(self, *, everywhere: bool = True) -> list[DaySpending]:
        """What requests cost, by session, day and model. Raises UsageError: there is no index."""
        projects = self._projects(everywhere=everywhere)
        found = self._query(projects, lambda tables: tables.spending(projects))
        if found is None and any((self._folder / project).is_dir() for project in projects):
            raise UsageError("the session index cannot be used.", hint=_REBUILD)
        return found or []

    def newest_texts(self, kinds: Collection[str], limit: int) -> list[SearchMatch]:
        """The newest whole texts of these kinds in this project, as `snippet`s, the newest first.

        Raises UsageError: the index can't be used.
        """
        texts = self._query(
            [self._project], lambda tables: tables.newest(self._project, kinds, limit)
        )
        if texts is None and (self._folder / self._project).is_dir():
            raise UsageError("the session index cannot be used.", hint=_REBUILD)
        return texts or []

    def rebuild(self) -> int | None:
        """Rebuild the index of all projects; returns the number of sessions, None if it failed."""
        projects = self._projects(everywhere=True)
        return self._query(projects, lambda tables: len(tables.sessions(projects)), anew=True)

    def _projects(self, *, everywhere: bool) -> Sequence[str]:
        if everywhere:
            return sorted(path.name for path in self._folder.glob("*/"))
        return [self._project]

    def _query(
        self, projects: Sequence[str], ask: Callable[[IndexTables], Answer], *, anew: bool = False
    ) -> Answer | None:
        """The answer, after a failure from a rebuilt index; None if that fails, too."""
        if not anew and not any((self._folder / project).is_dir() for project in projects):
            return None
        with contextlib.suppress(OSError, ImportError), hold_lock(self._lock, _LOCK_TIMEOUT_S):
            for is_new in (anew, True):
                if is_new:
                    remove_database(self._path)
                with contextlib.suppress(*_index_errors()):
                    return self._answer(projects, ask)
        return None

    def _answer(self, projects: Sequence[str], ask: Callable[[IndexTables], Answer]) -> Answer:
        with open_database(self._path) as connection:
            tables = IndexTables(connection)
            for project in projects:
                tables.update_project(project, self._folder / project)
            return ask(tables)

    def _list_journals(self, projects: Sequence[str]) -> list[SessionSummary]:
        return newest_first(
            summary for project in projects for summary in list_sessions(self._folder / project)
        )

    def _matches_in_journal(self, query: SearchQuery, session: SessionSummary) -> list[SearchMatch]:
        folder = self._folder / session.project
        marks = sessions_in(folder).get(session.id)
        try:
            records = read_whole(folder, marks)[0].records if marks else []
        except OSError:
            return []
        place = {"project": session.project, "session_id": session.id}
        matches = [
            query.match(text, kind=kind, seq=record.seq, at=record.ts, **place)
            for record in records
            for kind, text in searchable_texts(record)
            if query.matches(text)
        ]
        return matches[::-1][:MATCHES_PER_SESSION]
