"""The journals of a project as the index reads them: only what is new, summed record by record."""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from dataclasses import dataclass as mutable
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message
from dirge_py.session.disk import READ_FLAGS
from dirge_py.session.history import SessionSpending, title_of
from dirge_py.session.record import Record, decode, json_text, text_member
from dirge_py.session.segments import (
    Scan,
    folder_of,
    restore_large_texts,
    scan,
    segment_numbers,
    segment_path,
)
from dirge_py.types.messages import Usage, UserMessage

_ENDING = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """One file of a session as it was seen. `read` is the end of its last whole line, in bytes."""

    name: str
    inode: int
    size: int
    mtime_ns: int
    read: int = 0

    @property
    def seen(self) -> tuple[str, int, int, int]:
        return self.name, self.inode, self.size, self.mtime_ns


FileMarks = tuple[FileMark, ...]


def are_unchanged(before: FileMarks, now: FileMarks) -> bool:
    """Whether nothing has changed, as far as the file system tells."""
    return [mark.seen for mark in before] == [mark.seen for mark in now]


def sessions_in(folder: Path) -> dict[str, FileMarks]:
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
        marks = [mark for mark in (_mark_file(first, first.name),) if mark is not None]
        if marks and session_id in folders:
            marks += _segments(folders[session_id])
        if any(mark.size for mark in marks):
            found[session_id] = tuple(marks)
    return found


def _segments(folder: "os.DirEntry[str]") -> list[FileMark]:
    first = Path(f"{folder.path}{_ENDING}")
    later = [segment_path(first, number) for number in segment_numbers(first) if number > 1]
    marks = [_mark_file(path, f"{folder.name}/{path.name}") for path in later]
    return [mark for mark in marks if mark is not None]


def _mark_file(file: "os.DirEntry[str] | Path", name: str) -> FileMark | None:
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileMark(
        name=name, inode=status.st_ino, size=status.st_size, mtime_ns=status.st_mtime_ns
    )


def read_whole(folder: Path, marks: FileMarks) -> tuple[Scan, FileMarks]:
    """All that the files hold, damaged or not, with large texts, and how far each was read.

    Raises:
        OSError: one of them cannot be read.
    """
    pieces = [_bytes_from(folder / mark.name, 0) for mark in marks]
    lines = (line for piece in pieces for line in _split_lines(piece))
    return restore_large_texts(scan(lines), _own_folder(folder, marks)), tuple(
        _read_to(mark, piece.rfind(b"\n") + 1) for mark, piece in zip(marks, pieces, strict=True)
    )


def read_appended(
    folder: Path, before: FileMarks, now: FileMarks, *, last_seq: int
) -> tuple[list[Record], FileMarks] | None:
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
    whole_texts = restore_large_texts(Scan(records=records, damage=[]), _own_folder(folder, now))
    return whole_texts.records, tuple(marks)


def encode_marks(marks: FileMarks) -> str:
    return json.dumps([[m.name, m.inode, m.size, m.mtime_ns, m.read] for m in marks])


def decode_marks(text: str) -> FileMarks:
    """Raises ValueError or TypeError for a text that `encode_marks` never wrote."""
    rows: Iterable[Any] = json.loads(text)
    return tuple(
        FileMark(name=name, inode=inode, size=size, mtime_ns=mtime_ns, read=read)
        for name, inode, size, mtime_ns, read in rows
    )


def _has_only_grown(before: FileMarks, now: FileMarks) -> bool:
    if not before or len(now) < len(before):
        return False
    if not are_unchanged(before[:-1], now[: len(before) - 1]):
        return False
    last, same = before[-1], now[len(before) - 1]
    return (last.name, last.inode) == (same.name, same.inode) and same.size >= last.read


def _own_folder(folder: Path, marks: FileMarks) -> Path:
    return folder_of(folder / marks[0].name)


def _read_to(mark: FileMark, end: int) -> FileMark:
    return FileMark(
        name=mark.name, inode=mark.inode, size=mark.size, mtime_ns=mark.mtime_ns, read=end
    )


