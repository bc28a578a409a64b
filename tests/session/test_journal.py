import os
import resource
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from dirge_py.session.codec import encode_message
from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.record import Record, encode
from dirge_py.types.errors import SessionBusy, SessionError
from dirge_py.types.messages import TextBlock, UserMessage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.jsonl"


@contextmanager
def disk_full_at(size):
    """Make the kernel refuse to let files of this process grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write(path, *types):
    journal = Journal(path)
    for type_name in types:
        journal.append(type_name, {"n": type_name}, sync=True)
    journal.close()


def types_in(path):
    return [record.type for record in read_journal(path).records]


def test_journal_records_are_read_in_order_with_previous_record_as_parent(path):
    write(path, "a", "b")
    write(path, "c")

    records = read_journal(path).records

    assert [r.type for r in records] == ["session", "a", "b", "c"]
    assert [r.seq for r in records] == [1, 2, 3, 4]
    assert [r.parent for r in records] == [None, *(r.id for r in records[:-1])]


def test_journal_starts_with_header_holding_id_and_creation_time(path):
    journal = Journal(path, header={"cwd": "/here"}, clock=lambda: 0.0)
    journal.append("a", None)
    journal.close()

    header = read_journal(path).records[0]

    assert header.data == {"id": "s", "created": "1970-01-01T00:00:00.000Z", "cwd": "/here"}


def test_journal_and_lock_file_are_readable_only_by_owner(path):
    journal = Journal(path)
    journal.append("a", None)

    modes = [stat.S_IMODE(os.stat(at).st_mode) for at in (path, path.with_suffix(".lock"))]
    journal.close()

    assert modes == [0o600, 0o600]


def test_journal_without_records_creates_no_file(path):
    Journal(path).close()

    assert os.listdir(path.parent) == []


def test_torn_last_record_is_saved_to_damaged_file_reported_once_and_removed(path):
    # G03
    write(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])

    journal = Journal(path)
    journal.append("c", None)
    journal.close()
    again = Journal(path)
    again.close()

    assert types_in(path) == ["session", "a", "c"]
    assert len(journal.notices) == 1
    assert again.notices == []
    assert path.with_suffix(".damaged").read_bytes().removesuffix(b"\n") in whole


def test_missing_final_newline_of_journal_is_not_damage(path):
    write(path, "a")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    journal = Journal(path)
    journal.append("b", None)
    journal.close()

    assert journal.notices == []
    assert types_in(path) == ["session", "a", "b"]
    assert path.read_bytes().count(b"\n") == 3


def test_journal_truncated_at_any_byte_loses_only_the_cut_record(path):
    write(path, "a", "b", "c")
    whole = path.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == 10]

    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        path.with_suffix(".damaged").unlink(missing_ok=True)
        journal = Journal(path)
        journal.append("next", None)
        journal.close()
        kept = ["session", "a", "b", "c"][: sum(end <= cut for end in ends)]
        assert types_in(path) == [*(kept or ["session"]), "next"]


def test_records_joined_on_one_line_are_read_separately(path):
    write(path, "a", "b")
    first, second, third = path.read_bytes().splitlines()
    torn = b'{"v":1,"seq":9,"ts":"2026'

    path.write_bytes(first + second + b"\n" + torn + third + b"\0\0\0\n")

    assert types_in(path) == ["session", "a", "b"]
    assert read_journal(path).damage == [torn, b"\0\0\0"]


def test_nul_bytes_in_journal_lose_only_the_overwritten_records(path):
    write(path, "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + b"\0" * len(lines[2]) + lines[3])

    journal = Journal(path)
    journal.close()

    assert types_in(path) == ["session", "a", "c"]
    assert len(journal.notices) == 1


def test_journal_of_only_nul_bytes_can_be_written_again(path):
    path.write_bytes(b"\0" * 4096)

    write(path, "a")

    assert types_in(path) == ["session", "a"]


def test_duplicate_record_is_read_once(path):
    write(path, "a", "b")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[1]]))

    assert types_in(path) == ["session", "a", "b"]
    assert read_journal(path).damage == []


def test_second_record_with_same_number_is_reported_as_damage(path):
    write(path, "a")
    other = encode(Record(seq=2, ts="t", type="z", id="other", parent=None, data=None))
    path.write_bytes(path.read_bytes() + other)

    found = read_journal(path)

    assert [r.type for r in found.records] == ["session", "a"]
    assert found.damage == [other.rstrip(b"\n")]


def test_journal_of_newer_format_is_read_only(path):
    write(path, "a")
    newer = encode(Record(v=2, seq=3, ts="t", type="z", id="n", parent=None, data=None))
    path.write_bytes(path.read_bytes() + newer + b"torn")
    before = path.read_bytes()

    journal = Journal(path)
    with pytest.raises(SessionError, match="newer dirge"):
        journal.append("b", None)
    records = journal.records()
    journal.close()

    assert [r.type for r in records] == ["session", "a", "z"]
    assert path.read_bytes() == before


def test_second_journal_writer_gets_error_with_process_id_of_first(path):
    # G05
    journal = Journal(path)

    with pytest.raises(SessionBusy, match=f"process {os.getpid()}") as busy:
        Journal(path)
    journal.close()

    assert "--fork-session" in busy.value.hint
    Journal(path).close()


def test_append_on_full_disk_fails_and_leaves_journal_unchanged(path):
    journal = Journal(path)
    journal.append("a", None)
    before = path.read_bytes()

    for size in range(len(before), len(before) + 120, 7):
        with disk_full_at(size), pytest.raises(SessionError, match="cannot be saved"):
            journal.append("b", {"text": "x" * 200}, sync=True)
        assert path.read_bytes() == before
    journal.append("c", None)
    *_, a, c = journal.records()
    assert c.parent == a.id
    journal.close()

    assert types_in(path) == ["session", "a", "c"]


def test_new_journal_on_full_disk_leaves_no_file(path):
    with disk_full_at(0):
        journal = Journal(path)
        with pytest.raises(SessionError):
            journal.append("a", None)
        journal.close()

    assert os.listdir(path.parent) == []


def test_append_to_deleted_journal_fails(path):
    journal = Journal(path)
    journal.append("a", None)
    path.unlink()

    with pytest.raises(SessionError, match="deleted"):
        journal.append("b", None)
    journal.close()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_journal_path_that_is_no_regular_file_is_rejected_and_not_removed(path, kind):
    target = path.with_name("elsewhere")
    target.write_bytes(b"")
    if kind == "link":
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)

    with pytest.raises(SessionError):
        Journal(path)
    with pytest.raises(SessionError):
        read_journal(path)

    assert os.path.lexists(path)


def test_append_to_closed_journal_fails(path):
    journal = Journal(path)
    journal.close()
    journal.close()

    with pytest.raises(SessionError, match="closed"):
        journal.append("a", None)


def test_records_are_ordered_by_number_when_clock_jumps(path):
    moments = iter([1e9, 1e9, 1e9 + 3600, 0.0, 2**31 + 1.0])
    journal = Journal(path, clock=lambda: next(moments))
    for type_name in "abcd":
        journal.append(type_name, None)
    journal.close()

    assert types_in(path) == ["session", "a", "b", "c", "d"]


# The signal may arrive in a finalizer, where its exception can only be reported.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signal_during_journal_write_loses_no_record(path):
    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    journal = Journal(path)
    saved = []
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for n in range(300):
            signal.setitimer(signal.ITIMER_REAL, 0.00002 + (n % 20) * 0.00002)
            try:
                journal.append("message", n, sync=True)
                saved.append(n)
            except Interrupted:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    journal.append("end", None)
    journal.close()

    found = read_journal(path)
    kept = [r.data for r in found.records if r.type == "message"]
    assert set(saved) <= set(kept)
    assert found.damage == []


_OPEN = """
import sys
from pathlib import Path
from dirge_py.session.history import replay
from dirge_py.session.journal import Journal

def resident_mb():
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) // 1024

before = resident_mb()
journal = Journal(Path(sys.argv[1]))
loaded = replay(journal.records())
print(len(loaded.messages), resident_mb() - before)
"""


def test_session_of_27_mb_loads_with_less_than_150_mb_memory(path):
    message = encode_message(UserMessage(content=(TextBlock("lorem é ipsum " * 380),)))
    lines, parent = [], None
    for seq in range(1, 5001):
        record = Record(seq=seq, ts="t", type="message", id=str(seq), parent=parent, data=message)
        lines.append(encode(record))
        parent = record.id
    path.write_bytes(b"".join(lines))

    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(path)], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    messages, grown_mb = map(int, done.stdout.split())
    assert path.stat().st_size > 27_000_000
    assert messages == 5000
    assert grown_mb < 150
