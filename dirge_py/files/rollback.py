"""The journal of a change of several files, and how such a change is taken back.

The journal is on disk before the first file is touched, and gone when the last one is done. One
that is still there, and that no process holds, belongs to a change that was cut short.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from dirge_py.files.atomic import write_in_place
from dirge_py.files.beneath import FOLDER, open_beneath, open_folder_handle, open_regular
from dirge_py.files.identity import sha256_of
from dirge_py.files.resolve import reason_of
from dirge_py.files.staging import Place, fresh_name, sync_folder, write_some
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

_DONE = b"done\n"
_OTHER = "no regular file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of a change. `before` and `after` are digests of its content, None where it is not.

    `temporary` (the new content until it is in place) and `backup` (the old one until all is done)
    are names beside it.
    """

    real: str
    before: str | None
    after: str | None
    temporary: str
    backup: str

    @classmethod
    def of(cls, real: str, before: str | None, content: bytes | None) -> "Entry":
        after = None if content is None else sha256_of(content)
        return cls(
            real=real,
            before=before,
            after=after,
            temporary=fresh_name("new"),
            backup=fresh_name("old"),
        )


def undo(place: Place, entry: Entry) -> bool:
    """Put back what stood at `place` before the change; False if somebody changed it since.

    Raises:
        FileError, OSError: it cannot be put back.
    """
    now = _digest_at(place)
    if now == entry.before:
        return True
    if now != entry.after:
        return False
    if entry.before is None:
        place.unlink(place.name)
    elif _is_copy(place, entry.backup):
        write_in_place(place, place.read(entry.backup))
    else:
        # The old file itself, which takes no room on a disk that may be full.
        os.rename(entry.backup, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    sync_folder(place.folder)
    return True


def _is_copy(place: Place, backup: str) -> bool:
    """Whether the file at `place` was written over, so that only its content is in the backup."""
    now, old = place.status(), place.status(backup)
    if now is None or old is None:
        return False
    return any(getattr(now, name) != getattr(old, name) for name in ("st_uid", "st_gid", "st_mode"))


def _digest_at(place: Place) -> str | None:
    if place.status() is None:
        return None
    try:
        descriptor, _ = open_regular(place.folder, place.name, place.shown)
    except FileError:
        return _OTHER
    with os.fdopen(descriptor, "rb") as stream:
        return sha256_of(stream.read())


class Journal:
    """An open journal, locked for as long as this process works on the change."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, entries: Sequence[Entry]) -> "Journal":
        """A new journal of `entries` in `folder`, on disk.

        Raises:
            FileError: it cannot be written.
        """
        path = folder / fresh_name("patch").lstrip(".")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            journal = cls(path, os.open(path, flags, 0o600))
            try:
                fcntl.flock(journal._descriptor, fcntl.LOCK_EX)
                journal._append(json.dumps([asdict(each) for each in entries]).encode() + b"\n")
                _sync_path(folder)
            except BaseException:
                journal.close(keep=False)
                raise
        except OSError as error:
            raise FileError(
                f"{path}: the journal of this change cannot be written: {reason_of(error)}.",
                hint="Nothing was changed. Change one file at a time, or make room there.",
            ) from error
        return journal

    def finish(self) -> None:
        """From here on the change stands, whatever happens."""
        self._append(_DONE)

    def close(self, *, keep: bool) -> None:
        """Let go of it. `keep`: something is left to be taken back at the next start."""
        if not keep:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _append(self, content: bytes) -> None:
        write_some(self._descriptor, content)
        os.fsync(self._descriptor)


_MOST_NAMED = 5


def roll_back_leftovers(folder: Path, concerns: Callable[[str], bool]) -> list[str]:
    """Take back every change cut short that touches a file which `concerns` us.

    Returns a sentence for each, for the person: what was put back, and what could not be.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    notices: list[str] = []
    for name in names:
        with contextlib.suppress(OSError), _held(folder / name) as lines:
            entries = _entries(lines)
            if entries and not any(concerns(entry.real) for entry in entries):
                continue
            left = _finish(entries, is_done=lines[1:] == [_DONE])
            if not left.is_stuck:
                (folder / name).unlink()
            notices += left.notices
    return notices


@contextlib.contextmanager
def _held(path: Path) -> Iterator[list[bytes]]:
    """The lines of a journal that no other process works on; OSError if one does."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path.read_bytes().splitlines(keepends=True)
    finally:
        os.close(descriptor)


def _entries(lines: Sequence[bytes]) -> list[Entry]:
    """None of a journal that was torn while it was written: nothing had been touched then."""
    try:
        return [Entry(**each) for each in json.loads(lines[0])]
    except (IndexError, ValueError, TypeError):
        return []


@dataclass(frozen=True, slots=True)
class _Left:
    notices: list[str]
    is_stuck: bool


def _finish(entries: Sequence[Entry], *, is_done: bool) -> _Left:
    """Take the change back, or clear up behind it if it was done."""
    restored, notices, is_stuck = [], [], False
    for entry in reversed(entries):
        folder, name = os.path.split(entry.real)
        try:
            with _open_folder(folder) as descriptor:
                place = Place(descriptor, name, entry.real)
                place.unlink(entry.temporary)
                if not is_done and _digest_at(place) != entry.before:
                    if not undo(place, entry):
                        notices.append(changed_since(entry))
                        continue
                    restored.append(entry.real)
                place.unlink(entry.backup)
        except (FileError, OSError) as error:
            is_stuck = True
            reason = reason_of(error) if isinstance(error, OSError) else error.message
            notices.append(f"{entry.real} could not be put back after a change cut short: {reason}")
    if restored:
        named = ", ".join([*reversed(restored)][:_MOST_NAMED])
        more = len(restored) - _MOST_NAMED
        files = f"{named} and {more} more" if more > 0 else named
        notices.insert(0, f"A change of several files was cut short; these are as before: {files}.")
    return _Left(notices, is_stuck)


def changed_since(entry: Entry) -> str:
    """What to say of a file that is neither as it was before nor as the change left it."""
    old = "" if entry.before is None else f" Its old content is in {_beside(entry)}."
    return f"{entry.real} was changed while a change was cut short, and was left alone.{old}"


def _beside(entry: Entry) -> str:
    return f"{os.path.dirname(entry.real).rstrip('/')}/{entry.backup}"


@contextlib.contextmanager
def _open_folder(real: str) -> Iterator[int]:
    root = open_folder_handle("/")
    try:
        descriptor = open_beneath(root, real.lstrip("/"), FOLDER)
    finally:
        os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_path(folder: Path) -> None:
    descriptor = os.open(folder, FOLDER | os.O_CLOEXEC)
    try:
        sync_folder(descriptor)
    finally:
        os.close(descriptor)
