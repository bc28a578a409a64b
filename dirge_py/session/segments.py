"""The files of one session: `<id>.jsonl`, then `<id>/0002.jsonl` and so on, and blobs.

Only the last segment is written. Each later one begins with a `segment` record that names its
number and its predecessor; `seq` and `parent` continue over segments, so that readers see one
journal. Scanning returns all intact records, however damaged the rest is.

Each large text of a tool result is stored once in a file named by its content. The record holds a
reference in place of the text, and lists it in the member `blobs`:

    {"role": "toolResult", …, "content": "[70000 bytes: blobs/9f86d0…]",
     "blobs": [{"at": ["content"], "sha256": "9f86d0…", "bytes": 70000}]}

`read_segments` puts the texts back.
"""

import contextlib
import gc
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from dirge_py.files.atomic import write_all
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.record import (
    VERSION,
    Record,
    StoredRecord,
    decode,
    decode_data,
    decode_envelope,
    encode,
    text_member,
)
from dirge_py.types.errors import SessionError

READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file; returns its descriptor. Raises SessionError, also for a link."""
    try:
        fd = os.open(path, flags)
    except OSError as error:
        raise SessionError(
            f"Cannot open the session file {str(path)!r}: {error.strerror}.",
            hint="`dirge -r` lists the sessions.",
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SessionError(f"{str(path)!r} is not a regular file.", hint="Move it away.")
    return fd


def make_folders(folder: Path) -> None:
    """Make a folder and missing ones above it, private to the owner, safe from a power cut."""
    for missing in reversed([at for at in (folder, *folder.parents) if not at.exists()]):
        with contextlib.suppress(FileExistsError):
            missing.mkdir(mode=0o700)
            sync_folder(missing.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder, if possible, so that the names of new files in it survive a power cut."""
    with (
        contextlib.suppress(OSError),
        closing_descriptor(os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)) as fd,
    ):
        os.fsync(fd)


