"""The rows of the index: sessions and their texts, taken in from journals and asked for."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.session.index.database import has_words
from dirge_py.session.index.results import PER_SESSION, Found, IndexedSession, found, from_tally
from dirge_py.session.index.sources import (
    Marks,
    are_as,
    marks_as_text,
    marks_from_text,
    read_appended,
    read_whole,
    sessions_in,
)
from dirge_py.session.index.tally import Tally, texts_of
from dirge_py.session.index.words import MARK, UNMARK, Query
from dirge_py.session.record import Record

if TYPE_CHECKING:
    import sqlite3

_SNIPPET_WORDS = 24
_PLACES = (
    "SELECT texts.key, texts.session, project, id, seq, at, kind FROM texts"
    " JOIN sessions ON sessions.key = texts.session"
)
_NEWEST_FIRST = "ORDER BY updated DESC, id DESC, project, seq DESC, texts.key DESC"


class Content:
    """The index within one transaction."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._ask = connection.execute
        self._insert = connection.executemany
        self._has_words = has_words(connection)

    def take_in(self, project: str, folder: Path) -> None:
        """Bring one project up to date with the journals in `folder`, reading only what is new."""
        now = sessions_in(folder)
        known = {
            session_id: (key, marks_from_text(files), tally)
            for key, session_id, files, tally in self._ask(
                "SELECT key, id, files, tally FROM sessions WHERE project = ?", (project,)
            ).fetchall()
        }
        for session_id in known.keys() - now.keys():
            self._forget(known[session_id][0])
        for session_id, marks in now.items():
            key, before, told = known.get(session_id, (None, (), ""))
            if key is not None and are_as(before, marks):
                continue
            tally = Tally.from_json(json.loads(told)) if told else Tally()
            try:
                added = read_appended(folder, before, marks, last_seq=tally.last_seq)
                whole = read_whole(folder, marks) if added is None else None
            except OSError:
                continue  # gone meanwhile, or not for us: then it is not listed either
            if whole is not None:
                if key is not None:
                    self._forget(key)
                key, tally, added = None, Tally(), (whole[0].records, whole[1])
            if added is not None:
                self._put(key, project, session_id, tally, *added)

    def sessions(self, projects: Sequence[str]) -> list[IndexedSession]:
        """The sessions of these projects, in no order."""
        rows = self._ask(
            f"SELECT project, id, files, tally FROM sessions WHERE {_among(projects)}", projects
        )
        return [
            from_tally(project, session_id, Tally.from_json(json.loads(tally)), marks_from_text(f))
            for project, session_id, f, tally in rows
        ]

    def search(self, query: Query, projects: Sequence[str], limit: int) -> list[Found]:
        """The newest places in each of the `limit` sessions that were used last."""
        hits = self._hits(query, projects) if self._has_words else self._fitting(query, projects)
        places: Counter[int] = Counter()
        answer = []
        for key, session, project, session_id, seq, at, kind in hits:
            if session not in places and len(places) == limit:
                break
            places[session] += 1
            if places[session] <= PER_SESSION:
                marked = self._snippet(query, key)
                answer.append(found(project, session_id, seq=seq, at=at, kind=kind, marked=marked))
        return answer

    def _hits(self, query: Query, projects: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        return self._ask(
            f"{_PLACES} JOIN words ON words.rowid = texts.key"
            f" WHERE words MATCH ? AND {_among(projects)} {_NEWEST_FIRST}",
            (query.fts5, *projects),
        ).fetchall()

    def _fitting(self, query: Query, projects: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for place in self._ask(f"{_PLACES} WHERE {_among(projects)} {_NEWEST_FIRST}", projects):
            if query.fits(self._text(place[0])):
                yield place

    def _snippet(self, query: Query, key: int) -> str:
        if not self._has_words:
            return query.cut(self._text(key))
        (snippet,) = self._ask(
            "SELECT snippet(words, 0, ?, ?, '…', ?) FROM words WHERE words MATCH ? AND rowid = ?",
            (MARK, UNMARK, _SNIPPET_WORDS, query.fts5, key),
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
        tally: Tally,
        records: Sequence[Record],
        marks: Marks,
    ) -> None:
        """Write what `records` add to the session of this key (None: to a new one)."""
        for record in records:
            tally.take(record)
        updated = from_tally(project, session_id, tally, marks).updated.isoformat()
        row = (updated, marks_as_text(marks), tally.as_json())
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
            for text in texts_of(record)
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
