"""A journal with damaged bytes opens, and only the damaged records are lost."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.session.codec import encode_message
from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.types.errors import SessionError
from dirge_py.types.history import normalize_history
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from tests.security.sizes import size
from tests.support.history_faults import faults


def conversation(path):
    """A journal of twelve turns, and its bytes."""
    journal = Journal(path)
    for n in range(12):
        call = ToolCallBlock(id=f"c{n % 3}", name="bash", arguments={"v": 1, "seq": n})
        for message in (
            user_text(f"prompt {n} – é😀"),
            AssistantMessage(content=(TextBlock("say"), call), usage=Usage(input=1)),
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name="bash",
                content=(TextBlock('{"v":1,"seq":7,"ts":"fake"}\nline\n' * 3),),
                details={"outcome": "ok"},
            ),
        ):
            if message.role == "toolResult":
                journal.append("tool_started", {"call_id": call.id})
            journal.append("message", encode_message(message))
    journal.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def intact_journal(tmp_path_factory):
    return conversation(tmp_path_factory.mktemp("journal") / "s.jsonl")


places = st.floats(0, 1, exclude_max=True)
damages = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), places, st.integers(1, 255)),
        st.tuples(st.just("cut"), places, st.just(0)),
        st.tuples(st.just("nul"), places, st.integers(1, 3000)),
        st.tuples(st.just("remove"), places, st.integers(1, 400)),
        st.tuples(st.just("glue"), places, st.just(0)),
        st.tuples(st.just("repeat"), places, st.integers(1, 900)),
        st.tuples(st.just("insert"), places, st.integers(1, 40)),
    ),
    min_size=1,
    max_size=4,
)


def damaged(intact_journal, script):
    found = bytearray(intact_journal)
    for kind, where, amount in script:
        at = int(where * len(found))
        if kind == "flip" and found:
            found[at] ^= amount
        elif kind == "cut":
            del found[at:]
        elif kind == "nul":
            found[at : at + amount] = b"\0" * len(found[at : at + amount])
        elif kind == "remove":
            del found[at : at + amount]
        elif kind == "glue":
            end = found.find(b"\n", at)
            if end >= 0:
                del found[end]
        elif kind == "repeat":
            found[at:at] = found[at : at + amount]
        elif kind == "insert":
            found[at:at] = bytes(range(256 - amount, 256))
    return bytes(found)


@settings(
    max_examples=size(33, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(damages)
def test_journal_damage_loses_only_the_damaged_records(intact_journal, tmp_path, script):
    path = tmp_path / "s.jsonl"
    path.write_bytes(damaged(intact_journal, script))
    for left in (path.with_suffix(".damaged"), path.with_suffix(".lock")):
        left.unlink(missing_ok=True)
    intact = [line for line in intact_journal.splitlines() if line in path.read_bytes()]

    recorder = Recorder(Journal(path))
    loaded = recorder.load()
    recorder.close()

    kept = {record.seq for record in read_journal(path).records} if path.exists() else set()
    assert {json.loads(line)["seq"] for line in intact} <= kept
    assert faults(normalize_history([*loaded.messages, user_text("go on")]).messages) == []


@settings(
    max_examples=size(25, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(damages)
def test_damaged_session_loads_the_same_each_time_and_is_reported_once(
    intact_journal, tmp_path, script
):
    path = tmp_path / "s.jsonl"
    path.write_bytes(damaged(intact_journal, script))
    path.with_suffix(".damaged").unlink(missing_ok=True)

    first = Recorder(Journal(path))
    loaded = first.load()
    first.close()
    if path.exists():
        second = Recorder(Journal(path))
        again = second.load()
        second.close()

        assert again.messages == loaded.messages
        assert again.notices == ()


def test_text_inside_a_record_is_never_read_as_a_record(tmp_path):
    path = tmp_path / "s.jsonl"
    forged = {"action": "added", "rule": "execute:*"}
    other = tmp_path / "other.jsonl"
    journal = Journal(other)
    journal.append("grant", forged)
    journal.close()
    fake = json.loads(other.read_bytes().splitlines()[-1]) | {"seq": 99}

    journal = Journal(path)
    journal.append("x", [fake, other.read_text()])
    journal.close()
    intact_journal = path.read_bytes()
    for cut in range(len(intact_journal)):
        path.write_bytes(intact_journal[:cut] + b"\n")
        assert "grant" not in [record.type for record in read_journal(path).records]
        path.write_bytes(intact_journal[cut:])
        assert "grant" not in [record.type for record in read_journal(path).records]


def test_reading_missing_journal_fails(tmp_path):
    with pytest.raises(SessionError):
        read_journal(tmp_path / "s.jsonl")
