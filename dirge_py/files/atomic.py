"""Replacing a file's content so that every reader sees the old bytes or the new, never a mixture.

The usual way is a new file beside the old one, renamed over it: other names of the old one (hard
links) keep the old content. Where that would lose the owner, the bytes are written in place, after
a copy of the old ones is on disk; then a file with other names is refused.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from dirge_py.files.beneath import FOLDER
from dirge_py.files.resolve import absolute, reason_of, resolve
from dirge_py.files.staging import (
    OwnerLost,
    Place,
    fill,
    fresh_name,
    hint_of,
    new_file,
    read_all,
    refuse_shared,
    refuse_unwritable,
    sync_folder,
    write_all,
    write_some,
)
from dirge_py.types.errors import FileError


def atomic_write(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Make `content` the whole of the file at `path`; its folder must exist.

    A link is followed and kept. An existing file keeps its mode, owner and extended attributes; a
    new one gets `mode`, else what the umask leaves of 0666. On disk when this returns.

    Raises:
        FileError: it could not be done; the old content is untouched.
    """
    real = resolve(absolute(os.fspath(path), os.getcwd())).real
    try:
        folder = os.open(os.path.dirname(real), FOLDER | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(f"{os.path.dirname(real)}: {reason_of(error)}.") from error
    try:
        replace(Place(folder, os.path.basename(real), real), content, mode=mode)
    finally:
        os.close(folder)


def replace(
    place: Place,
    content: bytes,
    *,
    check: Callable[[], None] = lambda: None,
    mode: int | None = None,
) -> os.stat_result:
    """Put `content` at `place` and return the status of the file that now stands there.

    `check` is called when everything is prepared, directly before the change becomes visible; what
    it raises stops the change.

    Raises:
        FileError: it could not be done, or what stands there is no regular file we may write.
    """
    try:
        old = place.status()
        if old is not None:
            refuse_unwritable(place, old)
        with contextlib.suppress(OwnerLost):
            return _replace_by_rename(place, content, old=old, check=check, mode=mode)
        if old is not None:
            refuse_shared(place, old)
        return _replace_in_place(place, content, check=check)
    except OSError as error:
        raise FileError(
            f"{place.shown} was not written: {reason_of(error)}.", hint=hint_of(error)
        ) from error


def _replace_by_rename(
    place: Place,
    content: bytes,
    *,
    old: os.stat_result | None,
    check: Callable[[], None],
    mode: int | None,
) -> os.stat_result:
    with new_file(place) as (temporary, descriptor):
        fill(place, descriptor, content, like=old, mode=mode)
        status = os.fstat(descriptor)
        check()
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    sync_folder(place.folder)
    return status


def _replace_in_place(place: Place, content: bytes, *, check: Callable[[], None]) -> os.stat_result:
    # If this is killed, the copy stays: it may be the only whole one.
    with new_file(place, fresh_name("old")) as (_, copy):
        write_all(copy, place.read())
        os.fsync(copy)
        sync_folder(place.folder)
        return write_in_place(place, content, check=check)


def write_in_place(
    place: Place, content: bytes, *, check: Callable[[], None] = lambda: None
) -> os.stat_result:
    """Write over the file at `place`, which has a copy on disk; undo that if it breaks off.

    Raises:
        OSError: it could not be done.
    """
    descriptor = place.open(place.name, os.O_RDWR)
    try:
        before = read_all(descriptor)
        check()
        _overwrite(descriptor, content, before=before)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _overwrite(descriptor: int, content: bytes, *, before: bytes) -> None:
    """Write over an open file; if that breaks off, put the old bytes back."""
    try:
        # Room is taken first, so that a full disk shows before a byte has changed.
        if hasattr(os, "posix_fallocate") and content:
            os.posix_fallocate(descriptor, 0, len(content))
        _write_from_start(descriptor, content)
    except BaseException:
        _write_from_start(descriptor, before)
        raise


def _write_from_start(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, max(os.fstat(descriptor).st_size, len(content)))
    write_some(descriptor, content)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
