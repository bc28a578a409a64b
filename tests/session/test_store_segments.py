"""A session in several files acts as one: in lists, costs, forks, and when damaged."""

import json

import pytest

from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, UsageReported
from dirge_py.types.history import normalize_history
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done
from tests.support.history_faults import faults


@pytest.fixture
def store(tmp_path, project, clock):
    """A store whose sessions start a new file after 50 records."""
    return Store(tmp_path / "state", project, clock=clock, limits=SegmentLimits(records=50))


def record_turns(store, turns, session_id="s"):
    recorder = Recorder(store.open_or_create(session_id))
    before = len(recorder.load().messages)
    for n in range(turns):
        recorder.sink(AgentStart(run_id=f"r{n}"))
        call = ToolCallBlock(id=f"c{before + n}", name="read", arguments={})
        usage = Usage(input=10, output=1)
        answer = AssistantMessage(content=(TextBlock("look"), call), usage=usage)
        recorder.sink(MessageEnd(user_text(f"prompt {before + n}")))
        recorder.sink(MessageEnd(answer))
        recorder.sink(UsageReported(usage=usage, model="m", cost_usd=0.25))
        result = ToolResultMessage(
            tool_call_id=call.id, tool_name="read", content=(TextBlock(f"result {n}"),)
        )
        recorder.sink(MessageEnd(result))
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.close()


def segments_of(store, session_id="s"):
    first = store.folder / f"{session_id}.jsonl"
    return [first, *sorted((store.folder / session_id).glob("0*.jsonl"))]


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def texts_of(store, session_id="s"):
    return [m.text for m in store.read(session_id).messages if m.role == "user"]


def test_a82_next_segment_header_names_last_record_of_full_segment(store):
    record_turns(store, 20)

    first, second, third = map(lines_of, segments_of(store))
    assert [len(first), len(second)] == [50, 50]
    for number, before, after in ((2, first, second), (3, second, third)):
        begin = after[0]
        assert begin["type"] == "segment"
        assert begin["parent"] == before[-1]["id"]
        named = {"id": "s", "number": number, "after_seq": before[-1]["seq"], "at": begin["ts"]}
        assert begin["data"] == named
    numbers = [line["seq"] for line in first + second + third]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a82_session_of_several_segments_is_one_list_entry_with_one_cost(store):
    record_turns(store, 15)
    record_turns(store, 15)

    [summary] = store.list()
    loaded = store.read("s")

    assert (summary.id, summary.messages, summary.title) == ("s", 90, "prompt 0")
    assert (loaded.cost_usd, loaded.turns, loaded.usage.input) == (7.5, 30, 300)
    assert len(segments_of(store)) == 4
    assert store.newest().updated == summary.updated


def test_a82_fork_of_segmented_session_continues_from_all_segments(store):
    record_turns(store, 20)

    store.fork("s", "f").close()
    record_turns(store, 1, "f")

    assert texts_of(store, "f")[:20] == texts_of(store)
    assert len(texts_of(store, "f")) == 21
    begins = [
        r.data["number"]
        for r in read_journal(store.folder / "f.jsonl").records
        if r.type == "segment"
    ]
    assert begins == [2, 3]


def test_segment_is_also_limited_by_size(store, tmp_path):
    journal = Journal(tmp_path / "s.jsonl", limits=SegmentLimits(size=1000))
    for _ in range(4):
        journal.append("x", "y" * 600)
    journal.close()

    assert (tmp_path / "s.jsonl").stat().st_size < 2000
    assert [path.name for path in sorted((tmp_path / "s").iterdir())] == ["0002.jsonl"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_in_a_segment_loses_only_the_damaged_records(store, number):
    record_turns(store, 20)
    path = segments_of(store)[number]
    lines = path.read_bytes().splitlines(keepends=True)
    hit = next(line for line in lines if b'"prompt ' in line and b'"title"' not in line)
    path.write_bytes(path.read_bytes().replace(hit, b"\0" * len(hit)))
    before = path.read_bytes()

    journal = store.open("s")
    journal.close()

    assert len(texts_of(store)) == 19
    assert len(journal.notices) == 1
    assert hit[:-1].translate(bytes(256)) in (store.folder / "s.damaged").read_bytes()
    assert path.read_bytes() == before


def test_torn_end_of_older_segment_is_saved_to_damaged_file_and_reported_once(store):
    record_turns(store, 20)
    older = segments_of(store)[0]
    torn = older.read_bytes().splitlines()[-1][:-7]
    older.write_bytes(older.read_bytes()[:-8])

    first = store.open("s")
    first.append("a", None)
    first.close()
    second = store.open("s")
    second.close()

    assert (len(first.notices), second.notices) == (1, [])
    assert (store.folder / "s.damaged").read_bytes() == torn + b"\n"
    assert len(texts_of(store)) == 20


@pytest.mark.parametrize("left", [b"", b"\0" * 40, b'{"v":1,"seq":51,"ts":"2026'])
def test_session_continues_after_crash_while_starting_a_segment(store, left):
    record_turns(store, 8)
    [only] = segments_of(store)
    only.with_suffix("").mkdir(exist_ok=True)
    (only.with_suffix("") / "0002.jsonl").write_bytes(left)

    record_turns(store, 5)

    assert len(texts_of(store)) == 13
    begin = read_journal(only.with_suffix("") / "0002.jsonl").records[0]
    assert (begin.type, begin.data["number"], begin.data["after_seq"]) == ("segment", 2, 50)


def test_missing_segment_loses_only_its_own_records_and_is_reported_once(store):
    record_turns(store, 25)
    segments_of(store)[1].unlink()

    recorder = Recorder(store.open("s"))
    loaded = recorder.load()
    recorder.close()
    again = Recorder(store.open("s"))
    notices = again.load().notices
    again.close()

    assert any("0002.jsonl" in notice for notice in loaded.notices)
    assert not any("0002.jsonl" in notice for notice in notices)
    prompts = [m.text for m in loaded.messages if m.role == "user"]
    assert prompts[0] == "prompt 0"
    assert 10 < len(prompts) < 25
    assert faults(normalize_history([*loaded.messages, user_text("on")]).messages) == []


def test_session_without_first_segment_can_be_opened_by_id(store):
    record_turns(store, 20)
    segments_of(store)[0].unlink()

    journal = store.open("s")
    journal.append("a", None)
    journal.close()

    assert "s.jsonl" in journal.notices[0]
    assert not (store.folder / "s.jsonl").exists()
    assert 5 < len(texts_of(store)) < 20


def test_segment_that_cannot_be_created_is_created_at_next_append(store, tmp_path):
    record_turns(store, 8)
    (store.folder / "s").write_text("in the way")

    journal = store.open("s")
    with pytest.raises(SessionError, match="cannot be saved"):
        journal.append("a", None)
    (store.folder / "s").unlink()
    journal.append("b", None)
    journal.close()

    assert [r.type for r in read_journal(store.folder / "s.jsonl").records[-2:]] == ["segment", "b"]


def test_paths_of_session_names_journal_damaged_file_and_folder(store):
    record_turns(store, 20)
    (store.folder / "s.damaged").write_bytes(b"x")
    record_turns(store, 1, "s2")

    named = store.paths_of("s")

    assert [path.name for path in named] == ["s.jsonl", "s.damaged", "s"]
    assert {path.name for path in store.folder.iterdir()} - {path.name for path in named} == {
        "s2.jsonl"
    }
    assert store.paths_of("none") == []
    with pytest.raises(SessionError):
        store.paths_of("../s")
