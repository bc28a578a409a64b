"""Changes several files together: all of them, or none.

First every new content is written to disk beside its place and every old file gets a second name;
then the renames follow. A journal is on disk from before the first change until after the last one.
If it is there and no process has locked it, the change was interrupted, and is undone.
"""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from dirge_py.files import atomic
from dirge_py.files.atomic import FileLocation, OwnerLost
from dirge_py.files.resolve import FOLDER, open_beneath, open_folder_handle, open_regular, reason_of
from dirge_py.files.versions import sha256_of
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

_DONE = b"done\n"
_OTHER = "no regular file"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackEntry:
    """One file of a change, as the journal records it."""

    real: str
    """Its physical path."""
    before: str | None
    """Digest of its content before the change; None if there was no file."""
    after: str | None
    """Digest of its content after the change; None if there is no file."""
    temporary: str
    """The name beside it of the new content until that is in place."""
    backup: str
    """The name beside it of the old content until the change is complete."""

    @classmethod
    def of(cls, real: str, before: str | None, content: bytes | None) -> "RollbackEntry":
        after = None if content is None else sha256_of(content)
        temporary, backup = atomic.fresh_name("new"), atomic.fresh_name("old")
        return cls(real=real, before=before, after=after, temporary=temporary, backup=backup)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStep:
    """The change of one file."""

    place: FileLocation
    """Where the file is."""
    content: bytes | None
    """Its new content; None removes it."""
    entry: RollbackEntry
    """How the journal records it."""
    check: Callable[[], None]
    """Called directly before the step becomes visible; an exception undoes everything."""
    moved_from: FileLocation | None = None
    """Where a new file takes its owner, attributes and mode from."""


def run_transaction(
    steps: Sequence[TransactionStep], journals: Path | None
) -> list[os.stat_result | None]:
    """Execute all steps, or none; return the new status of each file.

    `journals` is the folder for journals that survive a crash; a single step needs none. Raises
    FileError if a step failed. Everything is as before, or the message says what is not.
    """
    if len(steps) == 1 and steps[0].content is not None:
        return [atomic.replace(steps[0].place, steps[0].content, check=steps[0].check)]
    journal = None
    if journals is not None and len(steps) > 1:
        journal = RollbackJournal.open(journals, [step.entry for step in steps])
    statuses: list[os.stat_result | None] = []
    failure: BaseException | None = None
    try:
        in_place = [_stage(step, step.entry) for step in steps]
        for folder in {step.place.folder for step in steps}:
            atomic.sync_folder(folder)
        for step, is_in_place in zip(steps, in_place, strict=True):
            with atomic.reporting_unwritten(step.place):
                statuses.append(_make_visible(step, is_in_place=is_in_place))
                atomic.sync_folder(step.place.folder)
        if journal is not None:
            journal.append(_DONE)
    except BaseException as error:
        failure = error
    left: list[str] = []
    is_clear = True
    for number, step in reversed(list(enumerate(steps))):
        is_undone = failure is not None and number < len(statuses)
        problem, is_removed = _settled(step.place, step.entry, undo=is_undone)
        left += [problem] if problem and is_undone else []
        is_clear &= is_removed
    if journal is not None:
        # After this, the next start only removes the backups.
        journal.close(keep=bool(left) or not is_clear)
    if isinstance(failure, FileError | OSError):
        hint = (failure.hint if isinstance(failure, FileError) else "") or "Nothing was changed."
        hint = " ".join(["Not all of it could be undone:", *left]) if left else hint
        raise FileError(_reason(failure), hint=hint) from failure
    if failure is not None:
        raise failure
    return statuses


