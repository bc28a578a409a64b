"""The append-only journal of a session: opening it safely, adding records, repairing it.

Only the process with the writer's lock appends. An append writes whole records or nothing. A repair
copies damaged bytes to another file and reports the loss; it never rewrites records.
"""

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.files.atomic import write_all
from dirge_py.lib.file_lock import FileLock, LockHeld
from dirge_py.lib.text import plural
from dirge_py.session.record import VERSION, Record, encode, new_record_id, timestamp
from dirge_py.session.segments import (
    APPEND_FLAGS,
    Scan,
    SegmentLimits,
    SessionFiles,
    folder_of,
    make_folders,
    open_regular,
    read_segments,
    segment_numbers,
    segment_path,
    store_large_texts,
    sync_folder,
)
from dirge_py.types.errors import SessionBusy, SessionError

_COPY_OR_CLOSE = "Use `--fork-session` to continue in a copy, or close the other one first."
END_OTHER = "End the other dirge, then try again."


def lock_session(first: Path, *, hint: str = END_OTHER) -> FileLock:
    """Take the writer's lock without waiting. Raises SessionBusy with `hint`, or SessionError."""
    path = first.with_suffix(".lock")
    try:
        return FileLock.acquire(path)
    except LockHeld as held:
        raise SessionBusy(
            f"Session {path.stem} is in use by {held}.",
            session_id=path.stem,
            hint=hint,
        ) from held
    except OSError as error:
        if error.filename is not None:
            raise SessionError(
                f"Cannot open the session's lock {str(path)!r}: {error.strerror}.",
                hint="Make the state folder writable, set DIRGE_STATE_DIR, or use `--no-session`.",
            ) from error
        raise SessionError(
            f"The file system of {str(path.parent)!r} cannot lock files: {error.strerror}.",
            hint="Set DIRGE_STATE_DIR to a folder on a local disk.",
        ) from error


class SegmentFile:
    """One segment with its number of `records` and `size` in bytes, created by the first append."""

    def __init__(self, path: Path, *, number: int) -> None:
        self.path = path
        self.number = number
        self.records = 0
        self.size = 0
        self._fd: int | None = None

    def open(self, *, records: int) -> None:
        """Open the existing file with `records` records. Raises as `open_regular`."""
        self._fd = open_regular(self.path, APPEND_FLAGS)
        self.records = records
        self.size = os.fstat(self._fd).st_size

    def append(self, payload: bytes, *, records: int, sync: bool) -> None:
        """Append `records` whole lines, even after a torn line. Raises OSError: nothing changed."""
        if self._fd is None:
            if self.number > 1:
                make_folders(self.path.parent)
            self._fd = os.open(self.path, APPEND_FLAGS | os.O_CREAT, 0o600)
            sync_folder(self.path.parent)
        fd = self._fd
        before = os.fstat(fd)
        if before.st_nlink == 0:
            raise OSError(errno.ESTALE, "its file was deleted")
        if before.st_size and os.pread(fd, 1, before.st_size - 1) != b"\n":
            payload = b"\n" + payload
        try:
            write_all(fd, payload)
            if sync:
                os.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, before.st_size)
            raise
        self.records += records
        self.size = before.st_size + len(payload)

    def sync(self) -> None:
        """Flush the file to disk. Raises OSError."""
        if self._fd is not None:
            os.fsync(self._fd)

    def cut(self, size: int) -> None:
        """Truncate the open file to `size` bytes. Raises OSError."""
        if self._fd is not None:
            os.ftruncate(self._fd, size)
            self.size = size

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            self.sync()
            if os.fstat(self._fd).st_size == 0:
                self.path.unlink()
        os.close(self._fd)
        self._fd = None


Clock = Callable[[], float]
"""Seconds since 1970, as `time.time`."""
_DEFAULT_LIMITS = SegmentLimits()


def read_journal(path: Path) -> Scan:
    """Read all segments without lock or repair, even during a write. Raises SessionError."""
    return read_segments(path).scan


