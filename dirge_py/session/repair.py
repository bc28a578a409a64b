"""What is damaged in a session, and mending what can be without rewriting anything."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.journal import Journal
from dirge_py.session.record import Record
from dirge_py.session.segments import Reading, folder_of, read_segments, segment_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The state of a session after a repair.

    `torn_bytes` were an unfinished end, cut off by now; `damaged_bytes` lie before that and stay.
    Both are kept in the file `kept`. `orphans` count records whose place in the tree was lost,
    `lost_outputs` large results whose file is gone or is not what it was. `notices` are the
    journal's own words.
    """

    records: int
    kept: Path
    torn_bytes: int = 0
    damaged_bytes: int = 0
    missing_segments: Sequence[int] = ()
    orphans: int = 0
    lost_outputs: int = 0
    is_newer: bool = False
    notices: Sequence[str] = ()

    @property
    def is_sound(self) -> bool:
        return not (
            self.torn_bytes
            or self.damaged_bytes
            or self.missing_segments
            or self.orphans
            or self.lost_outputs
        )


def repair(first: Path) -> Repair:
    """Open the session of this first segment once for writing, which sets aside what is no record.

    Raises:
        SessionBusy: another process writes it.
        SessionError: it is not there, or cannot be read.
    """
    found = read_segments(first)
    torn = _torn_bytes(first, found)
    journal = Journal.open(first)
    notices = list(journal.notices)
    journal.close()
    return Repair(
        records=len(found.scan.records),
        kept=first.with_suffix(".damaged"),
        torn_bytes=torn,
        damaged_bytes=sum(map(len, found.scan.damage)) - torn,
        missing_segments=found.missing,
        orphans=_orphans(found.scan.records),
        lost_outputs=_lost_outputs(found, folder_of(first) / "blobs"),
        is_newer=found.scan.is_newer,
        notices=notices,
    )


def _torn_bytes(first: Path, found: Reading) -> int:
    last = max(found.parts)
    torn_at = found.parts[last].torn_at
    return segment_path(first, last).stat().st_size - torn_at if torn_at is not None else 0


def _orphans(records: Sequence[Record]) -> int:
    known: set[str] = set()
    lost = 0
    for record in records:
        lost += record.parent is not None and record.parent not in known
        known.add(record.id)
    return lost


def _lost_outputs(found: Reading, folder: Path) -> int:
    names = {
        blob.get("sha256")
        for part in found.parts.values()
        for record in part.records
        if isinstance(record.data, Mapping) and isinstance(record.data.get("blobs"), list)
        for blob in record.data["blobs"]
        if isinstance(blob, Mapping)
    }
    return sum(isinstance(name, str) and not _is_there(folder, name) for name in names)


def _is_there(folder: Path, name: str) -> bool:
    try:
        return hashlib.sha256((folder / Path(name).name).read_bytes()).hexdigest() == name
    except OSError:
        return False
