import os
import random
import select
import subprocess
import sys
from pathlib import Path

from dirge_py.agent_loop.heal import heal
from dirge_py.messages import ToolResultMessage, user_text
from dirge_py.session.journal import read_journal
from dirge_py.session.store import Store
from tests.agent_loop.strict import faults
from tests.security.sizes import size

ROOT = Path(__file__).parents[2]
KILLS = size(6, 24)

WRITER = """
import sys
from pathlib import Path
from dirge_py.errors import SessionBusy
from dirge_py.session.journal import Journal
sys.stdin.readline()
try:
    journal = Journal.open(Path(sys.argv[1]))
except SessionBusy as busy:
    print("busy", flush=True)
    sys.exit()
for n in range(200):
    journal.append("line", "x" * 500)
print("wrote", flush=True)
sys.stdin.readline()
"""


def start_child(*arguments):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def run_until_killed(base, moments):
    """The lines a child printed before it was killed, at a random moment after some of them."""
    child = start_child(Path(__file__).with_name("crashing_child.py"), base)
    wanted = moments.randrange(1, 60)
    heard = b""
    while heard.count(b"\n") < wanted:
        piece = os.read(child.stdout.fileno(), 65536)
        assert piece, "the child ended by itself"
        heard += piece
    select.select([], [], [], moments.random() * 0.002)
    child.kill()
    child.wait()
    heard += child.stdout.read()
    child.stdout.close()
    child.stdin.close()
    return heard.decode().splitlines()


def test_a_killed_process_loses_nothing_it_had_committed(tmp_path):
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
        assert faults(heal([*loaded.messages, user_text("go on")]).messages) == []

    effects = (tmp_path / "effects").read_text().split()
    started = [
        record.data["call_id"]
        for record in read_journal(store.folder / "s.jsonl").records
        if record.type == "tool_started"
    ]
    assert len(effects) == len(set(effects))
    assert set(effects) <= set(started)


def test_of_many_processes_exactly_one_writes(tmp_path, count=6):
    # G05
    path = tmp_path / "s.jsonl"
    children = [start_child("-c", WRITER, path) for _ in range(count)]
    for child in children:
        child.stdin.write(b"go\n")
        child.stdin.flush()
    answers = [child.stdout.readline().decode().strip() for child in children]
    for child in children:
        child.communicate(b"\n")

    found = read_journal(path)
    assert sorted(answers) == ["busy"] * (count - 1) + ["wrote"]
    assert [record.seq for record in found.records] == list(range(1, 202))
    assert found.damage == []


def test_a_killed_writer_does_not_keep_others_out(tmp_path):
    path = tmp_path / "s.jsonl"
    for _ in range(3):
        child = start_child("-c", WRITER, path)
        child.stdin.write(b"go\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"wrote\n"
        child.kill()
        child.communicate()

    assert len(read_journal(path).records) == 601