class Journal:
    """The files of one session, open for its only writer. `path` is the first segment.

    When the last segment is full (see `SegmentLimits`), the next record goes into a new one. A new
    session appears on disk with its first record, preceded by a `session` record of the `header`;
    until then only its lock exists. `notices` tell the user what was damaged when it was opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        header: Mapping[str, Any] | None = None,
        clock: Clock = time.time,
        limits: SegmentLimits = _DEFAULT_LIMITS,
    ) -> None:
        """Take the writer's lock of `<id>.jsonl`, read all segments and repair the end.

        Damaged bytes are copied to `<id>.damaged`, once. Then only an unfinished end of the last
        file is cut off; other damage stays. A journal of a newer format is read-only.

        Raises SessionBusy, or SessionError if it can't be opened or read.
        """
        self.path = path
        self.notices: list[str] = []
        self._lock = lock_session(path, hint=_COPY_OR_CLOSE)
        self._header = header or {}
        self._clock = clock
        self._limits = limits
        self._file = SegmentFile(path, number=1)
        self._refusal: SessionError | None = None
        self._found: list[Record] | None = []
        self._leaf: str | None = None
        """The id of the last record: the tip of the current branch."""
        self._next_seq = 1
        try:
            self._open_existing()
        except BaseException:
            self.close()
            raise

    @property
    def id(self) -> str:
        return self.path.name.removesuffix(".jsonl")

    @property
    def is_new(self) -> bool:
        """Whether nothing is on disk yet."""
        return self._leaf is None

    @property
    def last_id(self) -> str:
        """The id of the last record; "" if there is none."""
        return self._leaf or ""

    def append(
        self,
        type: str,  # noqa: A002 - the member's name on disk
        data: Any,
        *,
        parent: str | None = None,
        at: float | None = None,
        sync: bool = False,
    ) -> Record:
        """Append one record whose parent is `parent` (None: the last record).

        With `sync`, it and everything before it is on disk when this returns; without it, a crash
        of the machine (not of the process) may lose it. `at` is its time, by default now.

        Raises SessionError: it was not written; nothing has changed, in memory or on disk.
        """
        when = timestamp(self._clock() if at is None else at)
        record = Record(
            seq=0, ts=when, type=type, id=new_record_id(), parent=parent or self._leaf, data=data
        )
        return self._add(record, sync=sync)

    def adopt(self, records: Iterable[Record]) -> None:
        """Append copies of other records, with their ids and times. Raises as `append`."""
        for record in records:
            if record.type != "segment":
                self._add(replace(record, v=VERSION, parent=self._leaf), sync=False)

    def records(self) -> list[Record]:
        """Every record, in order: first those that `open` read, so that memory holds them once."""
        found, self._found = self._found, None
        if found is not None:
            return found
        return read_journal(self.path).records if self._leaf else []

    def sync(self) -> None:
        """Wait until the disk has all records. Raises OSError."""
        self._file.sync()

    def close(self) -> None:
        """Close the files and release the lock; a session without records leaves no files."""
        self._file.close()
        if self.is_new:
            folder = folder_of(self.path)
            for empty in (*(folder / name for name in ("output", "assets", "blobs")), folder):
                with contextlib.suppress(OSError):
                    empty.rmdir()
        self._refusal = SessionError(f"Session {self.id} is closed.")
        self._lock.release()

    def _add(self, record: Record, *, sync: bool) -> Record:
        """Number the record and write it, after the header of a new file."""
        if self._refusal:
            raise self._refusal
        file, limits = self._file, self._limits
        is_full = file.records >= limits.records or file.size >= limits.size
        try:
            if is_full and file.records:
                # Records in the next file must not survive a crash that loses earlier ones.
                file.sync()
                file.close()
                number = file.number + 1
                file = self._file = SegmentFile(segment_path(self.path, number), number=number)
            first = self._first_record()
            if first is not None:
                was_tip = record.parent in (None, self._leaf)
                record = replace(record, parent=first.id if was_tip else record.parent)
            record = replace(record, seq=self._next_seq + (first is not None))
            # Advance even if the write fails: a signal handler may raise after a successful write.
            self._next_seq = record.seq + 1
            # Write both at once, so that no file holds only a header.
            records = [first, record] if first else [record]
            folder = folder_of(self.path)
            payload = b"".join(encode(store_large_texts(each, folder)) for each in records)
            file.append(payload, records=len(records), sync=sync)
        except OSError as error:
            hint = f"Free space, or fix access to {str(self.path.parent)!r}; dirge will try again."
            message = f"Session {self.id} cannot be saved: {error.strerror}."
            raise SessionError(message, hint=hint) from error
        self._leaf = record.id
        self._found = None
        return record

    def _first_record(self) -> Record | None:
        """The header record of the file if it is empty; None if it has records."""
        file = self._file
        if not self.is_new and (file.records or file.number == 1):
            return None
        now = timestamp(self._clock())
        kind, data = "session", {"id": self.id, "created": now, **self._header}
        if not self.is_new:
            after_seq = self._next_seq - 1
            data = {"id": self.id, "number": file.number, "at": now, "after_seq": after_seq}
            kind = "segment"
        return Record(
            seq=self._next_seq, ts=now, type=kind, id=new_record_id(), parent=self._leaf, data=data
        )

    def _open_existing(self) -> None:
        numbers = segment_numbers(self.path)
        if not numbers:
            return
        found = read_segments(self.path)
        last = numbers[-1]
        self._file = SegmentFile(segment_path(self.path, last), number=last)
        self._file.open(records=len(found.parts[last].records))
        if found.scan.is_newer:
            self._refusal = SessionError(
                f"Session {self.id} was written by a newer dirge and can only be read.",
                hint="Update dirge, or use `--fork-session` to continue in a new session.",
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

    def _set_aside(self, found: SessionFiles) -> None:
        """Copy damaged bytes to `<id>.damaged` unless it has them; then cut off a torn end."""
        kept = self.path.with_suffix(".damaged")
        try:
            known = kept.read_bytes().split(b"\n") if kept.exists() else ()
            fresh = [piece for piece in found.scan.damage if piece not in known]
            if fresh:
                with open(os.open(kept, APPEND_FLAGS | os.O_CREAT, 0o600), "wb") as file:
                    file.write(b"".join(piece + b"\n" for piece in fresh))
                    file.flush()
                    os.fsync(file.fileno())
                amount = sum(map(len, fresh))
                self.notices.append(
                    f"{amount} damaged bytes of session {self.id} were left out; "
                    f"they are kept in {str(kept)!r}. Everything else was read."
                )
            if (torn_at := found.parts[self._file.number].torn_at) is not None:
                self._file.cut(torn_at)
        except OSError as error:
            # A full disk must not make a session unreadable: a torn end is tolerated by append.
            self.notices.append(
                f"Session {self.id} is damaged, and dirge cannot repair it now: {error.strerror}."
            )


def repair_session(first: Path) -> list[str]:
    """Repair a session by opening it for writing; the result in lines, for people.

    Raises SessionBusy, SessionError.
    """
    found = read_segments(first)
    last, torn_at = max(found.parts), found.scan.torn_at
    torn = 0 if torn_at is None else segment_path(first, last).stat().st_size - torn_at
    Journal(first).close()
    known: set[str | None] = {None}
    orphans = 0
    for record in found.scan.records:
        orphans += record.parent not in known
        known.add(record.id)
    damaged, count = sum(map(len, found.scan.damage)) - torn, len(found.scan.records)
    lost = _lost_outputs(found, folder_of(first) / "blobs")
    if not (torn or damaged or found.missing or orphans or lost):
        return [f"intact, {count} records"]
    lines = [f"{count} records can be read"]
    if torn and not found.scan.is_newer:
        lines.append(f"an unfinished end of {torn} bytes was cut off")
    if damaged:
        lines.append(f"{damaged} bytes in the middle are not records and are skipped")
    if torn or damaged:
        kept = str(first.with_suffix(".damaged"))
        lines.append(f"the damaged bytes are kept in {kept!r}")
    if found.missing:
        names = ", ".join(f"{number:04}.jsonl" for number in found.missing)
        lines.append(f"a part of it is missing: {names}")
    if orphans:
        lines.append(f"{orphans} records follow a lost one and are read after the one before it")
    if lost:
        lines.append(f"{lost} large tool results are gone; a note replaces them")
    if found.scan.is_newer:
        lines.append("it was written by a newer dirge and can only be read")
    return lines


def describe_damage(found: SessionFiles, first: Path) -> str:
    """Return what can't be read of the session, and where damaged bytes are; "" if it is sound."""
    kept = first.with_suffix(".damaged")
    unreadable = sum(map(len, found.scan.damage))
    parts = [f"{plural(unreadable, 'byte')} cannot be read"] if unreadable else []
    parts += [f"{str(segment_path(first, number))!r} is missing" for number in found.missing]
    if kept.exists():
        parts.append(f"damaged bytes are kept in {str(kept)!r}")
    elif unreadable:
        parts.append(f"`dirge sessions repair {first.stem}` keeps them in {str(kept)!r}")
    return "; ".join(parts)


def _lost_outputs(found: SessionFiles, folder: Path) -> int:
    digests = {
        str(blob.get("sha256"))
        for part in found.parts.values()
        for record in part.records
        if isinstance(record.data, Mapping) and isinstance(record.data.get("blobs"), list)
        for blob in record.data["blobs"]
        if isinstance(blob, Mapping)
    }
    lost = 0
    for digest in digests:
        try:
            content = (folder / Path(digest).name).read_bytes()
            lost += hashlib.sha256(content).hexdigest() != digest
        except OSError:
            lost += 1
    return lost
