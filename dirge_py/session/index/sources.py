"""The files the sessions of one project are made of, and reading only what is new in them."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.blobs import with_blobs
from dirge_py.session.disk import READ_FLAGS
from dirge_py.session.record import Record, decode
from dirge_py.session.scan import Scan, scan
from dirge_py.session.segments import folder_of, segment_numbers, segment_path

_ENDING = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One file of a session as it was seen. `read` is the end of its last whole line, in bytes."""

    name: str
    inode: int
    size: int
    mtime_ns: int
    read: int = 0

    @property
    def seen(self) -> tuple[str, int, int, int]:
        return self.name, self.inode, self.size, self.mtime_ns


Marks = tuple[Mark, ...]


def are_as(before: Marks, now: Marks) -> bool:
    """Whether nothing has changed, as far as the file system tells."""
    return [mark.seen for mark in before] == [mark.seen for mark in now]


def sessions_in(folder: Path) -> dict[str, Marks]:
    """The files of each session in the folder of a project, in the order they were written.

    The first is `<id>.jsonl`, those that follow it are `<id>/0002.jsonl` and so on. Empty sessions
    and what is no regular file are left out.
    """
    try:
        with os.scandir(folder) as entries:
            here = list(entries)
    except OSError:
        return {}
    firsts = {
        entry.name.removesuffix(_ENDING): entry for entry in here if entry.name.endswith(_ENDING)
    }
    folders = {entry.name: entry for entry in here if entry.name in firsts}
    found = {}
    for session_id, first in firsts.items():
        marks = [mark for mark in (_mark(first, first.name),) if mark is not None]
        if marks and session_id in folders:
            marks += _segments(folders[session_id])
        if any(mark.size for mark in marks):
            found[session_id] = tuple(marks)
    return found


def _segments(folder: "os.DirEntry[str]") -> list[Mark]:
    first = Path(f"{folder.path}{_ENDING}")
    later = [segment_path(first, number) for number in segment_numbers(first) if number > 1]
    marks = [_mark(path, f"{folder.name}/{path.name}") for path in later]
    return [mark for mark in marks if mark is not None]


def _mark(file: "os.DirEntry[str] | Path", name: str) -> Mark | None:
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Mark(name=name, inode=status.st_ino, size=status.st_size, mtime_ns=status.st_mtime_ns)


def read_whole(folder: Path, marks: Marks) -> tuple[Scan, Marks]:
    """All that the files hold, damaged or not, with large texts, and how far each was read.

    Raises:
        OSError: one of them cannot be read.
    """
    pieces = [_bytes_from(folder / mark.name, 0) for mark in marks]
    lines = (line for piece in pieces for line in _lines(piece))
    return with_blobs(scan(lines), _own_folder(folder, marks)), tuple(
        _read_to(mark, piece.rfind(b"\n") + 1) for mark, piece in zip(marks, pieces, strict=True)
    )


def read_appended(
    folder: Path, before: Marks, now: Marks, *, last_seq: int
) -> tuple[list[Record], Marks] | None:
    """The records added since `before`; None if anything else has happened to the files.

    Raises:
        OSError: one of them cannot be read.
    """
    if not _has_only_grown(before, now):
        return None
    marks = list(before[:-1])
    records: list[Record] = []
    for number in range(len(before) - 1, len(now)):
        start = before[number].read if number < len(before) else 0
        piece = _bytes_from(folder / now[number].name, start)
        whole = piece[: piece.rfind(b"\n") + 1]
        for line in whole.split(b"\n")[:-1]:
            record = decode(line)
            if record is None or record.seq <= last_seq:
                return None
            last_seq = record.seq
            records.append(record)
        marks.append(_read_to(now[number], start + len(whole)))
    whole_texts = with_blobs(Scan(records=records, damage=[]), _own_folder(folder, now))
    return whole_texts.records, tuple(marks)


def marks_as_text(marks: Marks) -> str:
    return json.dumps([[m.name, m.inode, m.size, m.mtime_ns, m.read] for m in marks])


def marks_from_text(text: str) -> Marks:
    """Raises ValueError or TypeError for a text that `marks_as_text` never wrote."""
    rows: Iterable[Any] = json.loads(text)
    return tuple(
        Mark(name=name, inode=inode, size=size, mtime_ns=mtime_ns, read=read)
        for name, inode, size, mtime_ns, read in rows
    )


def _has_only_grown(before: Marks, now: Marks) -> bool:
    if not before or len(now) < len(before):
        return False
    if not are_as(before[:-1], now[: len(before) - 1]):
        return False
    last, same = before[-1], now[len(before) - 1]
    return (last.name, last.inode) == (same.name, same.inode) and same.size >= last.read


def _own_folder(folder: Path, marks: Marks) -> Path:
    return folder_of(folder / marks[0].name)


def _read_to(mark: Mark, end: int) -> Mark:
    return Mark(name=mark.name, inode=mark.inode, size=mark.size, mtime_ns=mark.mtime_ns, read=end)


def _bytes_from(path: Path, start: int) -> bytes:
    fd = os.open(path, READ_FLAGS)
    try:
        os.lseek(fd, start, os.SEEK_SET)
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _lines(piece: bytes) -> Iterator[bytes]:
    """Each with its line end. Not `splitlines`: damaged bytes may hold a carriage return."""
    start = 0
    while start < len(piece):
        end = piece.find(b"\n", start) + 1 or len(piece)
        yield piece[start:end]
        start = end
