"""Journal records of compactions, replaced contexts, and late readers."""

import subprocess
import sys

import pytest

from dirge_py.session.history import replay
from dirge_py.session.record import json_text
from dirge_py.session.recorder import Recorder
from dirge_py.types.errors import SessionError
from dirge_py.types.events import AgentEnd, AgentStart, ContextReplaced, MessageEnd, UsageReported
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from tests.session.test_transcript import answer, asks, chain, deferred, started

ONE = Usage(input=10, output=5)


def assistant_text(text, usage=None, **fields):
    return AssistantMessage(content=(TextBlock(text),), usage=usage, **fields)


def compaction(first, last, summary="earlier"):
    return {"first": first, "last": last, "summary": summary, "kind": "summary"}


@pytest.fixture
def start(store, clock):
    """Opens session `s`; every recorder is closed at the end."""
    opened = []

    def open_recorder(**options):
        recorder = Recorder(store.open_or_create("s"), clock=clock, **options)
        opened.append(recorder)
        recorder.load()
        return recorder

    yield open_recorder
    for recorder in opened:
        recorder.close()


def run(recorder, *messages):
    recorder.sink(AgentStart(run_id="r"))
    for message in messages:
        recorder.sink(MessageEnd(message))
        if isinstance(message, AssistantMessage) and message.usage:
            recorder.sink(UsageReported(usage=message.usage, model="m", cost_usd=0.5))
    recorder.sink(AgentEnd(messages=messages, outcome=Done()))


def test_recorded_compactions_are_read_back_and_messages_stay_unchanged(start, store):
    recorder = start()
    run(recorder, user_text("one"), assistant_text("two"))
    recorder.note_compaction(compaction(0, 2))
    run(recorder, user_text("three"), assistant_text("four"))
    recorder.note_compaction(compaction(0, 3, "all of it"))
    recorder.close()

    loaded = store.read("s")

    assert loaded.compactions == (compaction(0, 2), compaction(0, 3, "all of it"))
    assert [m.text for m in loaded.messages] == ["one", "two", "three", "four"]


def test_compaction_recorded_on_one_branch_does_not_apply_to_another_branch(start, store):
    recorder = start()
    run(recorder, user_text("one"), assistant_text("two"))
    first = recorder.load().record_ids[0]
    recorder.note_compaction(compaction(0, 2))

    loaded = recorder.go_on_from(first)

    assert loaded.compactions == ()


def test_compaction_whose_messages_changed_is_left_out(start, store):
    recorder = start()
    run(recorder, user_text("one"), assistant_text("two"), user_text("three"))
    recorder.note_compaction(compaction(0, 2))
    recorder.close()
    path = store.folder / "s.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(line for line in lines if b'"two"' not in line))

    loaded = store.read("s")

    assert [m.text for m in loaded.messages] == ["one", "three"]
    assert loaded.compactions == ()


def test_compaction_is_kept_while_call_awaits_approval_and_after_its_result(start, store):
    recorder = start()
    run(
        recorder,
        user_text("one"),
        assistant_text("two"),
        user_text("three"),
        asks("a", "b"),
        answer("a"),
    )
    recorder.sink(AgentEnd(messages=(), outcome=AwaitingConfirmation(call_ids=("b",))))
    recorder.note_compaction(compaction(0, 2))
    recorder.close()

    assert store.read("s").compactions == (compaction(0, 2),)

    recorder = start()
    run(recorder, answer("b"), assistant_text("four"))
    recorder.close()

    loaded = store.read("s")
    assert len(loaded.messages) == 7
    assert loaded.compactions == (compaction(0, 2),)


