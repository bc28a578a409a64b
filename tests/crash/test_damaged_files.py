"""A session with damaged files loads, loses only the damaged records, and continues."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.session.journal import read_journal
from dirge_py.session.record import Record, decode, encode
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd
from dirge_py.types.history import normalize_history
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done
from tests.security.sizes import count, size
from tests.support.history_faults import faults

VARIANTS = size(60, 10_000)
Hit = Callable[[bytes, random.Random], bytes]


def record_session(store: Store) -> None:
    recorder = Recorder(store.create("s"))
    recorder.note_model("fake/big")
    for n in range(12):
        recorder.sink(AgentStart(run_id=f"r{n}"))
        calls = tuple(
            ToolCallBlock(id=f"call_{k}", name="bash", arguments={"v": 1, "seq": n})
            for k in range(1 + n % 3)
        )
        usage = Usage(input=1)
        for message in (
            user_text(f"prompt {n} – é😀"),
            AssistantMessage(content=(TextBlock("say"), *calls), usage=usage),
            *(result(call, n) for call in calls),
            AssistantMessage(content=(TextBlock(f"answer {n}"),), usage=usage),
        ):
            recorder.sink(MessageEnd(message))
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.close()


def result(call: ToolCallBlock, number: int) -> ToolResultMessage:
    text = '{"v":1,"seq":7,"ts":"fake"}\nline é\n' * (900 if number == 5 else 3)
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(text),),
        details={"outcome": "ok"},
    )


# -- what can happen to the bytes of a file


def torn(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def glued(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    return b"\n".join(lines[:at]) + b"\n".join(lines[at:])


def nul_run(content: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(content)), chance.choice((1, 40, 512, 4096))
    return content[:at] + b"\0" * len(content[at : at + length]) + content[at + length :]


def cut_utf8(content: bytes, chance: random.Random) -> bytes:
    places = [at for at, byte in enumerate(content) if byte >= 0xC0]
    at = chance.choice(places) if places else 0
    return content[: at + 1] + content[at + 2 :]


def duplicated(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    at, to = (chance.randrange(len(lines)) for _ in "ab")
    return b"".join([*lines[:to], lines[at], *lines[to:]])


def swapped(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 3, 100))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def without_lines(content: bytes, chance: random.Random) -> bytes:
    return b"".join(line for line in content.splitlines(keepends=True) if chance.random() > 0.15)


def orphaned(content: bytes, chance: random.Random) -> bytes:
    """Drops one message in ten: calls lose results, and results lose calls."""
    kept = []
    for line in content.splitlines(keepends=True):
        record = decode(line.rstrip(b"\n"))
        if not (record and record.type == "message" and chance.random() < 0.1):
            kept.append(line)
    return b"".join(kept)


def forged(content: bytes, chance: random.Random) -> bytes:
    """Inserts odd records with valid checksums."""
    odd = ({}, [], None, "text", {"role": "toolResult"}, {"messages": [1]}, {"role": ["x"]})
    lines = content.splitlines(keepends=True)
    for seq in range(1000, 1004):
        record = Record(
            seq=seq,
            ts="",
            type=chance.choice(("message", "context", "tool_started", "usage", "branch", "new")),
            id=f"odd{seq}",
            parent=chance.choice((None, "nowhere", f"odd{seq}")),
            data=chance.choice(odd),
        )
        lines.insert(chance.randrange(len(lines) + 1), encode(record))
    return b"".join(lines)


HITS: tuple[Hit, ...] = (
    *(torn, glued, nul_run, cut_utf8, duplicated, swapped, flipped, without_lines),
    *(orphaned, forged),
)


@pytest.fixture(scope="module", params=[10_000, 12], ids=["one-file", "several-segments"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of an undamaged session."""
    base = tmp_path_factory.mktemp("whole")
    record_session(store_in(base, request.param))
    return base


def store_in(base: Path, records: int = 10_000) -> Store:
    return Store(base, Path("/project"), limits=SegmentLimits(records=records))


def session_files(store: Store) -> list[Path]:
    return [store.folder / "s.jsonl", *sorted((store.folder / "s").glob("0*.jsonl"))]


def intact(whole: Store, store: Store) -> set[int]:
    """The numbers of the records whose lines are intact."""
    left = b"\n".join(path.read_bytes() for path in session_files(store) if path.exists())
    lines = [line for path in session_files(whole) for line in path.read_bytes().splitlines()]
    return {record.seq for line in lines if line in left and (record := decode(line))}


def next_request(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return normalize_history([*messages, user_text("go on")]).messages


def test_damaged_session_loads_and_loses_only_the_damaged_records(
    whole: Path, tmp_path: Path
) -> None:
    chance = random.Random(whole.name)
    for number in range(VARIANTS // 2):
        base = tmp_path / str(number)
        shutil.copytree(whole, base)
        store = store_in(base, 12)
        for path in session_files(store):
            for hit in chance.sample(HITS, chance.choice((0, 1, 1, 2, 3))):
                path.write_bytes(hit(path.read_bytes() or b"\n", chance))
        if chance.random() < 0.1:
            chance.choice(session_files(store)[1:] or [base / "none"]).unlink(missing_ok=True)
        for blob in (store.folder / "s/blobs").iterdir():
            if chance.random() < 0.3:
                blob.write_bytes(chance.choice(HITS[:6])(blob.read_bytes(), chance))
        survived = intact(store_in(whole), store)
        is_damaged = bool(read_journal(store.folder / "s.jsonl").damage)

        recorder = Recorder(store.open("s"))
        loaded = recorder.load()
        recorder.sink(MessageEnd(user_text("go on")))
        recorder.close()

        found = read_journal(store.folder / "s.jsonl").records
        assert survived <= {record.seq for record in found}
        assert is_damaged == any("damaged bytes" in notice for notice in loaded.notices)
        assert faults(next_request(loaded.messages)) == []
        again = store.read("s")
        assert again.messages[-1] == user_text("go on")
        assert faults(next_request(again.messages)) == []
        shutil.rmtree(base)
    count("crash: damaged variants of a session", VARIANTS // 2, 0, "unreadable")