def _undo_change(place: FileLocation, entry: RollbackEntry) -> str:
    """Restore the file at `place`, or return a sentence why not. Raises FileError, OSError."""
    now = _digest_at(place)
    if now == entry.before:
        return ""
    if now != entry.after:
        backup = os.path.join(os.path.dirname(entry.real), entry.backup)
        old = "" if entry.before is None else f" Its old content is in {backup}."
        left = "was modified during an interrupted change, and was left as it is"
        return f"{entry.real} {left}.{old}"
    if entry.before is None:
        place.unlink(place.name)
    elif _is_copy(place, entry.backup):
        atomic.write_in_place(place, place.read(entry.backup))
    else:
        # Rename the old file itself, which needs no space on a possibly full disk.
        os.rename(entry.backup, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    atomic.sync_folder(place.folder)
    return ""


def _is_copy(place: FileLocation, backup: str) -> bool:
    """Whether the file at `place` was overwritten, so that the backup only has its content."""
    files = place.status(), place.status(backup)
    return len({(each.st_uid, each.st_gid, each.st_mode) for each in files if each}) > 1


def _digest_at(place: FileLocation) -> str | None:
    if place.status() is None:
        return None
    try:
        descriptor, _ = open_regular(place.folder, place.name, place.shown)
    except FileError:
        return _OTHER
    with os.fdopen(descriptor, "rb") as stream:
        return sha256_of(stream.read())


class RollbackJournal:
    """An open journal, locked while this process works on the change."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, entries: Sequence[RollbackEntry]) -> "RollbackJournal":
        """Write a new journal of `entries` in `folder` to disk. Raises FileError."""
        path = folder / atomic.fresh_name("patch").lstrip(".")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            journal = cls(path, os.open(path, flags, 0o600))
            try:
                fcntl.flock(journal._descriptor, fcntl.LOCK_EX)
                journal.append(json.dumps([asdict(each) for each in entries]).encode() + b"\n")
                with _open_folder(os.path.realpath(folder)) as descriptor:
                    atomic.sync_folder(descriptor)
            except BaseException:
                journal.close(keep=False)
                raise
        except OSError as error:
            raise FileError(
                f"{path}: the journal of this change cannot be written: {reason_of(error)}.",
                hint="Nothing was changed. Change one file at a time, or free space there.",
            ) from error
        return journal

    def close(self, *, keep: bool) -> None:
        """Close the journal. `keep`: the next start still has something to undo."""
        if not keep:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def append(self, content: bytes) -> None:
        """Write `content` to disk. After `_DONE` the change is complete, and is not undone."""
        atomic.write_all(self._descriptor, content)
        os.fsync(self._descriptor)


def roll_back_leftovers(folder: Path, concerns: Callable[[str], bool]) -> list[str]:
    """Undo interrupted changes of files that `concerns` accepts; return notices for the user."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    notices: list[str] = []
    for name in names:
        with contextlib.suppress(OSError), _locked(folder / name) as (entries, is_done):
            if entries and not any(concerns(entry.real) for entry in entries):
                continue
            new_notices, is_stuck = _finish(entries, is_done=is_done)
            if not is_stuck:
                (folder / name).unlink()
            notices += new_notices
    return notices


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[tuple[list[RollbackEntry], bool]]:
    """Yield the entries of a journal, and whether its change was complete.

    An incomplete journal has no entries: no file was changed then. Raises OSError if another
    process uses it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with closing_descriptor(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lines = path.read_bytes().splitlines(keepends=True)
        entries: list[RollbackEntry] = []
        with contextlib.suppress(IndexError, ValueError, TypeError):
            entries = [RollbackEntry(**each) for each in json.loads(lines[0])]
        yield entries, lines[1:] == [_DONE]


def _finish(entries: Sequence[RollbackEntry], *, is_done: bool) -> tuple[list[str], bool]:
    """Undo the change, or remove its backups if it was complete; return (notices, any left)."""
    restored, notices, is_stuck = [], [], False
    for entry in reversed(entries):
        folder, name = os.path.split(entry.real)
        problem, is_removed, is_changed = "", True, False
        try:
            with _open_folder(folder) as descriptor:
                place = FileLocation(descriptor, name, entry.real)
                is_changed = not is_done and _digest_at(place) != entry.before
                problem, is_removed = _settled(place, entry, undo=is_changed)
        except (FileError, OSError) as error:
            problem, is_removed = f"{entry.real} could not be restored: {_reason(error)}", False
        is_stuck |= not is_removed
        if problem:
            notices.append(problem)
        elif is_changed:
            restored.append(entry.real)
    if restored:
        named = ", ".join([*reversed(restored)][:_MOST_NAMED])
        more = len(restored) - _MOST_NAMED
        files = f"{named} and {more} more" if more > 0 else named
        notices.insert(0, f"A change of several files was interrupted and undone: {files}.")
    return notices, is_stuck


def _reason(error: FileError | OSError) -> str:
    return f"{reason_of(error)}." if isinstance(error, OSError) else error.message


@contextlib.contextmanager
def _open_folder(real: str) -> Iterator[int]:
    with (
        closing_descriptor(open_folder_handle("/")) as root,
        closing_descriptor(open_beneath(root, real.lstrip("/"), FOLDER)) as folder,
    ):
        yield folder


def _settled(place: FileLocation, entry: RollbackEntry, *, undo: bool) -> tuple[str, bool]:
    """Undo the change at `place` if asked to, and remove what was stored beside it.

    Returns why it could not be undone, and whether nothing is left to do at the next start.
    """
    try:
        problem = _undo_change(place, entry) if undo else ""
        place.unlink(entry.temporary)
        if not problem:
            place.unlink(entry.backup)
    except (FileError, OSError) as error:
        return f"{place.shown} could not be restored: {_reason(error)}", False
    return problem, True


def _stage(step: TransactionStep, entry: RollbackEntry) -> bool:
    """Put new and old content beside the place; return True if it must be written in place."""
    with atomic.reporting_unwritten(step.place):
        atomic.clear_leftovers(step.place.folder)
        old = step.place.status()
        if old is not None:
            atomic.refuse_unwritable(step.place, old)
        if step.content is None:
            _link(step.place, entry.backup)
            return False
        if old is None:
            _create(step, entry.temporary, step.content)
            return False
        with contextlib.suppress(OwnerLost):
            _write(step.place, entry.temporary, step.content, like=old)
            _link(step.place, entry.backup)
            return False
        step.place.unlink(entry.temporary)
        atomic.refuse_shared(step.place, old)
        # A second name would change with the file, so the old content is copied.
        _write(step.place, entry.backup, step.place.read(), like=None, mode=0o600)
        return True


def _make_visible(step: TransactionStep, *, is_in_place: bool) -> os.stat_result | None:
    place, temporary = step.place, step.entry.temporary
    if step.content is None:
        step.check()
        os.unlink(place.name, dir_fd=place.folder)
        return None
    if is_in_place:
        return atomic.write_in_place(place, step.content, check=step.check)
    status = os.stat(temporary, dir_fd=place.folder, follow_symlinks=False)
    step.check()
    os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return status


def _create(step: TransactionStep, name: str, content: bytes) -> None:
    source = step.moved_from
    like = source.status() if source is not None else None
    if source is None or like is None:
        _write(step.place, name, content, like=None)
        return
    try:
        _write(step.place, name, content, like=like, source=source)
    except OwnerLost:
        step.place.unlink(name)
        _write(step.place, name, content, like=None, mode=stat.S_IMODE(like.st_mode))


def _write(
    place: FileLocation,
    name: str,
    content: bytes,
    *,
    like: os.stat_result | None,
    source: FileLocation | None = None,
    mode: int | None = None,
) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    with closing_descriptor(place.open(name, flags)) as descriptor:
        atomic.fill(source or place, descriptor, content, like=like, mode=mode)


def _link(place: FileLocation, name: str) -> None:
    """Give the file a second name, so that it survives; a copy where links are not possible."""
    try:
        folders = {"src_dir_fd": place.folder, "dst_dir_fd": place.folder}
        os.link(place.name, name, follow_symlinks=False, **folders)
    except OSError:
        with contextlib.suppress(OwnerLost):
            _write(place, name, place.read(), like=place.status())