def test_replaced_context_takes_place_of_all_earlier_messages(start, store):
    recorder = start()
    run(recorder, user_text("one"), assistant_text("two", ONE))
    recorder.note_compaction(compaction(0, 2))
    recorder.sink(ContextReplaced(messages=(user_text("in short"), assistant_text("yes"))))
    run(recorder, user_text("three"), assistant_text("four", ONE))
    recorder.note_compaction(compaction(0, 4))
    recorder.close()

    loaded = store.read("s")

    assert [m.text for m in loaded.messages] == ["in short", "yes", "three", "four"]
    assert loaded.compactions == (compaction(0, 4),)
    assert (loaded.turns, loaded.usage, loaded.cost_usd) == (2, ONE + ONE, 1.0)
    raw = [record.data for record in store.events_since("s", 0) if record.type == "message"]
    assert [message["content"][0]["text"] for message in raw if message["role"] != "user"] == [
        "two",
        "four",
    ]


def test_each_message_maps_to_its_record_after_context_is_replaced(start):
    recorder = start()
    run(recorder, user_text("one"))
    recorder.sink(ContextReplaced(messages=(user_text("in short"), assistant_text("yes"))))
    run(recorder, user_text("three"))

    ids = recorder.load().record_ids

    assert ids[0] == ids[1] != ids[2]
    recorder.go_on_from(ids[0])
    assert [m.text for m in recorder.load().messages] == ["in short", "yes"]


def test_replaced_context_may_hold_tool_calls_whose_results_come_later(start):
    call = AssistantMessage(content=(ToolCallBlock(id="c", name="bash", arguments={}),))
    answer = ToolResultMessage(tool_call_id="c", tool_name="bash", content=(TextBlock("ok"),))
    recorder = start()
    run(recorder, user_text("one"))
    recorder.sink(ContextReplaced(messages=(user_text("short"), call)))
    run(recorder, answer)

    assert recorder.load().messages == (user_text("short"), call, answer)
    assert recorder.load().healed == ()


def test_secrets_in_replaced_context_and_compaction_are_redacted_in_journal(start, store):
    recorder = start(redact=lambda text: text.replace("sk-secret", "[key]"))
    run(recorder, user_text("one"))
    recorder.sink(ContextReplaced(messages=(user_text("sk-secret"), assistant_text("sk-secret"))))
    recorder.note_compaction(compaction(0, 1, "the key is sk-secret"))

    assert b"sk-secret" not in (store.folder / "s.jsonl").read_bytes()


@pytest.mark.parametrize("how", ["message", "context"])
def test_provider_compaction_block_is_read_back_byte_for_byte(start, how):
    block = CompactionBlock(
        data={"type": "compaction", "encrypted_content": "abc", "ünï": ["abc", {"a": 1.5}]},
        text="about abc",
    )
    message = AssistantMessage(content=(block,), stop_reason="compaction", withheld="abc")
    recorder = start(redact=lambda text: text.replace("abc", "[gone]"))
    run(recorder, user_text("one"))
    if how == "message":
        run(recorder, message)
    else:
        recorder.sink(ContextReplaced(messages=(message,)))

    stored = recorder.load().messages[-1]

    assert json_text(stored.content[0].data) == json_text(block.data)
    assert (stored.content[0].text, stored.withheld) == ("about [gone]", "[gone]")


@pytest.mark.parametrize(
    "arguments",
    [
        {"signature": "sk-secret"},
        {"type": "thinking", "redacted": "sk-secret"},
        {"type": "compaction", "data": {"key": "sk-secret"}},
    ],
)
def test_tool_arguments_that_look_like_provider_blocks_are_redacted(start, store, arguments):
    call = ToolCallBlock(id="c", name="bash", arguments=arguments)
    thought = ThinkingBlock(text="sk-secret", signature="kept")
    recorder = start(redact=lambda text: text.replace("sk-secret", "[key]"))
    run(recorder, user_text("one"), AssistantMessage(content=(thought, call)))

    assert b"sk-secret" not in (store.folder / "s.jsonl").read_bytes()
    assert recorder.load().messages[1].content[0].signature == "kept"


