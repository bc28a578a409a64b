"""One line of a journal, and what makes it trustworthy.

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
import secrets
import zlib
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass

VERSION = 1

_CRC_NAME = b',"crc":"'
_CRC_LENGTH = len(_CRC_NAME) + 8 + len(b'"}')
# Half of what the JSON reader can take within Python's recursion limit.
_DEEPEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that happened. `parent` is the record before it on its branch, None for the first.

    `seq` orders a journal's records; `ts` is for people and never compared.
    """

    seq: int
    ts: str
    type: str
    id: str
    parent: str | None
    data: Any
    v: int = VERSION


def new_record_id() -> str:
    """12 hex digits, unique within a session and all its forks."""
    return secrets.token_hex(6)


def timestamp(now: float) -> str:
    """`now` (seconds since 1970) as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_timestamp(text: Any) -> datetime | None:
    """The moment of an ISO 8601 time, in UTC where it names no zone; None for what is none."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode(record: Record) -> bytes:
    """The record's line, with its line end. Never raises, whatever `data` holds.

    What JSON cannot say is stored as the nearest thing it can: NaN and infinities as null, unknown
    objects as their text, nesting beyond 200 levels as a remark.
    """
    members = [
        f'"v":{record.v}',
        f'"seq":{record.seq}',
        f'"ts":{json.dumps(record.ts)}',
        f'"type":{json.dumps(record.type)}',
        f'"id":{json.dumps(record.id)}',
        f'"parent":{json.dumps(record.parent)}',
        f'"data":{json_text(record.data)}',
    ]
    body = ("{" + ",".join(members)).encode()
    return b'%b,"crc":"%b"}\n' % (body, _checksum(body))


def decode(line: bytes) -> Record | None:
    """The record written on `line` (given without its line end), None if it is not intact."""
    body, crc = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if crc != b'%b%b"}' % (_CRC_NAME, _checksum(body)):
        return None
    try:
        text = line.decode("utf-8", "surrogatepass")
        members, end = _READING.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return _from_members(members) if end == len(text) else None


def json_text(value: Any) -> str:
    """`value` as JSON on one line that can be encoded as UTF-8."""
    try:
        text = _READABLE.encode(value)
        text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, as a cut stream leaves behind; escaped it comes back unharmed.
        return _ESCAPED.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _ESCAPED.encode(_storable(value, depth=0))
    return text


def _nearest(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    return str(value)


_READING = json.JSONDecoder()
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_nearest)
_ESCAPED = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_nearest)


def text_member(value: Any, name: str) -> str:
    """The member of an object if it is a text, else ""."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def _storable(value: Any, *, depth: int) -> Any:
    """`value` with everything JSON cannot say replaced; also ends circular values."""
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
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [_storable(item, depth=depth + 1) for item in value]
    return _nearest(value)


def _checksum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(b"}", zlib.crc32(body))


def _from_members(members: Any) -> Record | None:
    try:
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
