"""Killed at any moment, a session keeps what it committed, and nothing runs twice."""

import json
import os
import random
import re
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dirge_py.session.journal import read_journal
from dirge_py.session.segments import Scan
from tests.crash.crash_service import FILLER, LINES, PATCHED, TURNS, CrashService
from tests.security.sizes import ASKED, IS_WHOLE, count, size
from tests.support.forked_process import Piped
from tests.support.product import Product, finish

KILLS = 1000 if IS_WHOLE else size(4, 100)
KILLS_OF_ONE_SESSION = 20
LINES_OF_A_TURN = 13
SETTINGS = """
[session]
segment_records = 40
[context]
window_tokens = 20000
[loop]
max_turns = 100
"""
RUN = ("-p", "--yolo", "--session", "s", "--output-format", "stream-json", "--event-format")


@contextmanager
def workshop(base: Path) -> Iterator[tuple[Product, CrashService]]:
    base.mkdir()
    with CrashService(base / "project") as service:
        product = Product(base, service)
        product.configure(SETTINGS)
        service.prepare()
        yield product, service


def start(product: Product, service: CrashService) -> "Piped | subprocess.Popen[str]":
    service.begin()
    starter = product.start_fresh if ASKED else product.start
    return starter(*RUN, "native", "--", "go on")


def kill_somewhere(child: "Piped | subprocess.Popen[str]", chance: random.Random) -> bytes:
    """The output of the child, killed at a random time."""
    assert child.stdout is not None
    out = child.stdout.fileno()
    heard = b""
    # A quarter of them while it starts, reads the session and mends what the last one left.
    lines = 0 if chance.random() < 0.25 else chance.randrange(1, TURNS * LINES_OF_A_TURN)
    while heard.count(b"\n") < lines and (piece := os.read(out, 65536)):
        heard += piece
    select.select([], [], [], chance.random() * (0.5 if lines == 0 else 0.01))
    child.kill()
    child.wait()
    while piece := os.read(out, 65536):
        heard += piece
    child.stdout.close()
    if child.stderr is not None:
        child.stderr.close()
    return heard


def told_seqs(heard: bytes) -> set[int]:
    """The numbers of the records that the child reported as stored."""
    whole = heard.rpartition(b"\n")[0].split(b"\n")
    return {
        line["journal_seq"]
        for line in map(json.loads, filter(None, whole))
        if "journal_seq" in line
    }


def stored(product: Product) -> Scan:
    [journal] = [p for p in product.journals if p.name == "s.jsonl"]
    return read_journal(journal)


def check_files(project: Path) -> None:
    """Check that every file is entirely the old or the new version."""
    state, _, rest = (project / "notes.txt").read_text().partition("\n")
    assert re.fullmatch(r"state \d+", state)
    assert rest == FILLER
    numbers = (project / "big.txt").read_text().splitlines()
    assert len(numbers) == LINES
    assert len(set(numbers)) == 1
    for name in PATCHED:
        assert re.fullmatch(r"version \d+\n", (project / name).read_text())


def counted(project: Path) -> list[str]:
    counter = project / "counter.txt"
    return counter.read_text().split() if counter.exists() else []


def test_session_killed_at_any_moment_loses_nothing_and_can_continue(tmp_path: Path) -> None:
    chance = random.Random(11)
    left = KILLS
    while left:
        kills = min(left, KILLS_OF_ONE_SESSION)
        with workshop(tmp_path / str(left)) as (product, service):
            live_through(kills, product, service, chance)
        left -= kills
    count("crash: kill -9 of a run of 30 turns", KILLS, 0, "lost or repeated something")


def live_through(
    kills: int, product: Product, service: CrashService, chance: random.Random
) -> None:
    told: set[int] = set()
    ids: dict[int, str] = {}
    for _ in range(kills):
        told |= told_seqs(kill_somewhere(start(product, service), chance))
        if product.journals:
            found = stored(product)
            ids |= {record.seq: record.id for record in found.records if record.seq in told}
            assert told <= set(ids)
        check_files(product.project)

    result = finish(start(product, service))

    assert result.exit_code == 0, result.stderr
    assert service.faults == []
    assert service.split == []
    records = stored(product).records
    assert {record.seq: record.id for record in records}.items() >= ids.items()
    started = json.dumps([record.data for record in records if record.type == "tool_started"])
    tokens = counted(product.project)
    assert len(tokens) == len(set(tokens))
    assert [token for token in tokens if f"echo {token} >>" not in started] == []
    assert any(record.type == "segment" for record in records)
