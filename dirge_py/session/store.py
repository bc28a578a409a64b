"""Where sessions live: making, finding, listing and forking the journals of one project."""

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.session.continuation import Continuation, continuation_of, save_continuation
from dirge_py.session.disk import make_folder
from dirge_py.session.history import Loaded, replay
from dirge_py.session.journal import Clock, Journal, read_journal
from dirge_py.session.listing import SessionSummary, list_sessions
from dirge_py.session.lock import writer_of
from dirge_py.session.names import check_session_id, new_session_id, project_id
from dirge_py.session.record import Record
from dirge_py.session.segments import Limits, folder_of, segment_numbers
from dirge_py.session.tree import records_to_fork
from dirge_py.types.errors import SessionBusy, SessionError

_SHOWN_CANDIDATES = 5
_DEFAULT_LIMITS = Limits()


class _Taken(SessionError):
    """There is a session of this id."""


class Store:
    """The sessions of one project, in `<state_dir>/sessions/<project>/`.

    `<id>.jsonl` is the session, `<id>/0002.jsonl` and so on what no longer fitted (see `limits`);
    `<id>/blobs`, `<id>/assets` and `<id>/output` hold its large texts, pictures and relayed tool
    output. Everything is readable by its owner only. Nothing is made before it is needed.
    """

    def __init__(
        self,
        state_dir: Path,
        project_root: Path,
        *,
        app_version: str = "",
        clock: Clock = time.time,
        limits: Limits = _DEFAULT_LIMITS,
    ) -> None:
        self._state_dir = state_dir
        self._project_root = project_root
        self._app_version = app_version
        self._clock = clock
        self._limits = limits
        self.folder = state_dir / "sessions" / project_id(project_root)

    def create(self, session_id: str | None = None, *, cwd: Path | None = None) -> Journal:
        """A new session, held for writing. It is on disk once something is recorded.

        Raises:
            SessionError: the id is taken or cannot be one, or the state folder cannot be written.
        """
        return self._create(session_id, self._header(cwd))

    def open(self, name: str, *, cwd: Path | None = None, fork: bool = False) -> Journal:
        """An existing session (see `find`) for writing, or with `fork` a new one that continues it.

        Raises:
            SessionBusy: another process writes it (never with `fork`).
            SessionError: there is none, several fit, or it cannot be opened.
        """
        if fork:
            return self.fork(name, cwd=cwd)
        return self._opened(self.find(name), self._header(cwd))

    def open_or_create(self, session_id: str, *, cwd: Path | None = None) -> Journal:
        """The session of exactly this id, made if there is none."""
        self._make_folder(self.folder)
        return self._opened(check_session_id(session_id), self._header(cwd))

    def read(self, name: str) -> Loaded:
        """A session as it stands, to look at: no lock is taken and nothing is written."""
        return replay(self.events_since(name, 0))

    def view(self, name: str) -> Loaded:
        """A session as it stands, for showing it while somebody else may be writing it.

        No lock is taken and nothing is written or mended. `notices` say that, and who writes it.

        Raises:
            SessionError: there is none, several fit, or it cannot be read.
        """
        loaded = replay(self.events_since(name, 0), notices=[self.why_only_to_look(name)])
        return replace(loaded, open_calls=())

    def why_only_to_look(self, name: str) -> str:
        """Why a session that is only viewed takes no prompt, and what does.

        Raises:
            SessionError: there is none, or several fit.
        """
        session_id = self.find(name)
        writer = writer_of(self._path(session_id).with_suffix(".lock"))
        why = f"because process {writer} writes it" if writer else "as it was opened to look at"
        return f"Session {session_id} is read-only {why}; `--fork-session` or /sessions goes on."

    def paths_of(self, session_id: str) -> Sequence[Path]:
        """Every file and folder that belongs to the session, the one that lists it first.

        Not its lock: whoever moves or removes these holds it.

        Raises:
            SessionError: the id cannot be one.
        """
        first = self._path(check_session_id(session_id))
        belonging = (first, first.with_suffix(".damaged"), folder_of(first))
        return [path for path in belonging if os.path.lexists(path)]

    def events_since(self, name: str, seq: int) -> Sequence[Record]:
        """What was recorded after the record `seq`, in order, for whoever was away meanwhile.

        No lock is taken, so another process may be writing; a record that it is in the middle of
        comes with the next call. Events carry the `seq` of their record as `journal_seq`.

        Raises:
            SessionError: there is no such session, or it cannot be read.
        """
        records = read_journal(self._path(self.find(name))).records
        return [record for record in records if record.seq > seq]

    def continuation(self, name: str) -> Continuation:
        """What the session waits for. Raises SessionError: nothing, or there is no such session."""
        session_id = self.find(name)
        records = self.events_since(session_id, 0)
        return continuation_of(records, session_id=session_id, project=self.folder.name)

    def keep_continuation(self, name: str) -> Path:
        """A new file in `continuations/` that says what the session waits for.

        Raises:
            SessionError: it waits for nothing, or the file cannot be written.
        """
        continuation = self.continuation(name)
        return save_continuation(continuation.as_json(), self._state_dir / "continuations")

    def fork(
        self,
        name: str,
        new_id: str | None = None,
        *,
        at: str | None = None,
        cwd: Path | None = None,
    ) -> Journal:
        """A new session that begins with what `name` holds up to the record `at` (None: all).

        The original is only read, so it may be in use. Pictures are shared, not copied.

        Raises:
            SessionError: as `open` and `create`; nothing is left behind then.
        """
        source = self.find(name)
        records = records_to_fork(read_journal(self._path(source)).records, at)
        origin = {"forked_from": source, "forked_at": at or (records[-1].id if records else None)}
        journal = self._create(new_id, {**self._header(cwd), **origin})
        try:
            for kind in ("assets", "blobs"):
                self._share(kind, source, journal.id)
            journal.adopt(records)
            journal.append("notice", {"content": f"Forked from {source}."}, sync=True)
        except BaseException:
            self._forget(journal.id)
            journal.close()
            raise
        return journal

    def find(self, name: str) -> str:
        """The id meant by `name`: the whole, its start, or the start of what follows the date.

        Raises:
            SessionError: none or several fit; the message lists up to five of them.
        """
        if segment_numbers(self._path(check_session_id(name))):
            return name
        ids = sorted(path.name.removesuffix(".jsonl") for path in self.folder.glob("*.jsonl"))
        fitting = [known for known in ids if known.startswith(name)] or [
            known for known in ids if known.partition("-")[2].startswith(name)
        ]
        if not fitting:
            raise SessionError(
                f"This project has no session {name!r}.",
                hint="`dirge sessions` lists those it has.",
            )
        if len(fitting) > 1:
            shown = ", ".join(fitting[-_SHOWN_CANDIDATES:])
            more = len(fitting) - _SHOWN_CANDIDATES
            raise SessionError(
                f"{name!r} fits {len(fitting)} sessions: {shown}"
                + (f" and {more} older." if more > 0 else "."),
                hint="Type more of the id.",
            )
        return fitting[0]

    def newest(self) -> SessionSummary | None:
        """The session last used in this project."""
        return next(iter(self.list()), None)

    def list(self, *, everywhere: bool = False) -> list[SessionSummary]:
        """What there is, last used first: of this project, or `everywhere`."""
        if not everywhere:
            return list_sessions(self.folder)
        folders = (self._state_dir / "sessions").glob("*/")
        found = [summary for folder in folders for summary in list_sessions(folder)]
        return sorted(found, key=lambda summary: (summary.updated, summary.id), reverse=True)

    def asset_dir(self, session_id: str) -> Path:
        """The folder of the session's pictures; it exists afterwards."""
        return self._make_folder(self.folder / check_session_id(session_id) / "assets")

    def output_dir(self, session_id: str) -> Path:
        """The folder of the session's relayed tool output; it exists afterwards."""
        return self._make_folder(self.folder / check_session_id(session_id) / "output")

    def _create(self, session_id: str | None, header: dict[str, Any]) -> Journal:
        self._make_folder(self.folder)
        if session_id is not None:
            return self._create_named(check_session_id(session_id), header)
        while True:
            # Two programs started at once may think of the same id, however rarely.
            with contextlib.suppress(SessionBusy, _Taken):
                return self._create_named(new_session_id(self._clock()), header)

    def _create_named(self, session_id: str, header: dict[str, Any]) -> Journal:
        journal = self._opened(session_id, header)
        if not journal.is_new:
            journal.close()
            raise _Taken(
                f"Session {session_id} exists already.", hint="Open it, or choose another id."
            )
        return journal

    def _opened(self, session_id: str, header: dict[str, Any]) -> Journal:
        return Journal.open(
            self._path(session_id), header=header, clock=self._clock, limits=self._limits
        )

    def _forget(self, session_id: str) -> None:
        """Remove what was just made, as far as that goes."""
        for path in self.paths_of(session_id):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _header(self, cwd: Path | None) -> dict[str, Any]:
        return {
            "cwd": str(cwd or self._project_root),
            "project_root": str(self._project_root),
            "app_version": self._app_version,
        }

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def _share(self, kind: str, source: str, target: str) -> None:
        """Give the files of one kind to another session as well."""
        owned = self.folder / source / kind
        if not owned.is_dir():
            return
        shared = self._make_folder(self.folder / target / kind)
        for file in owned.iterdir():
            if file.suffix == ".part":
                continue
            # The rest never changes, so one file can serve both; not all disks have hard links.
            try:
                os.link(file, shared / file.name, follow_symlinks=False)
            except OSError:
                shutil.copyfile(file, shared / file.name, follow_symlinks=False)

    def _make_folder(self, folder: Path) -> Path:
        """`folder` and what is missing above it, each closed to others."""
        try:
            missing = [at for at in (folder, *folder.parents) if not at.exists()]
            for at in reversed(missing):
                make_folder(at)
        except OSError as error:
            raise SessionError(
                f"The state folder {str(folder)!r} cannot be made: {error.strerror}.",
                hint="Set DIRGE_STATE_DIR to a folder you can write, or use `--no-session`.",
            ) from error
        return folder