_RECORD_BEGIN = late_pattern(rb'\{"v":\d+,"seq":')
_RECORD_END = late_pattern(rb',"crc":"[0-9a-f]{8}"\}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The content of a journal."""

    records: list[Record]
    """The records in order of `seq`, each once, unknown types included."""
    damage: list[bytes]
    """The damaged bytes."""
    torn_at: int | None = None
    """The offset of an unfinished end of the file, which is also in `damage`; None without one."""
    is_newer: bool = False
    """Whether it holds records of a newer format, so that this version must not write."""


def scan(lines: Iterable[bytes], file: "SegmentContent | None" = None) -> Scan:
    """Read every line (each with its line end, as a binary file gives them). Never raises.

    With `file`, from which they come, the data of records is read from it when it is used.
    """
    found: list[Record] = []
    damage: list[bytes] = []
    torn_at = None
    offset = 0
    for line in lines:
        body = line.removesuffix(b"\n")
        if file is None:
            record = decode(body)
        else:
            before = found[-1] if found else None
            record = decode_envelope(body, file, offset, before=before)
        for start, piece, salvaged in _salvage(body) if record is None else [(0, body, record)]:
            if salvaged is not None:
                found.append(salvaged)
                continue
            damage.append(piece)
            if not line.endswith(b"\n") and start + len(piece) == len(body):
                torn_at = offset + start
        offset += len(line)
    return _scan_of(found, damage, torn_at)


def _scan_of(found: Sequence[Record], damage: Sequence[bytes], torn_at: int | None) -> Scan:
    """The records by `seq`; a different second record with the same `seq` counts as damage."""
    by_seq: dict[int, Record] = {}
    conflicting = [
        record for record in found if by_seq.setdefault(record.seq, record).id != record.id
    ]
    return Scan(
        records=[by_seq[seq] for seq in sorted(by_seq)],
        damage=[*damage, *(encode(record).rstrip(b"\n") for record in conflicting)],
        torn_at=torn_at,
        is_newer=any(record.v > VERSION for record in by_seq.values()),
    )


def _salvage(body: bytes) -> Iterator[tuple[int, bytes, Record | None]]:
    """Split a line with torn, glued or NUL bytes into records and damage, with offsets."""
    starts = [0, *(match.start() for match in _RECORD_BEGIN.finditer(body) if match.start() > 0)]
    for start, stop in zip(starts, [*starts[1:], len(body)], strict=True):
        piece = body[start:stop]
        end = _RECORD_END.search(piece)
        record = decode(piece[: end.end()]) if end else None
        if record is not None and end is not None:
            yield start, piece[: end.end()], record
            start, piece = start + end.end(), piece[end.end() :]
        if piece:
            yield start, piece, None


_SEGMENT_NAME = late_pattern(r"[0-9]{4,9}\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """The limits at which a segment is full, whichever comes first."""

    records: int = 10_000
    """The number of records."""
    size: int = 16 * 1024 * 1024
    """The bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFiles:
    """The content of a session's files."""

    scan: Scan
    """The content of all segments together, with their large texts."""
    parts: Mapping[int, Scan]
    """The content of each segment, by number."""
    missing: Sequence[int] = ()
    """The numbers of missing segments."""


def folder_of(first: Path) -> Path:
    """The folder of the session's further files."""
    return first.with_name(first.name.removesuffix(".jsonl"))


def segment_path(first: Path, number: int) -> Path:
    return first if number == 1 else folder_of(first) / f"{number:04}.jsonl"


def segment_numbers(first: Path) -> list[int]:
    """The numbers of the existing segments, in order."""
    numbers = {1} if os.path.lexists(first) else set()
    with contextlib.suppress(OSError):
        for name in filter(_SEGMENT_NAME.fullmatch, os.listdir(folder_of(first))):
            number = int(name.partition(".")[0])
            if number > 1 and name == f"{number:04}.jsonl":
                numbers.add(number)
    return sorted(numbers)


def read_segments(first: Path) -> SessionFiles:
    """Read all segments without a lock. Raises SessionError: none exists, or one is unreadable."""
    numbers, folder = segment_numbers(first) or [1], folder_of(first)
    with _no_collecting():
        parts = {number: _scan_file(segment_path(first, number), folder) for number in numbers}
        found = parts[numbers[-1]]
        if len(parts) > 1:
            records = [record for part in parts.values() for record in part.records]
            damage = [piece for part in parts.values() for piece in part.damage]
            found = _scan_of(records, damage, found.torn_at)
    return SessionFiles(
        scan=restore_large_texts(found, folder),
        parts=parts,
        missing=sorted(set(range(1, numbers[-1])) - set(numbers)),
    )


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Turn off garbage collection for the block, where it takes a third of the time for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class SegmentContent:
    """The records of a segment, read one at a time; `folder` has the session's further files."""

    __slots__ = ("_fd", "_folder")

    def __init__(self, fd: int, folder: Path) -> None:
        """Take over the descriptor `fd`, which is closed with the last record."""
        self._fd, self._folder = fd, folder

    def read_data(self, kind: str, offset: int, size: int) -> Any:
        """The data of the record of type `kind` on these bytes, with its large texts."""
        data = decode_data(os.pread(self._fd, size, offset))
        return _with_large_texts(data, self._folder) if _names_blobs(kind, data) else data

    def __del__(self) -> None:
        os.close(self._fd)


def _scan_file(path: Path, folder: Path) -> Scan:
    try:
        with open(open_regular(path, READ_FLAGS), "rb") as lines:
            return scan(lines, SegmentContent(os.dup(lines.fileno()), folder))
    except OSError as error:
        raise SessionError(
            f"Cannot read the session file {str(path)!r}: {error.strerror}.", hint="Check the disk."
        ) from error


MAX_INLINE_CHARS = 16 * 1024
"""The longest text that stays in its record, in characters."""
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_SHA256 = late_pattern(r"[0-9a-f]{64}")
_Place = list[str | int]


def store_large_texts(record: Record, folder: Path) -> Record:
    """The record with references to its large texts, written to `folder`/blobs. Raises OSError."""
    data, kept = record.data, []

    def stored(value: Any, place: _Place) -> Any:
        if isinstance(value, str) and len(value) > MAX_INLINE_CHARS:
            content = value.encode("utf-8", "surrogatepass")
            digest = hashlib.sha256(content).hexdigest()
            _write_blob(folder / "blobs", digest, content)
            kept.append({"at": place, "sha256": digest, "bytes": len(content)})
            return f"[{len(content)} bytes: blobs/{digest}]"
        if isinstance(value, Mapping):
            return {
                name: stored(item, [*place, name]) if isinstance(name, str) else item
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [stored(item, [*place, number]) for number, item in enumerate(value)]
        return value

    match record.type, data:
        case (_, {"blobs": _}):
            pass
        case ("tool_finished", {}) | ("message", {"role": "toolResult"}):
            data = stored(data, [])
        case "context", {"messages": [*messages]}:
            results = [
                stored(each, ["messages", n]) if text_member(each, "role") == "toolResult" else each
                for n, each in enumerate(messages)
            ]
            data = {**data, "messages": results}
    return replace(record, data={**data, "blobs": kept}) if kept else record


def restore_large_texts(found: Scan, folder: Path) -> Scan:
    """The scan with its large texts restored; a remark replaces a missing one."""
    restored = {
        record.seq: replace(record, data=_with_large_texts(record.data, folder))
        for record in found.records
        # The others are read when they are used.
        if not isinstance(record, StoredRecord) and _names_blobs(record.type, record.data)
    }
    if not restored:
        return found
    return replace(found, records=[restored.get(r.seq, r) for r in found.records])


def _names_blobs(kind: str, data: Any) -> bool:
    is_stored = kind in ("message", "tool_finished", "context")
    return is_stored and isinstance(data, dict) and isinstance(data.get("blobs"), list)


def _with_large_texts(data: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The data without `blobs`; lists and objects within it are changed in place."""
    whole = {name: value for name, value in data.items() if name != "blobs"}
    for kept in data["blobs"]:
        # dirge never writes anything else here; leave such data unchanged.
        with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
            *way, last = kept["at"]
            owner, digest = reduce(getitem, way, whole), kept["sha256"]
            if _SHA256.fullmatch(digest) and isinstance(owner[last], str):
                owner[last] = _blob_text(folder / "blobs" / digest, digest)
    return whole


def _blob_text(path: Path, digest: str) -> str:
    try:
        content = read_from(path)
    except OSError as error:
        return f"[This output is gone: blobs/{digest} cannot be read ({error.strerror}).]"
    if hashlib.sha256(content).hexdigest() != digest:
        return f"[This output is gone: blobs/{digest} is damaged.]"
    return content.decode("utf-8", "surrogatepass")


def read_from(path: Path, start: int = 0, most: int = -1) -> bytes:
    """At most so many bytes of a file from `start` on; a link isn't followed. Raises OSError."""
    with open(os.open(path, READ_FLAGS), "rb") as file:
        file.seek(start)
        return file.read(most)


def _write_blob(folder: Path, digest: str, content: bytes) -> None:
    path = folder / digest
    with contextlib.suppress(OSError):
        if read_from(path) == content:
            return
    make_folders(folder)
    unfinished = path.with_suffix(".part")
    fd = os.open(unfinished, _WRITE_FLAGS, 0o600)
    try:
        with open(fd, "wb", buffering=0):
            write_all(fd, content)
            os.fsync(fd)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_folder(folder)
