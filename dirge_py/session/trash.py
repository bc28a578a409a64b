"""Deleted sessions: kept for a week in a folder of their own, and brought back from there."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.journal import Clock
from dirge_py.session.lock import WriterLock
from dirge_py.session.names import check_session_id
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError

KEPT = timedelta(days=7)

_NAME = re.compile(r"(\d{8})-(.+)")
_JOURNAL = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A session in the trash. `on` is the day (UTC) it was put there."""

    session_id: str
    on: date
    path: Path


class Trash:
    """What was deleted: `<state_dir>/trash/<date>-<project>-<id>/` with the files as they were.

    Moving is renaming, so a session is whole in one place or, after a crash in between, has its
    journal in the trash and can be brought back all the same.
    """

    def __init__(self, state_dir: Path, *, clock: Clock = time.time) -> None:
        self._folder = state_dir / "trash"
        self._clock = clock

    def put(self, store: Store, session_id: str) -> Path:
        """Move all that belongs to the session here; returns its folder.

        Raises:
            SessionBusy: another process writes it.
            SessionError: it is not there, or cannot be moved.
        """
        lock = WriterLock.acquire(store.folder / f"{check_session_id(session_id)}.lock")
        try:
            paths = store.paths_of(session_id)
            if not paths:
                raise SessionError(f"This project has no session {session_id!r}.")
            target = self._new_folder(f"{self._today():%Y%m%d}-{store.folder.name}-{session_id}")
            for path in paths:
                path.rename(target / path.name)
            return target
        except OSError as error:
            raise SessionError(
                f"Session {session_id} cannot be moved to {str(self._folder)!r}: {error.strerror}.",
                hint="Make the state folder writable.",
            ) from error
        finally:
            lock.release()

    def take_back(self, store: Store, name: str) -> str:
        """Put the session deleted last that `name` begins back; returns its id.

        Raises:
            SessionError: there is none, several fit, or its place is taken.
        """
        found = self._find(store, name)
        lock = WriterLock.acquire(store.folder / f"{found.session_id}.lock")
        try:
            if os.path.lexists(store.folder / f"{found.session_id}{_JOURNAL}"):
                raise SessionError(
                    f"There is a session {found.session_id} again.",
                    hint=f"The deleted one is in {str(found.path)!r}.",
                )
            # The journal last: with it the session is there.
            for path in sorted(found.path.iterdir(), key=lambda path: path.suffix == _JOURNAL):
                path.rename(store.folder / path.name)
            found.path.rmdir()
        except OSError as error:
            raise SessionError(
                f"Session {found.session_id} cannot be brought back: {error.strerror}.",
                hint=f"Its files are in {str(found.path)!r}.",
            ) from error
        finally:
            lock.release()
        return found.session_id

    def of(self, project: str) -> Sequence[Deleted]:
        """What was deleted from this project, the latest first."""
        found = [deleted for path in self._entries() if (deleted := _read(path, project))]
        return sorted(found, key=lambda one: (one.on, one.path.name), reverse=True)

    def empty_old(self) -> None:
        """Remove for good what has been here for more than a week."""
        oldest = self._today() - KEPT
        for path in self._entries():
            day = _day(path)
            if day is not None and day < oldest:
                shutil.rmtree(path, ignore_errors=True)

    def _find(self, store: Store, name: str) -> Deleted:
        check_session_id(name)
        here = self.of(store.folder.name)
        fitting = (
            [one for one in here if one.session_id == name]
            or [one for one in here if one.session_id.startswith(name)]
            or [one for one in here if one.session_id.partition("-")[2].startswith(name)]
        )
        if not fitting:
            raise SessionError(f"No deleted session of this project is called {name!r}.")
        ids = sorted({one.session_id for one in fitting})
        if len(ids) > 1:
            raise SessionError(
                f"{name!r} fits {len(ids)} deleted sessions: {', '.join(ids[:5])}.",
                hint="Type more of the id.",
            )
        return fitting[0]

    def _entries(self) -> Sequence[Path]:
        try:
            return [path for path in self._folder.iterdir() if not path.is_symlink()]
        except OSError:
            return []

    def _new_folder(self, name: str) -> Path:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        number = 1
        while True:
            # The same id may be deleted, made again and deleted again within a day.
            path = self._folder / (name if number == 1 else f"{name}.{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                return path
            number += 1

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock(), UTC).date()


def _read(path: Path, project: str) -> Deleted | None:
    day, name = _day(path), _NAME.fullmatch(path.name)
    if day is None or name is None:
        return None
    try:
        journals = [each.name for each in path.iterdir() if each.name.endswith(_JOURNAL)]
    except OSError:
        return None
    # Names of projects and ids both hold hyphens; the journal tells them apart.
    ids = [journal.removesuffix(_JOURNAL) for journal in journals]
    rest = re.sub(r"\.\d+$", "", name[2])
    fitting = [each for each in ids if f"{project}-{each}" in (name[2], rest)]
    return Deleted(session_id=fitting[0], on=day, path=path) if fitting else None


def _day(path: Path) -> date | None:
    name = _NAME.fullmatch(path.name)
    try:
        return datetime.strptime(name[1], "%Y%m%d").date() if name else None
    except ValueError:
        return None
