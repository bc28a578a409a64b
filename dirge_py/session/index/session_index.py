"""The index of all sessions: which there are, what was said in them, what they cost."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dirge_py.lib.file_lock import hold_lock
from dirge_py.session.index import database
from dirge_py.session.index.database import IndexTables
from dirge_py.session.index.results import (
    MATCHES_PER_SESSION,
    IndexedSession,
    SearchMatch,
    SearchQuery,
    newest_first,
    read_query,
    search_match,
    session_from_summary,
)
from dirge_py.session.index.sources import read_whole, searchable_texts, sessions_in
from dirge_py.session.store import list_sessions

Answer = TypeVar("Answer")
Ask = Callable[[IndexTables], Answer]
_LOCK_TIMEOUT_S = 10.0
"""How long the others are waited for: nobody keeps the index for longer than one answer takes."""


class SessionIndex:
    """The index of all projects in `state_dir`, asked for one of them or for all.

    Each answer first takes in what the journals have got since; only that is read. One process at a
    time does so. Whatever is wrong with the index, it is thrown away and made again; where that
    cannot be done, the answers come from the journals themselves, and costs stay unknown.
    """

    def __init__(self, state_dir: Path, project: str) -> None:
        self._folder = state_dir / "sessions"
        self._path = state_dir / database.NAME
        self._lock = state_dir / "index.lock"
        self._project = project

    def sessions(self, *, everywhere: bool = False) -> list[IndexedSession]:
        """The sessions of this project, or `everywhere`, the last used first."""
        projects = self._projects(everywhere=everywhere)
        answer = self._ask(projects, lambda content: content.sessions(projects))
        return newest_first(self._listed(projects) if answer is None else answer)

    def search(
        self, words: Sequence[str], *, everywhere: bool = False, limit: int = 20
    ) -> list[SearchMatch]:
        """Where all the words occur in one text: up to three places in each of `limit` sessions.

        Each word is found as the beginning of a word. The sessions last used come first, and of
        each the newest places.

        Raises:
            UsageError: the words hold neither letters nor digits.
        """
        query = read_query(words)
        projects = self._projects(everywhere=everywhere)
        answer = self._ask(projects, lambda content: content.search(query, projects, limit))
        return self._scanned(query, projects, limit) if answer is None else answer

    def rebuild(self) -> int | None:
        """Make it anew, for all projects; how many sessions it has, None if it cannot be made."""
        projects = self._projects(everywhere=True)
        try:
            with hold_lock(self._lock, _LOCK_TIMEOUT_S):
                database.remove_database(self._path)
                return self._answer(projects, lambda content: len(content.sessions(projects)))
        except (OSError, ImportError):
            return None
        except database.index_errors():
            return None

    def _projects(self, *, everywhere: bool) -> Sequence[str]:
        if not everywhere:
            return [self._project]
        return sorted(path.name for path in self._folder.glob("*/"))

    def _ask(self, projects: Sequence[str], ask: Ask[Answer]) -> Answer | None:
        """The answer, at the second try from a new index; None where there can be none."""
        if not any((self._folder / project).is_dir() for project in projects):
            return None
        try:
            with hold_lock(self._lock, _LOCK_TIMEOUT_S):
                try:
                    return self._answer(projects, ask)
                except database.index_errors():
                    database.remove_database(self._path)
                    return self._answer(projects, ask)
        except (OSError, ImportError):
            return None
        except database.index_errors():
            return None

    def _answer(self, projects: Sequence[str], ask: Ask[Answer]) -> Answer:
        with database.open_database(self._path) as connection:
            content = IndexTables(connection)
            for project in projects:
                content.take_in(project, self._folder / project)
            return ask(content)

    def _listed(self, projects: Sequence[str]) -> list[IndexedSession]:
        return [
            session_from_summary(project, summary)
            for project in projects
            for summary in list_sessions(self._folder / project)
        ]

    def _scanned(
        self, query: SearchQuery, projects: Sequence[str], limit: int
    ) -> list[SearchMatch]:
        answer: list[SearchMatch] = []
        for one in newest_first(self._listed(projects)):
            places = self._places(query, one)
            answer += places
            limit -= bool(places)
            if limit == 0:
                break
        return answer

    def _places(self, query: SearchQuery, one: IndexedSession) -> list[SearchMatch]:
        folder = self._folder / one.project
        marks = sessions_in(folder).get(one.id)
        if marks is None:
            return []
        try:
            scan, _ = read_whole(folder, marks)
        except OSError:
            return []
        places = [
            search_match(
                one.project,
                one.id,
                seq=record.seq,
                at=record.ts,
                kind=kind,
                marked=query.cut(text),
            )
            for record in scan.records
            for kind, text in searchable_texts(record)
            if query.fits(text)
        ]
        return places[::-1][:MATCHES_PER_SESSION]
