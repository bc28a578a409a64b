"""Records of a stored session leave their data in the file until it is used."""

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.session.history import replay
from dirge_py.session.journal import Journal
from dirge_py.session.record import Record, StoredRecord
from dirge_py.session.segments import SegmentLimits, read_segments
from dirge_py.types.messages import UserMessage

LARGE = "x" * 20_000
"""Longer than texts that stay in their record."""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A session of 400 kB in several segments, with a result in its own file."""
    journal = Journal(tmp_path / "s.jsonl", limits=SegmentLimits(records=50))
    for number in range(200):
        journal.append("message", {"role": "user", "content": f"{number} " + "word " * 400})
    journal.append(
        "message", {"role": "toolResult", "tool_call_id": "c", "tool_name": "t", "content": LARGE}
    )
    journal.close()
    return journal.path


def records_of(path: Path) -> list[Record]:
    return read_segments(path).scan.records


def test_session_that_was_read_takes_less_memory_than_its_files(stored: Path) -> None:
    tracemalloc.start()
    records = records_of(stored)
    read = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(records) > 200
    assert read < sum(file.stat().st_size for file in stored.parent.rglob("*.jsonl")) / 2


def test_released_record_reads_its_data_again(stored: Path) -> None:
    record = records_of(stored)[1]
    assert isinstance(record, StoredRecord)
    before = record.data
    record.release()
    assert record.data == before
    assert record.data is not before


def test_replaying_releases_data_and_gives_the_same_session_twice(stored: Path) -> None:
    records = records_of(stored)
    first, second = replay(records), replay(records)
    assert first == second
    assert isinstance(first.messages[7], UserMessage)
    assert first.messages[7].text.startswith("7 ")


def test_data_in_a_file_of_its_own_is_put_back(stored: Path) -> None:
    assert records_of(stored)[-1].data["content"] == LARGE


def test_copy_of_a_record_has_its_data(stored: Path) -> None:
    record = records_of(stored)[1]
    copy = replace(record, seq=9)
    assert (copy.seq, copy.data) == (9, record.data)


def test_files_are_closed_with_their_last_record(stored: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    records = records_of(stored)
    assert len(os.listdir("/proc/self/fd")) > before
    del records
    assert len(os.listdir("/proc/self/fd")) == before
