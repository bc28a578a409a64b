"""The store of a project's sessions: creating, finding, listing, forking and deleting them.

Deleted sessions stay in a trash folder for a week, from which you can restore them.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.lib.file_lock import lock_holder
from dirge_py.lib.lazy import late_pattern
from dirge_py.session.history import LoadedSession, replay
from dirge_py.session.ids import check_session_id, ids_fitting, new_session_id, project_id
from dirge_py.session.index.sources import SessionSummary as SessionSummary
from dirge_py.session.index.sources import list_sessions, newest_session, sessions_in
from dirge_py.session.journal import END_OTHER, Clock, Journal, lock_session
from dirge_py.session.record import NO_RECORD, Record
from dirge_py.session.segments import (
    SegmentLimits,
    SessionFiles,
    folder_of,
    make_folders,
    read_segments,
    segment_numbers,
)
from dirge_py.session.tree import records_to_fork
from dirge_py.types.errors import SessionBusy, SessionElsewhere, SessionError
from dirge_py.types.outcomes import AwaitingConfirmation

if TYPE_CHECKING:
    from dirge_py.session.recovery import Continuation


_SHOWN_CANDIDATES = 5
_DEFAULT_LIMITS = SegmentLimits()


class Store:
    """The sessions of one project, in `<state_dir>/sessions/<project>/`.

    `<id>.jsonl` is the first segment of a session, `<id>/0002.jsonl` and so on are further ones
    (see `limits`); `<id>/blobs`, `<id>/assets` and `<id>/output` hold its large texts, pictures and
    relayed tool output. Only the owner can read the files. Folders are made when they are needed.
    """

    def __init__(
        self,
        state_dir: Path,
        project_root: Path,
        *,
        app_version: str = "",
        clock: Clock = time.time,
        limits: SegmentLimits = _DEFAULT_LIMITS,
    ) -> None:
        self._state_dir = state_dir
        self._project_root = project_root
        self._app_version = app_version
        self._clock = clock
        self._limits = limits
        self.folder = state_dir / "sessions" / project_id(project_root)

    @classmethod
    def of_folder(cls, state_dir: Path, project: str) -> "Store":
        """The store whose folder has this name, to read, rename or delete its sessions."""
        store = cls(state_dir, Path("/"))
        store.folder = state_dir / "sessions" / project
        return store

    def create(
        self, session_id: str | None = None, origin: Mapping[str, Any] | None = None
    ) -> Journal:
        """Create and lock a session, whose file appears with the first record.

        `origin` are further members of its header. Raises SessionError: the id is taken or invalid,
        or the state folder can't be written.
        """
        if session_id is not None:
            journal = self.open_or_create(session_id, origin)
            if journal.is_new:
                return journal
            journal.close()
            raise SessionError(
                f"Session {session_id} already exists.", hint="Open it, or choose another id."
            )
        while True:
            # Two processes that start at once may, rarely, generate the same id.
            with contextlib.suppress(SessionBusy):
                journal = self.open_or_create(new_session_id(self._clock()), origin)
                if journal.is_new:
                    return journal
                journal.close()

    def open(self, name: str, *, fork: bool = False) -> Journal:
        """Open a session (see `find`) for writing, or with `fork` a new one that continues it.

        Raises SessionBusy (never with `fork`), SessionElsewhere, or SessionError: none fits, or
        unreadable.
        """
        try:
            return self.fork(name) if fork else self._open(self.find(name))
        except SessionElsewhere as error:
            error.is_fork = fork
            raise

    def open_or_create(self, session_id: str, origin: Mapping[str, Any] | None = None) -> Journal:
        """Open the session with exactly this id; create it if there is none."""
        check_session_id(session_id)
        self._make_folder(self.folder)
        return self._open(session_id, origin)

    def read(self, name: str) -> LoadedSession:
        """Load a session without locking it or writing to it."""
        return replay(self.events_since(name, 0))

    def view(self, name: str) -> LoadedSession:
        """Load a session to show it, without lock or repair, even while another process writes it.

        The `notices` name that process. Raises SessionError: it isn't found, or can't be read.
        """
        loaded = replay(self.events_since(name, 0), notices=[self.why_only_to_look(name)])
        return replace(loaded, open_calls=())

    def why_only_to_look(self, name: str) -> str:
        """Why a viewed session accepts no prompts, and how to continue it. Raises as `find`."""
        session_id = self.find(name)
        writer = lock_holder(self._path(session_id).with_suffix(".lock"))
        why = (
            f"because process {writer} uses it"
            if writer
            else "because you opened it only to view it"
        )
        return (
            f"Session {session_id} is read-only {why}; `--fork-session` or /sessions continues it."
        )

    def paths_of(self, session_id: str) -> Sequence[Path]:
        """The files and folders of the session, but not its lock, which their remover holds."""
        first = self._path(check_session_id(session_id))
        belonging = (first, first.with_suffix(".damaged"), folder_of(first))
        return [path for path in belonging if os.path.lexists(path)]

    def rename(self, name: str, title: str) -> None:
        """Store a new title of a session. Raises as `open`."""
        try:
            journal = self.open(name)
        except SessionBusy as error:
            error.hint = END_OTHER
            raise
        try:
            journal.append("title", {"title": title}, sync=True)
        finally:
            journal.close()

    def read_files(self, name: str) -> SessionFiles:
        """Read all files of a session, with what is damaged or missing. Raises as `view`."""
        return read_segments(self._path(self.find(name)))

    def events_since(self, name: str, seen: int | str) -> Sequence[Record]:
        """The records after those that were seen, in order, even while another process writes.

        `seen` is the `journal_seq` of the last event, 0 for none, or the `event_id` of any event.
        Raises SessionError as `view`, or if no record belongs to that id.
        """
        records = self.read_files(name).scan.records
        if isinstance(seen, str):
            record_id = seen.partition(".")[0]
            seqs = {record.id: record.seq for record in records} | {NO_RECORD: 0}
            if record_id not in seqs:
                hint = "Read the session from the start: `events_since(name, 0)`."
                raise SessionError(f"session {name} has no event {seen!r}.", hint=hint)
            seen = seqs[record_id]
        return [record for record in records if record.seq > seen]

    def continuation(self, name: str) -> "Continuation":
        """The decision the session waits for. Raises SessionError: no such session or decision."""
        from dirge_py.session.recovery import continuation_of

        session_id = self.find(name)
        records = self.events_since(session_id, 0)
        return continuation_of(records, session_id=session_id, project=self.folder.name)

    def keep_continuation(self, name: str) -> Path:
        """Write the continuation to a new file in `continuations/`. Raises SessionError."""
        from dirge_py.session.recovery import save_continuation

        continuation = self.continuation(name)
        return save_continuation(continuation.as_json(), self._state_dir / "continuations")

    def fork(self, name: str, new_id: str | None = None, *, at: str | None = None) -> Journal:
        """Create a session with the records of `name` up to the record `at` (None: all).

        The original may be in use. Pictures are shared, not copied. Raises as `open` and `create`.
        """
        source = self.find(name)
        records = records_to_fork(self.read_files(source).scan.records, at)
        origin = {"forked_from": source, "forked_at": at or (records[-1].id if records else None)}
        journal = self.create(new_id, origin)
        try:
            for kind in ("assets", "blobs"):
                self._share(kind, source, journal.id)
            journal.adopt(records)
            journal.append("notice", {"content": f"Forked from {source}."}, sync=True)
        except BaseException:
            self.discard(journal.id)
            journal.close()
            raise
        return journal

    def discard(self, session_id: str) -> None:
        """Remove a session that this process has just made, and still holds."""
        for path in self.paths_of(session_id):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def find(self, name: str) -> str:
        """The id that `name` fits (see `ids_fitting`).

        Raises SessionElsewhere: one of another project fits; SessionError: none or several.
        """
        if segment_numbers(self._path(check_session_id(name))):
            return name
        ids = sorted(path.stem for path in self.folder.glob("*.jsonl"))
        fitting = ids_fitting(ids, name)
        if not fitting:
            self._find_elsewhere(name)
            raise SessionError(
                f"This project has no session {name!r}.",
                hint="`dirge sessions` lists its sessions.",
            )
        if len(fitting) > 1:
            shown = ", ".join(fitting[-_SHOWN_CANDIDATES:])
            older = len(fitting) - _SHOWN_CANDIDATES
            more = f" and {older} older" if older > 0 else ""
            raise SessionError(
                f"{name!r} matches {len(fitting)} sessions: {shown}{more}.",
                hint="Type more of the id.",
            )
        return fitting[0]

    def _find_elsewhere(self, name: str) -> None:
        """Raise SessionElsewhere if exactly one session of another project fits `name`."""
        files = {path.stem: path for path in self.folder.parent.glob("*/*.jsonl")}
        fitting = ids_fitting(sorted(files), name)
        if len(fitting) != 1:
            return
        folder = files[fitting[0]].parent.name
        summaries = Store.of_folder(self._state_dir, folder).list()
        cwd = next((summary.cwd for summary in summaries if summary.id == fitting[0]), "")
        if cwd:
            raise SessionElsewhere(fitting[0], cwd)

    def newest(self) -> SessionSummary | None:
        """The most recently used session of this project."""
        return newest_session(self.folder)

    def list(self, most: int | None = None) -> list[SessionSummary]:
        """The sessions of this project, the most recently used first; at most `most`."""
        return list_sessions(self.folder, most)

    def _open(self, session_id: str, origin: Mapping[str, Any] | None = None) -> Journal:
        root = str(self._project_root)
        header = {"cwd": root, "project_root": root, "app_version": self._app_version}
        header |= origin or {}
        return Journal(
            self._path(session_id), header=header, clock=self._clock, limits=self._limits
        )

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def _share(self, kind: str, source: str, target: str) -> None:
        owned = self.folder / source / kind
        if not owned.is_dir():
            return
        shared = self._make_folder(self.folder / target / kind)
        for file in owned.iterdir():
            if file.suffix == ".part":
                continue
            # These files never change, so hard links can share them where the disk has links.
            try:
                os.link(file, shared / file.name, follow_symlinks=False)
            except OSError:
                shutil.copyfile(file, shared / file.name, follow_symlinks=False)

    def _make_folder(self, folder: Path) -> Path:
        try:
            make_folders(folder)
        except OSError as error:
            raise SessionError(
                f"Cannot create the state folder {str(folder)!r}: {error.strerror}.",
                hint="Set DIRGE_STATE_DIR to a folder you can write, or use `--no-session`.",
            ) from error
        return folder


def continuation_reader(
    store: Store, session_id: str
) -> Callable[[AwaitingConfirmation], Mapping[str, Any]]:
    """A function that returns the continuation of a waiting run, or raises SessionError."""
    return lambda _outcome: store.continuation(session_id).as_json()


KEPT_IN_TRASH = timedelta(days=7)
_TRASH_FOLDER = late_pattern(r"(\d{8})-(.+)")


class Trash:
    """The deleted sessions: `<state_dir>/trash/<date>-<project>-<id>/` with their files.

    Files are renamed, not copied. After a crash in between, the journal is in the trash, so the
    session can still be restored.
    """

    def __init__(self, state_dir: Path, *, clock: Clock = time.time) -> None:
        self._folder = state_dir / "trash"
        self._clock = clock

    def add(self, store: Store, session_id: str) -> Path:
        """Move a session into the trash; returns its folder. Raises SessionBusy, SessionError."""
        lock = lock_session(store.folder / f"{check_session_id(session_id)}.jsonl")
        try:
            paths = store.paths_of(session_id)
            if not paths:
                raise SessionError(f"This project has no session {session_id!r}.")
            self._folder.mkdir(mode=0o700, exist_ok=True)
            name = f"{self._today():%Y%m%d}-{store.folder.name}-{session_id}"
            # The same id may be deleted, made again and deleted again within a day.
            names = chain([name], (f"{name}.{number}" for number in count(2)))
            targets = (self._folder / name for name in names)
            target = next(path for path in targets if not path.exists())
            target.mkdir(mode=0o700)
            for path in paths:
                path.rename(target / path.name)
            return target
        except OSError as error:
            raise SessionError(
                f"Cannot move session {session_id} to {str(self._folder)!r}: {error.strerror}.",
                hint="Make the state folder writable.",
            ) from error
        finally:
            lock.release()

    def add_unused(self, days: int) -> None:
        """Move the sessions of all projects that nobody changed for `days` into the trash.

        Sessions in use, and those that can't be moved, stay.
        """
        oldest_ns = int((self._clock() - timedelta(days=days).total_seconds()) * 1e9)
        state_dir = self._folder.parent
        for folder in state_dir.glob("sessions/*/"):
            for session_id, marks in sessions_in(folder).items():
                if max(mark.mtime_ns for mark in marks) < oldest_ns:
                    with contextlib.suppress(SessionError):
                        self.add(Store.of_folder(state_dir, folder.name), session_id)

    def restore(self, store: Store, name: str) -> str:
        """Restore the last deleted session that `name` fits; its id. Raises SessionError."""
        session_id, folder = self._find(store, name)
        lock = lock_session(store.folder / f"{session_id}.jsonl")
        try:
            if os.path.lexists(store.folder / f"{session_id}.jsonl"):
                raise SessionError(
                    f"A new session {session_id} already exists.",
                    hint=f"The deleted one is in {str(folder)!r}.",
                )
            # Move the journal last: it makes the session exist.
            for path in sorted(folder.iterdir(), key=lambda path: path.suffix == ".jsonl"):
                path.rename(store.folder / path.name)
            folder.rmdir()
            # So that `add_unused` does not remove it again.
            os.utime(store.folder / f"{session_id}.jsonl", (self._clock(), self._clock()))
        except OSError as error:
            raise SessionError(
                f"Cannot restore session {session_id}: {error.strerror}.",
                hint=f"Its files are in {str(folder)!r}.",
            ) from error
        finally:
            lock.release()
        return session_id

    def sessions_of(self, project: str) -> Sequence[tuple[str, Path]]:
        """The deleted sessions of this project with their folders, the latest first."""
        newest_first = sorted(self._entries(), key=lambda path: path.name, reverse=True)
        ids = ((_deleted_session(path, project), path) for path in newest_first)
        return [(session_id, path) for session_id, path in ids if session_id]

    def empty_old(self) -> None:
        """Delete sessions that have been in the trash for more than a week."""
        oldest = self._today() - KEPT_IN_TRASH
        for path in self._entries():
            name = _TRASH_FOLDER.fullmatch(path.name)
            if name and name[1] < f"{oldest:%Y%m%d}":
                shutil.rmtree(path, ignore_errors=True)

    def _find(self, store: Store, name: str) -> tuple[str, Path]:
        check_session_id(name)
        deleted = self.sessions_of(store.folder.name)
        ids = ids_fitting(sorted({session_id for session_id, _ in deleted}), name)
        if not ids:
            raise SessionError(f"No deleted session of this project is called {name!r}.")
        if len(ids) > 1:
            raise SessionError(
                f"{name!r} matches {len(ids)} deleted sessions: {', '.join(ids[:5])}.",
                hint="Type more of the id.",
            )
        return next(session for session in deleted if session[0] == ids[0])

    def _entries(self) -> Sequence[Path]:
        try:
            return [path for path in self._folder.iterdir() if not path.is_symlink()]
        except OSError:
            return []

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock(), UTC).date()


def _deleted_session(path: Path, project: str) -> str:
    """The id of the project's session in a folder of the trash; "" if it holds none."""
    name = _TRASH_FOLDER.fullmatch(path.name)
    for file in path.glob("*.jsonl") if name else ():
        # Both project names and ids contain hyphens; the file name of the journal separates them.
        if name and f"{project}-{file.stem}" in (name[2], re.sub(r"\.\d+$", "", name[2])):
            return file.stem
    return ""
