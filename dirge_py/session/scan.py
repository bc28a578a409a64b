"""Reading a journal whatever has happened to it: all that is intact, and the rest for itself."""

import re
from collections.abc import Iterable, Iterator, Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.record import VERSION, Record, decode, encode

_BEGIN = re.compile(rb'\{"v":\d+,"seq":')
_END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a journal holds.

    `records` are in order of `seq`, each once, unknown types included. `damage` are the bytes no
    record could be read from. `torn_at` is the offset of an unfinished end of the file, which is
    also among `damage`. `is_newer`: a later format wrote here, so this one must not.
    """

    records: list[Record]
    damage: list[bytes]
    torn_at: int | None = None
    is_newer: bool = False


def scan(lines: Iterable[bytes]) -> Scan:
    """Read every line (each with its line end, as a binary file gives them). Never raises."""
    found: list[Record] = []
    damage: list[bytes] = []
    torn_at = None
    offset = 0
    for line in lines:
        body = line.removesuffix(b"\n")
        record = decode(body)
        if record is not None:
            found.append(record)
        else:
            for start, piece, salvaged in _salvage(body):
                if salvaged is not None:
                    found.append(salvaged)
                    continue
                damage.append(piece)
                if not line.endswith(b"\n") and start + len(piece) == len(body):
                    torn_at = offset + start
        offset += len(line)
    records, conflicting = _each_once(found)
    return Scan(
        records=records,
        damage=damage + [encode(record).rstrip(b"\n") for record in conflicting],
        torn_at=torn_at,
        is_newer=any(record.v > VERSION for record in records),
    )


def merge(parts: Sequence[Scan]) -> Scan:
    """What several files of one journal hold together; `torn_at` is in the last of them."""
    if len(parts) == 1:
        return parts[0]
    records, conflicting = _each_once([record for part in parts for record in part.records])
    damage = [piece for part in parts for piece in part.damage]
    return Scan(
        records=records,
        damage=damage + [encode(record).rstrip(b"\n") for record in conflicting],
        torn_at=parts[-1].torn_at if parts else None,
        is_newer=any(part.is_newer for part in parts),
    )


def _salvage(body: bytes) -> Iterator[tuple[int, bytes, Record | None]]:
    """Cut a line that is no record into records and rubbish, with their offsets.

    Finds records glued together by a lost line end, behind a torn one, and among NUL bytes.
    """
    starts = [0, *(match.start() for match in _BEGIN.finditer(body) if match.start() > 0)]
    for start, stop in zip(starts, [*starts[1:], len(body)], strict=True):
        piece = body[start:stop]
        end = _END.search(piece)
        record = decode(piece[: end.end()]) if end else None
        if record is not None and end is not None:
            yield start, piece[: end.end()], record
            start, piece = start + end.end(), piece[end.end() :]
        if piece:
            yield start, piece, None


def _each_once(found: list[Record]) -> tuple[list[Record], list[Record]]:
    """The records by `seq`, and those whose `seq` another record already had.

    A record written twice is one record. Two different ones with one `seq` mean that two programs
    wrote at once; the first stays, the second is reported.
    """
    by_seq: dict[int, Record] = {}
    conflicting = [
        record for record in found if by_seq.setdefault(record.seq, record).id != record.id
    ]
    return [by_seq[seq] for seq in sorted(by_seq)], conflicting
