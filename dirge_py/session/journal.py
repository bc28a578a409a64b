"""The append-only journal of a session: opening it safely, adding one record at a time."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.session.blobs import laid_out
from dirge_py.session.disk import append_durably
from dirge_py.session.lock import WriterLock
from dirge_py.session.record import VERSION, Record, encode, new_record_id, timestamp
from dirge_py.session.scan import Scan
from dirge_py.session.segments import (
    Limits,
    Reading,
    folder_of,
    read_segments,
    segment_numbers,
    segment_path,
)
from dirge_py.session.writing import SegmentFile
from dirge_py.types.errors import SessionError

Clock = Callable[[], float]
"""Seconds since 1970, as `time.time`."""

_DEFAULT_LIMITS = Limits()


def read_journal(path: Path) -> Scan:
    """What the journal holds now, without lock or repair; another process may be writing it.

    `path` is its first file; all its segments are read.

    Raises:
        SessionError: there is no such file, or it cannot be read.
    """
    return read_segments(path).scan


class Journal:
    """One session's files, held by its only writer. `path` is the first of them.

    When the last one is full (see `Limits`), the next record goes into another. A new session
    appears on disk with its first record, preceded by a `session` record of the `header`; until
    then only its lock exists, and closing leaves nothing behind.
    `notices` are for the person: what was found damaged when it was opened.
    """

    def __init__(
        self,
        path: Path,
        lock: WriterLock,
        *,
        header: Mapping[str, Any],
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.path = path
        self.notices: list[str] = []
        self._lock = lock
        self._header = header
        self._clock = clock
        self._limits = limits
        self._file = SegmentFile(path, number=1)
        self._refusal: SessionError | None = None
        self._found: list[Record] | None = []
        self._leaf: str | None = None
        self._next_seq = 1

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        header: Mapping[str, Any] | None = None,
        clock: Clock = time.time,
        limits: Limits = _DEFAULT_LIMITS,
    ) -> "Journal":
        """Take the writer's lock of `<id>.jsonl`, read it all and mend its end.

        Bytes that are no record are copied to `<id>.damaged`, once; of those only an unfinished end
        of the last file is then cut off, the rest stays where it is. One of a newer format can only
        be read.

        Raises:
            SessionBusy: another process writes it.
            SessionError: it cannot be opened or read.
        """
        lock = WriterLock.acquire(_beside(path, ".lock"))
        journal = cls(path, lock, header=header or {}, clock=clock, limits=limits)
        try:
            journal._open_existing()
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def id(self) -> str:
        return self.path.name.removesuffix(".jsonl")

    @property
    def is_new(self) -> bool:
        """True until something is on disk."""
        return self._leaf is None

    @property
    def leaf(self) -> str | None:
        """The id of the last record: the tip of the current branch."""
        return self._leaf

    def append(
        self,
        type: str,  # noqa: A002 - the member's name on disk
        data: Any,
        *,
        parent: str | None = None,
        at: float | None = None,
        sync: bool = False,
    ) -> Record:
        """Write one record behind `parent` (None: the last record).

        With `sync` it and everything before it is on the disk when this returns; without it a crash
        of the machine (not of the process) may lose it. `at` is when it happened, if not now.

        Raises:
            SessionError: it was not written. Nothing has changed then, neither here nor on disk.
        """
        when = timestamp(self._clock() if at is None else at)
        record = Record(
            seq=0, ts=when, type=type, id=new_record_id(), parent=parent or self._leaf, data=data
        )
        return self._add(record, sync=sync)

    def adopt(self, records: Iterable[Record]) -> None:
        """Write copies of another journal's records in a row, with the ids and times they have.

        Raises:
            SessionError: as `append`; the copies before the one that failed stay.
        """
        for record in records:
            if record.type != "segment":
                self._add(replace(record, v=VERSION, parent=self._leaf), sync=False)

    def records(self) -> list[Record]:
        """Every record, in order.

        Those found when it was opened are handed over, not kept: a session of 20 MB should be in
        memory once. Later calls read the file.
        """
        found, self._found = self._found, None
        if found is not None:
            return found
        return read_journal(self.path).records if self._leaf else []

    def close(self) -> None:
        """Let go of files and lock. A session that never got a record leaves nothing behind."""
        self._file.close()
        if self.is_new:
            self._remove_empty_folders()
        self._refusal = SessionError(f"Session {self.id} is closed.")
        self._lock.release()

    def _add(self, record: Record, *, sync: bool) -> Record:
        """Number the record and write it, behind what has to come first in its file."""
        if self._refusal:
            raise self._refusal
        file = self._next_file()
        first = self._first_record_of(file)
        if first is not None:
            was_tip = record.parent in (None, self._leaf)
            record = replace(record, parent=first.id if was_tip else record.parent)
        record = replace(record, seq=self._next_seq + (first is not None))
        # Used up even if the write fails: an exception out of a signal handler may come after it.
        self._next_seq = record.seq + 1
        try:
            self._write(file, [first, record] if first else [record], sync=sync)
        except OSError as error:
            raise SessionError(
                f"Session {self.id} cannot be saved: {error.strerror}.",
                hint=f"Free space or mend access to {str(self.path.parent)!r}; it is tried again.",
            ) from error
        self._leaf = record.id
        self._found = None
        return record

    def _next_file(self) -> SegmentFile:
        """The file the next record goes into."""
        file = self._file
        is_full = file.records >= self._limits.records or file.size >= self._limits.size
        if not (is_full and file.records):
            return file
        number = file.number + 1
        return SegmentFile(segment_path(self.path, number), number=number)

    def _first_record_of(self, file: SegmentFile) -> Record | None:
        """What has to stand before everything else in a file that holds nothing yet."""
        if not self.is_new and (file.records or file.number == 1):
            return None
        now = timestamp(self._clock())
        if self.is_new:
            type_name, data = "session", {"id": self.id, "created": now, **self._header}
        else:
            type_name, data = "segment", {"id": self.id, "number": file.number, "at": now}
            data["after_seq"] = self._next_seq - 1
        return Record(
            seq=self._next_seq,
            ts=now,
            type=type_name,
            id=new_record_id(),
            parent=self._leaf,
            data=data,
        )

    def _write(self, file: SegmentFile, records: list[Record], *, sync: bool) -> None:
        folder = folder_of(self.path)
        # In one write, so that no file ever holds a header and nothing else.
        payload = b"".join(encode(laid_out(record, folder)) for record in records)
        if file is self._file:
            file.append(payload, records=len(records), sync=sync)
            return
        # What is in the next file must not outlive what came before it.
        self._file.sync()
        try:
            file.append(payload, records=len(records), sync=sync)
        except BaseException:
            file.close()
            raise
        self._file.close()
        self._file = file

    def _open_existing(self) -> None:
        numbers = segment_numbers(self.path)
        if not numbers:
            return
        found = read_segments(self.path)
        self._file = SegmentFile(segment_path(self.path, numbers[-1]), number=numbers[-1])
        self._file.open(records=len(found.parts[numbers[-1]].records))
        if found.scan.is_newer:
            self._refusal = SessionError(
                f"Session {self.id} was written by a newer dirge and can only be read.",
                hint="Update dirge, or use `--fork-session` to go on in a new session.",
            )
        else:
            self._set_aside(found)
        if found.missing:
            names = ", ".join(repr(str(segment_path(self.path, n))) for n in found.missing)
            self.notices.append(
                f"A part of session {self.id} is missing: {names}. Everything else was read."
            )
        self._found = found.scan.records
        if self._found:
            self._leaf = self._found[-1].id
            self._next_seq = self._found[-1].seq + 1

    def _set_aside(self, found: Reading) -> None:
        """Copy damaged bytes to `<id>.damaged` unless they are there; then cut a torn end off."""
        kept = _beside(self.path, ".damaged")
        try:
            known = set(kept.read_bytes().split(b"\n")) if kept.exists() else set()
            fresh = [piece for piece in found.scan.damage if piece not in known]
            if fresh:
                append_durably(kept, b"".join(piece + b"\n" for piece in fresh))
                amount = sum(map(len, fresh))
                self.notices.append(
                    f"{amount} damaged bytes of session {self.id} were left out; "
                    f"they are kept in {str(kept)!r}. Everything else was read."
                )
            torn_at = found.parts[self._file.number].torn_at
            if torn_at is not None:
                self._file.cut(torn_at)
        except OSError as error:
            # A full disk must not make a session unreadable: a torn end is tolerated by append.
            self.notices.append(
                f"Session {self.id} is damaged and cannot be mended now: {error.strerror}."
            )

    def _remove_empty_folders(self) -> None:
        folder = self.path.with_name(self.id)
        for empty in (*(folder / name for name in ("output", "assets", "blobs")), folder):
            with contextlib.suppress(OSError):
                empty.rmdir()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name.removesuffix(".jsonl") + suffix)
