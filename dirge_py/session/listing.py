"""Lists of sessions, from the first and last few kilobytes of each journal."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message
from dirge_py.session.disk import READ_FLAGS
from dirge_py.session.history import title_of
from dirge_py.session.record import Record, decode
from dirge_py.session.segments import segment_numbers, segment_path
from dirge_py.types.messages import UserMessage

# Header, choices and title come first and are short; the last run's end is short too.
_HEAD_BYTES = 8 * 1024
_TAIL_BYTES = 16 * 1024

# These bytes occur in envelopes only (see record.py).
_MESSAGE = b'","type":"message","id":"'
_STAMP = re.compile(rb'\{"v":\d+,"seq":\d+,"ts":"([0-9T:.-]+Z)","type":"')
_RUN_END = re.compile(rb'^\{"v":\d+,"seq":\d+,"ts":"[^"]+","type":"run_end",.*$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One line of a list of sessions. `title` is the first prompt, `messages` a count."""

    id: str
    title: str
    started: datetime
    updated: datetime
    messages: int
    cwd: str
    model: str


def list_sessions(folder: Path) -> list[SessionSummary]:
    """The sessions of one project folder, the last used first. What cannot be read is left out."""
    try:
        with os.scandir(folder) as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return []
    summaries = []
    for name in names:
        session_id = name.removesuffix(".jsonl")
        if session_id != name and (found := _summarise(folder / name, session_id in names)):
            summaries.append(found)
    return sorted(summaries, key=lambda summary: (summary.updated, summary.id), reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The two ends of a file, its size in bytes, and when it was changed."""

    head: bytes
    tail: bytes
    size: int
    changed: datetime


def _summarise(first: Path, has_folder: bool) -> SessionSummary | None:
    paths = [segment_path(first, n) for n in segment_numbers(first)] if has_folder else [first]
    try:
        looks = [_look(path) for path in dict.fromkeys((paths[0], *paths[-2:]))]
        tail = looks[-1].tail
        if len(looks) > 1 and looks[-1].size <= _TAIL_BYTES:
            tail = looks[-2].tail + tail
        end = _last_run_end(tail)
        if end is not None:
            count = end[1]
        elif len(paths) == 1 and looks[0].size <= _TAIL_BYTES:
            count = tail.count(_MESSAGE)
        else:
            # Only a session that was killed in a long run has no end of a run near its end.
            count = sum(map(_messages_in, paths))
    except OSError:
        return None
    if not looks[-1].size:
        return None
    found = _read_head(looks[0].head)
    stamps = _STAMP.findall(tail)
    changed = looks[-1].changed
    return SessionSummary(
        id=first.name.removesuffix(".jsonl"),
        title=found.get("title", ""),
        started=_moment(found.get("created", "")) or changed,
        updated=(_moment(stamps[-1].decode()) if stamps else None) or changed,
        messages=count,
        cwd=found.get("cwd", ""),
        model=(end[0] if end else "") or found.get("model", ""),
    )


def _look(path: Path) -> _Look:
    fd = os.open(path, READ_FLAGS)
    try:
        status = os.fstat(fd)
        return _Look(
            head=os.pread(fd, _HEAD_BYTES, 0),
            tail=os.pread(fd, _TAIL_BYTES, max(0, status.st_size - _TAIL_BYTES)),
            size=status.st_size,
            changed=datetime.fromtimestamp(status.st_mtime, UTC),
        )
    finally:
        os.close(fd)


def _messages_in(path: Path) -> int:
    with open(os.open(path, READ_FLAGS), "rb") as file:
        return sum(line.count(_MESSAGE) for line in file)


def _last_run_end(tail: bytes) -> tuple[str, int] | None:
    """The model and the number of messages, counted on from the end of the last run."""
    for match in reversed(list(_RUN_END.finditer(tail))):
        record = decode(match.group())
        if record is not None and isinstance(record.data, dict):
            model, messages = record.data.get("model"), record.data.get("messages")
            if isinstance(model, str) and isinstance(messages, int):
                return model, messages + tail.count(_MESSAGE, match.end())
    return None


def _read_head(head: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in _records_before_talk(head):
        match record.type, record.data:
            case "session", {"created": str(created), "cwd": str(cwd)}:
                found |= {"created": created, "cwd": cwd}
            case "model", {"model": str(model)}:
                found["model"] = model
            case "title", {"title": str(title)}:
                found["title"] = title
            case "message", data:
                message = decode_message(data)
                if isinstance(message, UserMessage):
                    found.setdefault("title", title_of(message))
    return found


def _records_before_talk(head: bytes) -> Iterator[Record]:
    """The records up to the first message, as far as they are whole within `head`."""
    for line in head.split(b"\n"):
        record = decode(line)
        if record is not None:
            yield record
            if record.type == "message":
                return


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
