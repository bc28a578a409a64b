import os
import random
import select
import subprocess
import sys
from pathlib import Path

from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionBusy
from dirge_py.types.history import normalize_history
from dirge_py.types.messages import ToolResultMessage, user_text
from tests.security.sizes import size
from tests.session.crashing_child import live
from tests.support.forked_process import Piped
from tests.support.history_faults import faults

ROOT = Path(__file__).parents[2]
KILLS = size(6, 24)


def write(path):
    """The body of a process that writes to one journal on request."""
    sys.stdin.readline()
    try:
        journal = Journal(path)
    except SessionBusy:
        os.write(1, b"busy\n")
        return
    for _ in range(200):
        journal.append("line", "x" * 500)
    os.write(1, b"wrote\n")
    sys.stdin.readline()


def start_child(target, argument):
    return Piped(target, argument, environment=os.environ, cwd=ROOT, stdin=subprocess.PIPE)


def go(child):
    child.stdin.write("go\n")
    child.stdin.flush()


def run_until_killed(base, moments):
    """The lines of a child, killed at a random moment after some of them."""
    child = start_child(live, base)
    wanted = moments.randrange(1, 60)
    heard = b""
    while heard.count(b"\n") < wanted:
        piece = os.read(child.stdout.fileno(), 65536)
        assert piece, "the child ended by itself"
        heard += piece
    select.select([], [], [], moments.random() * 0.002)
    child.kill()
    rest, errors = child.communicate()
    assert errors == ""
    return (heard.decode() + rest).splitlines()


def test_killed_process_loses_no_committed_record(tmp_path):
    moments = random.Random(7)
    store = Store(tmp_path / "state", tmp_path)
    committed: set[str] = set()

    for _ in range(KILLS):
        committed |= set(run_until_killed(tmp_path, moments))
        loaded = store.read("s")
        said = {f"said {message.text}" for message in loaded.messages}
        ran = {
            f"ran {message.tool_call_id}"
            for message in loaded.messages
            if isinstance(message, ToolResultMessage) and not message.is_error
        }
        assert committed <= said | ran
        assert faults(normalize_history([*loaded.messages, user_text("go on")]).messages) == []

    effects = (tmp_path / "effects").read_text().split()
    started = [
        record.data["call_id"]
        for record in read_journal(store.folder / "s.jsonl").records
        if record.type == "tool_started"
    ]
    assert len(effects) == len(set(effects))
    assert set(effects) <= set(started)


def test_only_one_of_several_processes_can_write_journal(tmp_path, count=6):
    # G05
    path = tmp_path / "s.jsonl"
    children = [start_child(write, path) for _ in range(count)]
    for child in children:
        go(child)
    answers = [child.stdout.readline().strip() for child in children]
    for child in children:
        child.communicate("\n")

    found = read_journal(path)
    assert sorted(answers) == ["busy"] * (count - 1) + ["wrote"]
    assert [record.seq for record in found.records] == list(range(1, 202))
    assert found.damage == []


def test_lock_of_killed_writer_does_not_block_next_writer(tmp_path):
    path = tmp_path / "s.jsonl"
    for _ in range(3):
        child = start_child(write, path)
        go(child)
        assert child.stdout.readline() == "wrote\n"
        child.kill()
        child.communicate()

    assert len(read_journal(path).records) == 601
