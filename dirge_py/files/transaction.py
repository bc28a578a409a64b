"""Several files changed together: all of them, or none.

First every new content is on disk beside its place and every old one has a second name; only then
one rename follows the other. What breaks off in between is taken back.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dirge_py.files.atomic import write_in_place
from dirge_py.files.leftovers import clear_leftovers
from dirge_py.files.resolve import reason_of
from dirge_py.files.rollback import Entry, Journal, changed_since, undo
from dirge_py.files.staging import (
    OwnerLost,
    Place,
    fill,
    hint_of,
    refuse_shared,
    refuse_unwritable,
    sync_folder,
)
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What shall stand at one place: `content`, or nothing if that is None.

    `before` is the digest of what stands there now (None: nothing). `check` is called directly
    before the step becomes visible; what it raises takes everything back. `moved_from`: a new file
    takes owner, attributes and mode from there.
    """

    place: Place
    real: str
    content: bytes | None
    before: str | None
    check: Callable[[], None]
    moved_from: Place | None = None


def carry_out(steps: Sequence[Step], journals: Path | None) -> list[os.stat_result | None]:
    """Do all steps, or none; returns the status of each file that then stands there.

    `journals` is the folder for what must survive a crash; one step alone needs none.

    Raises:
        FileError: one could not be done. All is as before, or the message says what is not.
    """
    entries = [Entry.of(step.real, step.before, step.content) for step in steps]
    journal = Journal.open(journals, entries) if journals is not None and len(steps) > 1 else None
    work = _Work(steps, entries)
    keep = True
    try:
        statuses = work.do()
        if journal is not None:
            journal.finish()
        keep = False
    except BaseException as error:
        left = work.take_back()
        keep = bool(left)
        if isinstance(error, FileError | OSError):
            raise _failure(error, left) from error
        raise
    finally:
        is_clear = work.clear_up()
        if journal is not None:
            # Once it is done, the next start only clears up behind it.
            journal.close(keep=keep or not is_clear)
    return statuses


class _Work:
    def __init__(self, steps: Sequence[Step], entries: Sequence[Entry]) -> None:
        self._pairs = list(zip(steps, entries, strict=True))
        self._done = 0
        self._kept: set[str] = set()
        """Backups that are the only copy of something."""

    def do(self) -> list[os.stat_result | None]:
        in_place = [_stage(step, entry) for step, entry in self._pairs]
        for folder in {step.place.folder for step, _ in self._pairs}:
            sync_folder(folder)
        statuses: list[os.stat_result | None] = []
        for (step, entry), is_in_place in zip(self._pairs, in_place, strict=True):
            with _named(step):
                statuses.append(_make_visible(step, entry, is_in_place=is_in_place))
                self._done += 1
                sync_folder(step.place.folder)
        return statuses

    def take_back(self) -> list[str]:
        """Undo what became visible; returns a sentence for each file where that went wrong."""
        left: list[str] = []
        for step, entry in reversed(self._pairs[: self._done]):
            try:
                if undo(step.place, entry):
                    continue
                left.append(changed_since(entry))
            except (FileError, OSError) as error:
                reason = reason_of(error) if isinstance(error, OSError) else error.message
                left.append(f"{step.place.shown} could not be put back: {reason}.")
            self._kept.add(entry.backup)
        self._done = 0
        return left

    def clear_up(self) -> bool:
        """Remove what is not needed any more; False if some of it could not be."""
        is_clear = True
        for step, entry in self._pairs:
            for name in (entry.temporary, entry.backup):
                if name in self._kept:
                    continue
                try:
                    step.place.unlink(name)
                except OSError:
                    is_clear = False
        return is_clear


def _stage(step: Step, entry: Entry) -> bool:
    """Put new and old content beside the place; True if it must then be written in place."""
    with _named(step):
        clear_leftovers(step.place.folder)
        old = step.place.status()
        if old is not None:
            refuse_unwritable(step.place, old)
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
        refuse_shared(step.place, old)
        # A second name would change along with it, so the old content is copied.
        _write(step.place, entry.backup, step.place.read(), like=None, mode=0o600)
        return True


def _make_visible(step: Step, entry: Entry, *, is_in_place: bool) -> os.stat_result | None:
    place = step.place
    if step.content is None:
        step.check()
        os.unlink(place.name, dir_fd=place.folder)
        return None
    if is_in_place:
        return write_in_place(place, step.content, check=step.check)
    status = os.stat(entry.temporary, dir_fd=place.folder, follow_symlinks=False)
    step.check()
    os.rename(entry.temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return status


def _create(step: Step, name: str, content: bytes) -> None:
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
    place: Place,
    name: str,
    content: bytes,
    *,
    like: os.stat_result | None,
    source: Place | None = None,
    mode: int | None = None,
) -> None:
    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fill(source or place, descriptor, content, like=like, mode=mode)
    finally:
        os.close(descriptor)


def _link(place: Place, name: str) -> None:
    """A second name for the file, so that it outlives the first; a copy where links are not."""
    try:
        os.link(
            place.name,
            name,
            src_dir_fd=place.folder,
            dst_dir_fd=place.folder,
            follow_symlinks=False,
        )
    except OSError:
        with contextlib.suppress(OwnerLost):
            _write(place, name, place.read(), like=place.status())


@contextlib.contextmanager
def _named(step: Step) -> Iterator[None]:
    """Errors of the system name the file they are about."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{step.place.shown} was not written: {reason_of(error)}.", hint=hint_of(error)
        ) from error


def _failure(error: FileError | OSError, left: Sequence[str]) -> FileError:
    message = error.message if isinstance(error, FileError) else f"{reason_of(error)}."
    if left:
        return FileError(message, hint=" ".join(["Not all of it could be taken back:", *left]))
    return FileError(message, hint=(error.hint if isinstance(error, FileError) else "") or _INTACT)


_INTACT = "Nothing was changed."
