"""Summaries of a project's sessions, from the ends of the journals or, for the index, from all."""

import contextlib
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field, replace
from dataclasses import dataclass as mutable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message, decode_usage
from dirge_py.session.history import SessionSpending, title_of
from dirge_py.session.record import Record, decode, json_text, parse_timestamp, text_member
from dirge_py.session.segments import (
    Scan,
    folder_of,
    read_from,
    restore_large_texts,
    scan,
    segment_numbers,
    segment_path,
)
from dirge_py.types.messages import Usage, UserMessage


class FileMark(NamedTuple):
    """The state of one file of a session when it was read."""

    name: str
    """Its path in the folder of the project."""
    inode: int
    """Its inode: another one means another file."""
    size: int
    """Its size in bytes."""
    mtime_ns: int
    """When it was last changed."""
    read: int = 0
    """The offset after its last whole line."""


FileMarks = tuple[FileMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session in a list."""

    project: str
    """The name of the project's session folder."""
    id: str
    """The id of the session."""
    title: str
    """Its title, or its first prompt."""
    started: datetime
    """When it began."""
    updated: datetime
    """When its last record was written."""
    messages: int
    """How many messages it has on all branches."""
    cwd: str
    """The folder in which it began."""
    model: str
    """The model used last."""
    usage: Usage | None = None
    """The tokens of all branches; None if unknown."""
    cost_usd: float | None = None
    """The cost of all branches; None if any price is unknown."""
    git_branch: str = ""
    """The git branch of its last run; "" if unknown."""
    last_text: str = ""
    """The beginning of the last prompt or answer, on one line; "" if unknown."""
    is_damaged: bool = False
    """Whether a part of it is missing or can't be read. `list_sessions`, which reads only the ends
    of files, misses damage in their middle until the session is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpending:
    """What the requests to one model cost on one day, in one session or in several."""

    day: str
    """The day in the local time zone, as `2026-01-31`."""
    model: str
    """The model; "" if unknown."""
    cwd: str
    """The folder of the project."""
    requests: int
    """The number of answered requests."""
    input_tokens: int
    """The tokens sent."""
    output_tokens: int
    """The tokens received."""
    cost_usd: float
    """The sum of the known prices."""
    unpriced: int
    """The number of requests with an unknown price."""


DAMAGED = "damaged: "
"""Precedes the title of a damaged session in lists."""


def damaged_sessions(folder: Path) -> frozenset[str]:
    """The ids of the sessions in the folder of a project whose damaged bytes were kept."""
    return frozenset(path.stem for path in folder.glob("*.damaged"))


def newest_first(sessions: Iterable[SessionSummary]) -> list[SessionSummary]:
    """The sessions, the most recently used first."""
    return sorted(sessions, key=lambda session: (session.updated, session.id), reverse=True)


def are_unchanged(before: FileMarks, now: FileMarks) -> bool:
    """Whether the file system reports no change between two states of the files."""
    return [mark[:-1] for mark in before] == [mark[:-1] for mark in now]


def sessions_in(folder: Path) -> dict[str, FileMarks]:
    """The regular files of each session of a project that isn't empty, in the order of writing."""
    try:
        with os.scandir(folder) as scanned:
            entries = {entry.name: entry for entry in scanned}
    except OSError:
        return {}
    sessions = {}
    for name, entry in entries.items():
        if not name.endswith(".jsonl"):
            continue
        session_id = name.removesuffix(".jsonl")
        marks = [_mark_file(entry, name)]
        # Only a session with a folder can have more; one that was just deleted has none.
        if session_id in entries:
            paths = (segment_path(folder / name, n) for n in segment_numbers(folder / name))
            marks += [
                _mark_file(path, str(path.relative_to(folder))) for path in islice(paths, 1, None)
            ]
        if marks[0] is not None and any(mark.size for mark in marks if mark):
            sessions[session_id] = tuple(filter(None, marks))
    return sessions


def _mark_file(file: "os.DirEntry[str] | Path", name: str) -> FileMark | None:
    with contextlib.suppress(OSError):
        status = file.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return FileMark(name, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


def read_whole(folder: Path, marks: FileMarks) -> tuple[Scan, FileMarks]:
    """Read the whole files; returns the records and the new marks. Raises OSError."""
    contents = [read_from(folder / mark.name) for mark in marks]
    # Not `splitlines`: damaged bytes may hold a carriage return.
    lines = (line for content in contents for line in io.BytesIO(content))
    ends = [content.rfind(b"\n") + 1 for content in contents]
    now = tuple(mark._replace(read=end) for mark, end in zip(marks, ends, strict=True))
    return restore_large_texts(scan(lines), folder_of(folder / marks[0].name)), now


def read_appended(
    folder: Path, before: FileMarks, now: FileMarks, *, last_seq: int
) -> tuple[list[Record], FileMarks] | None:
    """The records added since `before`; None after any other change. Raises OSError."""
    same = len(before)
    if not same or len(now) < same or not are_unchanged(before[:-1], now[: same - 1]):
        return None
    if before[-1][:2] != now[same - 1][:2] or now[same - 1].size < before[-1].read:
        return None
    marks = list(before[:-1])
    lines: list[bytes] = []
    for number in range(same - 1, len(now)):
        start = before[number].read if number < same else 0
        content = read_from(folder / now[number].name, start)
        end = content.rfind(b"\n") + 1
        lines += io.BytesIO(content[:end])
        marks.append(now[number]._replace(read=start + end))
    found = scan(lines)
    if found.damage or any(record.seq <= last_seq for record in found.records[:1]):
        return None
    return restore_large_texts(found, folder_of(folder / now[0].name)).records, tuple(marks)


def decode_marks(text: str) -> FileMarks:
    """The marks that `text` encodes in JSON. Raises ValueError, TypeError: it doesn't."""
    rows: Iterable[Any] = json.loads(text)
    return tuple(FileMark(*row) for row in rows)


_LONGEST_WORDS = 200_000
_LONGEST_CALL = 1_000
_LONGEST_RESULT = 1_000
_LONGEST_PREVIEW = 200
_SPOKEN = (None, "user", "model")
"""The origins of messages that a person or the model wrote; defaults may be left out."""
_BLANKS = dict.fromkeys(range(32), " ")


@mutable(slots=True, kw_only=True)
class SessionTotals:
    """The sums and newest choices of the records so far."""

    title: str = ""
    first_prompt: str | None = None
    created: str = ""
    updated: str = ""
    cwd: str = ""
    model: str = ""
    forked_from: str = ""
    messages: int = 0
    spending: SessionSpending = field(default_factory=SessionSpending)
    git_branch: str = ""
    last_text: str = ""
    last_seq: int = 0
    is_damaged: bool = False
    """Whether there is damage besides an unfinished end."""
    days: dict[str, list[float]] = field(default_factory=dict)
    """By day and model with a tab between: requests, input, output, known cost, unpriced."""

    def add(self, record: Record) -> None:
        """Count one more record. Never raises, even if it is damaged."""
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
            case "usage":
                self._add_usage(record.ts, data)
            case "model" | "run_end":
                self.model = text_member(data, "model") or self.model
                self.title = text_member(data, "title") or self.title
            case "run_start":
                self.git_branch = text_member(data, "git_branch")
            case "message":
                self.messages += 1
                self._note_text(data)
                if data.get("role") == "user" and self.first_prompt is None:
                    message = decode_message(data)
                    if isinstance(message, UserMessage) and message.origin == "user":
                        self.first_prompt = title_of(message)

    def _add_usage(self, at: str, data: Mapping[str, Any]) -> None:
        moment = parse_timestamp(at)
        if moment is None:
            return
        usage, price = decode_usage(data.get("usage")), data.get("cost_usd")
        cost_usd = float(price) if isinstance(price, int | float) else None
        key = f"{moment.astimezone():%Y-%m-%d}\t{text_member(data, 'model')}"
        more = (1, usage.input, usage.output, cost_usd or 0.0, cost_usd is None)
        row = self.days.setdefault(key, [0, 0, 0, 0, 0])
        self.days[key] = [old + new for old, new in zip(row, more, strict=True)]

    def spending_by_day(self) -> Iterator[DaySpending]:
        for key, (requests, sent, received, cost, unpriced) in self.days.items():
            day, _, model = key.partition("\t")
            yield DaySpending(
                day=day,
                model=model,
                cwd=self.cwd,
                requests=int(requests),
                input_tokens=int(sent),
                output_tokens=int(received),
                cost_usd=cost,
                unpriced=int(unpriced),
            )

    def _note_text(self, message: Mapping[str, Any]) -> None:
        if message.get("role") in ("user", "assistant") and message.get("origin") in _SPOKEN:
            for _, text in islice(_texts_of_message(message), 1):
                self.last_text = text[:_LONGEST_PREVIEW]

    def summary(self, project: str, session_id: str, marks: FileMarks) -> SessionSummary:
        """The summary of the session, with times from its files where records have none."""
        changed = datetime.fromtimestamp(max(mark.mtime_ns for mark in marks) / 1e9, UTC)
        return SessionSummary(
            project=project,
            id=session_id,
            title=self.title or self.first_prompt or "",
            started=parse_timestamp(self.created) or changed,
            updated=parse_timestamp(self.updated) or changed,
            messages=self.messages,
            cwd=self.cwd,
            model=self.model,
            usage=self.spending.whole_usage,
            cost_usd=self.spending.whole_cost_usd,
            git_branch=self.git_branch,
            last_text=self.last_text,
            is_damaged=self.is_damaged
            or marks[-1].read < marks[-1].size
            or (len(marks) > 1 and Path(marks[-1].name).stem != f"{len(marks):04}"),
        )

    def as_json(self) -> str:
        return json_text(asdict(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SessionTotals":
        """The totals that `as_json` wrote; raises TypeError or LookupError for other values."""
        spent = value["spending"]
        usages = {name: Usage(**spent[name]) for name in ("usage", "unpriced")}
        return cls(**{**value, "spending": SessionSpending(**{**spent, **usages})})


# Header, choices and title come first and are short; the last run's end is short too.
_HEAD_BYTES = 8 * 1024
_TAIL_BYTES = 16 * 1024
# These bytes occur only in envelopes (see record.py).
_MESSAGE = b'","type":"message","id":"'
_RESULT = b'"role": "toolResult"'
_STAMP = late_pattern(rb'\{"v":\d+,"seq":\d+,"ts":"([0-9T:.-]+Z)","type":"')


def list_sessions(folder: Path, most: int | None = None) -> list[SessionSummary]:
    """The readable sessions of one project folder, the most recently used first; at most `most`.

    Only the first and last few kilobytes of each journal are read, so tokens and cost are unknown.
    """
    return newest_first(summary for _, summary in islice(_summaries(folder), most))


_MTIME_ERROR_S = 2.0
"""How much too old the file system may report a file, at most."""


def newest_session(folder: Path) -> SessionSummary | None:
    """The most recently used session of one project folder, as `list_sessions` summarizes it."""
    newest: SessionSummary | None = None
    for changed, summary in _summaries(folder):
        newest = newest_first(filter(None, (newest, summary)))[0]
        # A file is not older than its last record, so none of the rest can be newer.
        if changed + _MTIME_ERROR_S < newest.updated.timestamp():
            break
    return newest


def _summaries(folder: Path) -> Iterator[tuple[float, SessionSummary]]:
    """The readable sessions with the last change of their files, that of the latest first."""
    damaged = damaged_sessions(folder)
    found = [
        (max(mark.mtime_ns for mark in marks), session_id, marks)
        for session_id, marks in sessions_in(folder).items()
    ]
    for changed_ns, session_id, marks in sorted(found, reverse=True):
        with contextlib.suppress(OSError):
            summary = _summarise(folder, session_id, marks)
            is_damaged = summary.is_damaged or session_id in damaged
            summary = replace(summary, usage=None, cost_usd=None, is_damaged=is_damaged)
            yield changed_ns / 1e9, summary


def _summarise(folder: Path, session_id: str, marks: FileMarks) -> SessionSummary:
    """The summary from the ends of the files. Raises OSError."""
    paths = [folder / mark.name for mark in marks]
    totals = SessionTotals()
    for first in filter(None, map(decode, read_from(paths[0], 0, _HEAD_BYTES).split(b"\n"))):
        totals.add(first)
        if first.type == "message":
            break
    is_short = marks[-1].size <= _TAIL_BYTES
    tail = b"".join(
        read_from(folder / mark.name, max(0, mark.size - _TAIL_BYTES), _TAIL_BYTES)
        for mark in (marks[-2:] if is_short else marks[-1:])
    )
    messages = 0 if is_short and len(marks) == 1 else None
    last_spoken = b""
    for line in tail.split(b"\n"):
        # Messages are long: only their number counts, and the last text.
        if _MESSAGE in line:
            messages = None if messages is None else messages + 1
            last_spoken = last_spoken if _RESULT in line else line
        elif (record := decode(line)) is not None:
            totals.add(record)
            if record.type == "run_end" and isinstance(record.data, dict):
                messages = record.data.get("messages", messages)
    if (spoken := decode(last_spoken)) is not None:
        totals.add(spoken)
    if stamps := _STAMP.findall(tail):
        totals.updated = stamps[-1].decode()
    if messages is None:
        # Only a session killed in a long run has no end of a run near its own end.
        messages = sum(read_from(path).count(_MESSAGE) for path in paths)
    totals.messages = messages
    end = marks[-1].size if tail.endswith(b"\n") else 0
    read = (*marks[:-1], marks[-1]._replace(read=end))
    return totals.summary(folder.name, session_id, read)


def searchable_texts(record: Record) -> Iterator[tuple[str, str]]:
    """The texts of a record that a search finds, as `(kind, text)`, each on one line.

    Kinds are prompt, answer, call, result, title and summary. Of calls and results only the first
    thousand characters are searched, not every line of every file that was read.
    """
    data = record.data if isinstance(record.data, dict) else {}
    match record.type, data:
        case "title", {"title": str(title)}:
            yield "title", _one_line(title)
        case "message", _:
            yield from _texts_of_message(data)
        case "compaction", {"compaction": {"summary": str(summary)}}:
            yield "summary", _one_line(summary[:_LONGEST_WORDS])


_KIND_OF_ROLE = {"user": "prompt", "assistant": "answer", "toolResult": "result", "tool": "result"}


def _texts_of_message(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind, content = _KIND_OF_ROLE.get(text_member(data, "role")), data.get("content")
    if kind is None:
        return
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [block for block in blocks if isinstance(block, dict)]
    texts = [text_member(block, "text") for block in blocks if block.get("type") == "text"]
    words = "\n".join(filter(None, texts))
    if words:
        yield kind, _one_line(words[: _LONGEST_RESULT if kind == "result" else _LONGEST_WORDS])
    for block in blocks:
        if block.get("type") == "toolCall":
            arguments = block.get("arguments")
            values = arguments.values() if isinstance(arguments, dict) else [arguments]
            shown = [value if isinstance(value, str) else json_text(value) for value in values]
            call = " ".join([text_member(block, "name"), *shown])
            yield "call", _one_line(call[:_LONGEST_CALL])


def _one_line(text: str) -> str:
    # UTF-8 can't hold half a surrogate pair, and control characters mark matches in snippets.
    return " ".join(text.translate(_BLANKS).encode(errors="replace").decode().split())