def _bytes_from(path: Path, start: int) -> bytes:
    fd = os.open(path, READ_FLAGS)
    try:
        os.lseek(fd, start, os.SEEK_SET)
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _split_lines(piece: bytes) -> Iterator[bytes]:
    """Each with its line end. Not `splitlines`: damaged bytes may hold a carriage return."""
    start = 0
    while start < len(piece):
        end = piece.find(b"\n", start) + 1 or len(piece)
        yield piece[start:end]
        start = end


_LONGEST_WORDS = 200_000
_LONGEST_CALL = 1_000
_LONGEST_RESULT = 1_000
_BLANKS = dict.fromkeys(range(32), " ")


@mutable(slots=True, kw_only=True)
class SessionTotals:
    """The sums and newest choices of the records taken in so far."""

    title: str = ""
    first_prompt: str | None = None
    created: str = ""
    updated: str = ""
    cwd: str = ""
    model: str = ""
    forked_from: str = ""
    messages: int = 0
    spending: SessionSpending = field(default_factory=SessionSpending)
    last_seq: int = 0

    def take(self, record: Record) -> None:
        """Count one more record. Never raises, whatever the record holds."""
        self.last_seq = record.seq
        self.updated = record.ts
        self.spending = self.spending.after(record)
        data = record.data if isinstance(record.data, dict) else {}
        match record.type:
            case "session":
                self.created = text_member(data, "created")
                self.cwd = text_member(data, "cwd")
                self.forked_from = text_member(data, "forked_from")
            case "title":
                self.title = text_member(data, "title")
            case "model" | "run_end":
                self.model = text_member(data, "model") or self.model
            case "message":
                self.messages += 1
                self._take_prompt(data)

    def as_json(self) -> str:
        return json_text(asdict(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SessionTotals":
        """Raises TypeError or LookupError for what `as_json` never wrote."""
        spent = value["spending"]
        usages = {name: Usage(**spent[name]) for name in ("usage", "unpriced")}
        return cls(**{**value, "spending": SessionSpending(**{**spent, **usages})})

    def _take_prompt(self, data: Mapping[str, Any]) -> None:
        if data.get("role") == "user" and self.first_prompt is None:
            message = decode_message(data)
            if isinstance(message, UserMessage) and message.origin == "user":
                self.first_prompt = title_of(message)


def searchable_texts(record: Record) -> Iterator[tuple[str, str]]:
    """What can be found of a record: `(kind, text)`, each text on one line.

    Kinds are prompt, answer, call, result, title and summary. Calls and results count with their
    first thousand characters: the words people remember, not every line of every file read.
    """
    data = record.data if isinstance(record.data, dict) else {}
    match record.type, data:
        case "title", {"title": str(title)}:
            yield "title", _one_line(title)
        case "message", _:
            yield from _texts_of_message(data)
        case "compaction", {"compaction": {"summary": str(summary)}}:
            yield "summary", _one_line(summary[:_LONGEST_WORDS])


def _texts_of_message(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    role, content = data.get("role"), data.get("content")
    kind = {"user": "prompt", "assistant": "answer", "toolResult": "result", "tool": "result"}.get(
        role if isinstance(role, str) else ""
    )
    if kind is None:
        return
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = [
        text_member(b, "text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"
    ]
    words = "\n".join(filter(None, said))
    if words:
        yield kind, _one_line(words[: _LONGEST_RESULT if kind == "result" else _LONGEST_WORDS])
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "toolCall":
            yield "call", _one_line(_call_text(block)[:_LONGEST_CALL])


def _call_text(block: Mapping[str, Any]) -> str:
    arguments = block.get("arguments")
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    said = [value if isinstance(value, str) else json_text(value) for value in values]
    return " ".join([text_member(block, "name"), *said])


def _one_line(text: str) -> str:
    # Half a surrogate pair cannot be stored in UTF-8; control characters mark matches later on.
    return " ".join(text.translate(_BLANKS).encode(errors="replace").decode().split())
