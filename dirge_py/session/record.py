"""The record: one line of a journal, with a checksum.

    {"v":1,"seq":7,"ts":"…Z","type":"mode","id":"…","parent":"…","data":{"mode": "plan"},"crc":"…"}

The envelope is written without spaces, `data` with a space after every `,` and `:`, and inside
strings quotes are escaped. So the bytes `{"v":1,"seq":` only ever begin a record and `,"crc":"`
only ever ends one: glued and torn lines can be told apart, and nothing a model wrote can pose as a
record.

`crc` is the last member: zlib.crc32, in 8 lower-case hex digits, of the line's bytes without
`,"crc":"…"` and without the line end (CRC-32 rather than CRC-32C because the standard library has
it in C: 20 MB take 20 ms). Later format versions keep `v` and `crc` as they are.
"""

import json
import math
import re
import secrets
import zlib
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from sys import intern
from typing import Any, Protocol

from dirge_py.lib.lean_dataclass import dataclass

VERSION = 1

NO_RECORD = "0"
"""Stands for a record before the first one, in ids of events."""
_ENVELOPE = ("v", "seq", "ts", "type", "id", "parent")
_ENVELOPE_BYTES = re.compile(
    rb'\{"v":(\d+),"seq":(\d+),"ts":"([\d:.TZ+-]*)","type":"([\w-]*)","id":"([\w-]*)",'
    rb'"parent":(?:null|"([\w-]*)"),"data":'
)
"""How `encode` writes what precedes the data."""
_CRC_NAME = b',"crc":"'
_CRC_LENGTH = len(_CRC_NAME) + 8 + len(b'"}')
# Half of what the JSON parser can read within Python's recursion limit.
_DEEPEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry of a journal."""

    seq: int
    """Its position in the journal."""
    ts: str
    """When it was written (ISO 8601); for people, never compared."""
    type: str
    """The kind of entry."""
    id: str
    """Its id, unique within a session and all its forks."""
    parent: str | None
    """The id of the record before it on its branch; None for the first."""
    data: Any
    """Its content, by type."""
    v: int = VERSION
    """The version of the format."""


class RecordFile(Protocol):
    """A file that `StoredRecord`s are read from."""

    def read_data(self, kind: str, offset: int, size: int) -> Any:
        """The data of the record of type `kind` on the line of `size` bytes at `offset`."""


class StoredRecord(Record):
    """A record whose `data` stays in its file: it is read when it is used, until `release`.

    So a session of any length needs memory only for the data in use.
    """

    __slots__ = ("_file", "_offset", "_size", "_value")
    _file: RecordFile | None
    _offset: int
    _size: int
    _value: Any

    def __init__(
        self,
        *,
        file: RecordFile | None = None,
        offset: int = 0,
        size: int = 0,
        data: Any = None,
        **envelope: Any,
    ) -> None:
        """The record on the line at `offset` of `file`; without one, as in a copy, with `data`."""
        super().__init__(data=_UNREAD if file is not None else data, **envelope)
        _put(self, "_file", file)
        _put(self, "_offset", offset)
        _put(self, "_size", size)

    @property
    def data(self) -> Any:
        if self._value is _UNREAD and self._file is not None:
            _put(self, "_value", self._file.read_data(self.type, self._offset, self._size))
        return self._value

    @data.setter
    def data(self, value: Any) -> None:
        _put(self, "_value", value)

    def release(self) -> None:
        """Forget the data; its next use reads it again."""
        if self._file is not None:
            _put(self, "_value", _UNREAD)


_UNREAD = object()
_put = object.__setattr__


def new_record_id() -> str:
    """12 hex digits, unique within a session and all its forks."""
    return secrets.token_hex(6)


def timestamp(now: float) -> str:
    """`now` (seconds since 1970) as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_timestamp(text: Any) -> datetime | None:
    """Parse an ISO 8601 time, in UTC if it names no zone; None if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode(record: Record) -> bytes:
    """The record's line, with its line end. Never raises.

    Values that JSON can't represent are replaced: NaN and infinities by null, unknown objects by
    their text, nesting beyond 200 levels by a remark.
    """
    envelope = _COMPACT.encode({name: getattr(record, name) for name in _ENVELOPE})
    body = f'{envelope[:-1]},"data":{json_text(record.data)}'.encode()
    return b'%b,"crc":"%b"}\n' % (body, _checksum(body))


def decode(line: bytes) -> Record | None:
    """The record on `line` (without its line end); None if the line is damaged."""
    body, crc = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if crc != _ending(body):
        return None
    try:
        text = line.decode("utf-8", "surrogatepass")
        members, end = _READING.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return _from_members(members) if end == len(text) else None


def decode_envelope(
    line: bytes, file: RecordFile, offset: int, *, before: Record | None
) -> Record | None:
    """The record on `line` as `decode` returns it, with its data left in `file` at `offset`.

    `before` is the record before it. Lines that dirge would write differently are decoded whole.
    """
    found = _ENVELOPE_BYTES.match(line)
    if found is None or line[-_CRC_LENGTH:] != _ending(line[:-_CRC_LENGTH]):
        return decode(line)
    v, seq, ts, kind, record_id, parent = found.groups()
    parent_id = None if parent is None else parent.decode()
    return StoredRecord(
        file=file,
        offset=offset,
        size=len(line),
        v=int(v),
        seq=int(seq),
        ts=ts.decode(),
        type=intern(kind.decode()),
        id=record_id.decode(),
        # One text for both ids, as nearly every record follows the one before it.
        parent=before.id if before is not None and parent_id == before.id else parent_id,
    )


def decode_data(line: bytes) -> Any:
    """The data of a line that `decode_envelope` has checked; None if it is damaged by now."""
    found = _ENVELOPE_BYTES.match(line)
    if found is None:
        return None
    try:
        text = line[found.end() : -_CRC_LENGTH].decode("utf-8", "surrogatepass")
        return _READING.decode(text)
    except (ValueError, RecursionError):
        return None


def json_text(value: Any) -> str:
    """`value` as JSON on one line that can be encoded as UTF-8."""
    try:
        text = _READABLE.encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        # A cut stream can end in half a surrogate pair, which survives only escaped.
        return _ESCAPED.encode(_storable(value, depth=0))
    return text


_READING = json.JSONDecoder()
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ESCAPED = json.JSONEncoder(ensure_ascii=True, allow_nan=False)
_COMPACT = json.JSONEncoder(separators=(",", ":"))


def text_member(value: Any, name: str) -> str:
    """The named member of a JSON object if it is a text, else ""."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def texts_in(value: Any) -> tuple[str, ...]:
    """The texts in a JSON array; none if it isn't one."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _storable(value: Any, *, depth: int) -> Any:
    """`value` with everything replaced that JSON can't represent, circular references included."""
    if depth > _DEEPEST:
        return "(nested too deeply to be stored)"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        # Python refuses to write or read integers of more than 4,300 digits.
        return value if value.bit_length() < 10_000 else None
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _storable(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    if isinstance(value, Sequence | Set):
        items = sorted(value, key=str) if isinstance(value, Set) else value
        return [_storable(item, depth=depth + 1) for item in items]
    return str(value)


def _ending(body: bytes) -> bytes:
    """The last bytes of the line whose other bytes are `body`."""
    return b'%b%b"}' % (_CRC_NAME, _checksum(body))


def _checksum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(b"}", zlib.crc32(body))


def _from_members(members: Any) -> Record | None:
    try:
        # Named one by one, because this runs for every record of a session.
        record = Record(
            v=members["v"],
            seq=members["seq"],
            ts=members["ts"],
            type=members["type"],
            id=members["id"],
            parent=members["parent"],
            data=members["data"],
        )
    except (KeyError, TypeError):
        return None
    numbers = type(record.v) is int and type(record.seq) is int
    names = all(isinstance(name, str) for name in (record.ts, record.type, record.id))
    is_sound = numbers and names and (record.parent is None or isinstance(record.parent, str))
    return record if is_sound else None