def test_usage_of_judges_and_summarizers_adds_cost_but_no_turn(start, store):
    """Judges and summarizers report usage before, between and after turns."""
    recorder = start()
    side = Usage(input=1)
    run(recorder, user_text("one"), assistant_text("two", ONE))
    recorder.sink(UsageReported(usage=side, model="m", cost_usd=0.25))
    recorder.sink(MessageEnd(assistant_text("unpriced as yet", ONE)))
    recorder.sink(UsageReported(usage=side, model="m", cost_usd=0.25))
    recorder.sink(UsageReported(usage=ONE, model="m", cost_usd=0.5))

    loaded = recorder.load()

    assert loaded.usage == ONE + ONE + side + side
    assert (loaded.turns, loaded.cost_usd) == (2, 1.5)


@pytest.mark.parametrize("reason", ["compaction", "pause_turn"])
def test_assistant_message_to_be_continued_by_provider_is_not_counted_as_turn(start, reason):
    recorder = start()
    run(
        recorder,
        user_text("one"),
        assistant_text("…", ONE, stop_reason=reason),
        assistant_text("done", ONE),
    )

    assert recorder.load().turns == 1


def test_deferred_call_followed_by_prompt_gets_not_run_result():
    loaded = replay(chain(asks("a", "b"), deferred("a", "b"), started("a"), user_text("well")))

    _, begun, waiting, _ = loaded.messages
    assert "outcome is unknown" in begun.text
    assert waiting.text.startswith("Not run: it waited for a decision that never came.")
    assert waiting.details == {"outcome": "denied", "synthetic": "undecided"}
    assert waiting.is_error


def test_a66_records_of_two_runs_and_a_compaction_have_consecutive_numbers(start, store):
    recorder = start()
    run(recorder, user_text("one"), assistant_text("two", ONE))
    recorder.note_compaction(compaction(0, 2))
    recorder.close()
    seen = store.events_since("s", 0)[-1].seq
    recorder = start()
    run(recorder, user_text("three"), assistant_text("four", ONE))
    recorder.close()

    records = store.events_since("s", 0)
    tail = store.events_since("s", seen)

    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert len({record.id for record in records}) == len(records)
    assert list(tail) == list(records)[seen:]
    assert [r.type for r in tail] == ["run_start", "message", "message", "usage", "run_end"]
    assert list(store.events_since("s", records[-1].seq)) == []
    assert (store.read("s").turns, store.read("s").usage) == (2, ONE + ONE)


def test_a66_events_can_be_read_while_another_process_writes(store, tmp_path):
    writer = f"""
import sys
from pathlib import Path
from dirge_py.types.events import MessageEnd
from dirge_py.types.messages import user_text
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
recorder = Recorder(Store(Path({str(tmp_path / "state")!r}), Path(sys.argv[1])).open_or_create("s"))
recorder.load()
for line in sys.stdin:
    recorder.sink(MessageEnd(user_text(line.strip())))
    print(recorder.written_seq, flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", writer, str(tmp_path / "project")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        seen, found = 0, []
        for word in ("one", "two", "three"):
            child.stdin.write(word + "\n")
            child.stdin.flush()
            written = int(child.stdout.readline())
            fresh = store.events_since("s", seen)
            assert fresh[-1].seq == written
            seen = written
            found += [record.data["content"] for record in fresh if record.type == "message"]
        child.stdin.close()

    assert found == ["one", "two", "three"]


def test_events_since_returns_only_complete_records_of_torn_journal(start, store):
    recorder = start()
    run(recorder, user_text("one"))
    recorder.close()
    path = store.folder / "s.jsonl"
    whole = store.events_since("s", 0)
    path.write_bytes(path.read_bytes() + b'{"v":1,"seq":99,"ts":"')

    assert store.events_since("s", 0) == whole
    with pytest.raises(SessionError):
        store.events_since("unknown", 0)


def test_replay_skips_malformed_compaction_and_context_records():
    records = chain(user_text("one"), ("compaction", {"odd": 1}), ("context", {"messages": 3}))

    assert replay(records).messages == (user_text("one"),)
