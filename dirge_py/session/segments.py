"""The files of one session: `<id>.jsonl`, and when that is full `<id>/0002.jsonl` and so on.

Only the last one is written. Each later one begins with a `segment` record that says which it is
and what came before; `seq` and `parent` run through, so that readers see one journal.
"""

import contextlib
import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.blobs import with_blobs
from dirge_py.session.disk import READ_FLAGS, open_regular
from dirge_py.session.scan import Scan, merge, scan
from dirge_py.types.errors import SessionError

_NAME = re.compile(r"[0-9]{4,9}\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a segment is full: at so many records, or so many bytes, whichever comes first."""

    records: int = 10_000
    size: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A session as its files hold it.

    `records` are those of all segments, in order, with their large texts. `parts` says what was
    found in each, by number; `missing` are the numbers between them that have no file.
    """

    scan: Scan
    parts: Mapping[int, Scan]
    missing: Sequence[int] = ()


def folder_of(first: Path) -> Path:
    """The folder of what belongs to the session besides its first segment."""
    return first.with_name(first.name.removesuffix(".jsonl"))


def segment_path(first: Path, number: int) -> Path:
    return first if number == 1 else folder_of(first) / f"{number:04}.jsonl"


def segment_numbers(first: Path) -> list[int]:
    """The numbers of the segments there are, in order."""
    return sorted({*([1] if os.path.lexists(first) else []), *_later(folder_of(first))})


def read_segments(first: Path) -> Reading:
    """All that is intact, from the first segment to the last; no lock is taken.

    Raises:
        SessionError: there is none, or one cannot be read.
    """
    numbers = segment_numbers(first) or [1]
    with _no_collecting():
        parts = {number: _read(segment_path(first, number)) for number in numbers}
        found = merge(list(parts.values()))
    return Reading(
        scan=with_blobs(found, folder_of(first)),
        parts=parts,
        missing=sorted(set(range(1, numbers[-1])) - set(numbers)),
    )


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """A time in which the collector does not look, again and again, through what is being read.

    All of it stays; looking would take a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _later(folder: Path) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return
    for name in filter(_NAME.fullmatch, names):
        number = int(name.partition(".")[0])
        if number > 1 and name == f"{number:04}.jsonl":
            yield number


def _read(path: Path) -> Scan:
    fd = open_regular(path, READ_FLAGS)
    try:
        with open(fd, "rb") as lines:
            return scan(lines)
    except OSError as error:
        raise SessionError(
            f"The session file {str(path)!r} cannot be read: {error.strerror}.",
            hint="Check the disk.",
        ) from error
