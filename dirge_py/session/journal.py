"""The append-only file a session is: opening it safely, adding one record at a time."""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.errors import SessionError
from dirge_py.session.lock import WriterLock
from dirge_py.session.record import VERSION, Record, encode, new_record_id, timestamp
from dirge_py.session.scan import Scan, scan

Clock = Callable[[], float]
"""Seconds since 1970, as `time.time`."""

_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_journal(path: Path) -> Scan:
    """What the journal holds now, without lock or repair; another process may be writing it.

    Raises:
        SessionError: there is no such file, or it cannot be read.
    """
    fd = _open(path, _READ_FLAGS)
    try:
        return _scan(fd, path)
    finally:
        os.close(fd)


class Journal:
    """One session's file, held by its only writer.

    A new one appears on disk with its first record, preceded by a `session` record of the `header`;
    until then only its lock exists, and closing leaves nothing behind.
    `notices` are for the person: what was found damaged when it was opened.
    """

    def __init__(self, path: Path, lock: WriterLock, *, header: Mapping[str, Any], clock: Clock):
        self.path = path
        self.notices: list[str] = []
        self._lock = lock
        self._header = header
        self._clock = clock
        self._fd: int | None = None
        self._refusal: SessionError | None = None
        self._found: list[Record] | None = []
        self._leaf: str | None = None
        self._next_seq = 1

    @classmethod
    def open(
        cls, path: Path, *, header: Mapping[str, Any] | None = None, clock: Clock = time.time
    ) -> "Journal":
        """Take the writer's lock of `<id>.jsonl`, read it all and mend its end.

        Bytes that are no record are copied to `<id>.damaged`, once; of those only an unfinished end
        is then cut off, the rest stays where it is. One of a newer format can only be read.

        Raises:
            SessionBusy: another process writes it.
            SessionError: it cannot be opened or read.
        """
        journal = cls(
            path, WriterLock.acquire(_beside(path, ".lock")), header=header or {}, clock=clock
        )
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
        """Let go of file and lock. A session that never got a record leaves nothing behind."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._fd)
                if os.fstat(self._fd).st_size == 0:
                    self.path.unlink()
            os.close(self._fd)
            self._fd = None
        if self.is_new:
            self._remove_empty_folders()
        self._refusal = SessionError(f"Session {self.id} is closed.")
        self._lock.release()

    def _add(self, record: Record, *, sync: bool) -> Record:
        """Number the record and write it, behind the header if it is the first."""
        if self._refusal:
            raise self._refusal
        first = self._first_record() if self.is_new else None
        seq = self._next_seq + (first is not None)
        record = replace(record, seq=seq, parent=first.id if first else record.parent)
        # Used up even if the write fails: an exception out of a signal handler may come after it.
        self._next_seq = record.seq + 1
        try:
            # In one write, so that no journal ever holds a header and nothing else.
            self._write((encode(first) if first else b"") + encode(record), sync=sync)
        except OSError as error:
            raise SessionError(
                f"Session {self.id} cannot be saved: {error.strerror}.",
                hint=f"Free space or mend access to {str(self.path.parent)!r}; it is tried again.",
            ) from error
        self._leaf = record.id
        self._found = None
        return record

    def _open_existing(self) -> None:
        try:
            self._fd = _open(self.path, _WRITE_FLAGS)
        except SessionError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return
            raise
        found = _scan(self._fd, self.path)
        if found.is_newer:
            self._refusal = SessionError(
                f"Session {self.id} was written by a newer dirge and can only be read.",
                hint="Update dirge, or use `--fork-session` to go on in a new session.",
            )
        else:
            self._set_aside(found)
        self._found = found.records
        if found.records:
            self._leaf = found.records[-1].id
            self._next_seq = found.records[-1].seq + 1

    def _set_aside(self, found: Scan) -> None:
        """Copy damaged bytes to `<id>.damaged` unless they are there; then cut a torn end off."""
        assert self._fd is not None
        kept = _beside(self.path, ".damaged")
        try:
            known = set(kept.read_bytes().split(b"\n")) if kept.exists() else set()
            fresh = [piece for piece in found.damage if piece not in known]
            if fresh:
                _append_durably(kept, b"".join(piece + b"\n" for piece in fresh))
                amount = sum(map(len, fresh))
                self.notices.append(
                    f"{amount} damaged bytes of session {self.id} were left out; "
                    f"they are kept in {str(kept)!r}. Everything else was read."
                )
            if found.torn_at is not None:
                os.ftruncate(self._fd, found.torn_at)
        except OSError as error:
            # A full disk must not make a session unreadable: a torn end is tolerated by append.
            self.notices.append(
                f"Session {self.id} is damaged and cannot be mended now: {error.strerror}."
            )

    def _first_record(self) -> Record:
        now = timestamp(self._clock())
        return Record(
            seq=self._next_seq,
            ts=now,
            type="session",
            id=new_record_id(),
            parent=None,
            data={"id": self.id, "created": now, **self._header},
        )

    def _write(self, payload: bytes, *, sync: bool) -> None:
        if self._fd is None:
            self._fd = os.open(self.path, _WRITE_FLAGS | os.O_CREAT, 0o600)
            _sync_folder(self.path.parent)
        before = os.fstat(self._fd)
        if before.st_nlink == 0:
            raise OSError(errno.ESTALE, "its file was deleted")
        if before.st_size and os.pread(self._fd, 1, before.st_size - 1) != b"\n":
            payload = b"\n" + payload
        try:
            _write_all(self._fd, payload)
            if sync:
                os.fsync(self._fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before.st_size)
            raise

    def _remove_empty_folders(self) -> None:
        folder = self.path.with_name(self.id)
        for empty in (folder / "output", folder / "assets", folder):
            with contextlib.suppress(OSError):
                empty.rmdir()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name.removesuffix(".jsonl") + suffix)


def _open(path: Path, flags: int) -> int:
    try:
        fd = os.open(path, flags)
    except OSError as error:
        raise SessionError(
            f"The session file {str(path)!r} cannot be opened: {error.strerror}.",
            hint="`dirge -r` lists those there are.",
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SessionError(f"{str(path)!r} is no regular file.", hint="Move it away.")
    return fd


def _scan(fd: int, path: Path) -> Scan:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        with open(fd, "rb", closefd=False) as lines:
            return scan(lines)
    except OSError as error:
        raise SessionError(
            f"The session file {str(path)!r} cannot be read: {error.strerror}.",
            hint="Check the disk.",
        ) from error


def _write_all(fd: int, payload: bytes) -> None:
    rest = memoryview(payload)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _append_durably(path: Path, payload: bytes) -> None:
    fd = os.open(path, _WRITE_FLAGS | os.O_CREAT, 0o600)
    try:
        _write_all(fd, payload)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
