import resource

import pytest

from dirge_py.session.journal import read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
    UsageReported,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import AwaitingConfirmation, Done, LimitExceeded
from dirge_py.types.tools import Claim, ToolCall, changes_something, text_result


class Claiming:
    """The part of a tool that the recorder uses."""

    def __init__(self, *ops):
        self.ops = ops

    def claims(self, arguments):
        if not self.ops:
            raise KeyError("no claims")
        return [Claim(op, "x") for op in self.ops]


def call_of(*ops, call_id="c", arguments=None):
    return ToolCall(id=call_id, name="bash", arguments=arguments or {}, tool=Claiming(*ops))


def asks(*ids):
    calls = tuple(ToolCallBlock(id=call_id, name="bash", arguments={}) for call_id in ids)
    return AssistantMessage(content=calls)


def answer(call_id):
    return ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=(TextBlock("ok"),))


@pytest.fixture
def notices():
    return []


@pytest.fixture
def start(store, notices, clock):
    """Opens recorders that are closed at the end of the test."""
    opened = []

    def open_recorder(name=None, **options):
        journal = store.open(name) if name else store.create("s")
        recorder = Recorder(journal, on_notice=notices.append, clock=clock, **options)
        opened.append(recorder)
        return recorder

    yield open_recorder
    for recorder in opened:
        recorder.close()


def stored(store):
    return read_journal(store.folder / "s.jsonl").records


def reopened(start, recorder):
    recorder.close()
    return start("s")


@pytest.fixture
def full_disk(store):
    """Call it to fill the disk, until the test ends or `full_disk.free()`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Disk:
        def fill(self):
            size = (store.folder / "s.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

        def free(self):
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    disk = Disk()
    yield disk
    disk.free()


def test_recorded_run_is_loaded_with_messages_choices_grants_and_usage(start, store):
    # G01
    usage = Usage(input=3, output=4)
    messages = (user_text("go"), AssistantMessage(content=(TextBlock("gone"),), usage=usage))
    recorder = start()
    recorder.load()
    recorder.note_model("work/big", thinking="high")
    recorder.note_mode("plan")
    recorder.note_grant("execute:make")
    recorder.note_setting("todo", [{"text": "a", "done": False}])
    recorder.note_setting("prompt", "terse")
    recorder.sink(AgentStart(run_id="r1"))
    recorder.sink(TurnStart(turn=0))
    for message in messages:
        recorder.sink(MessageStart(message))
        recorder.sink(MessageEnd(message))
    recorder.sink(UsageReported(usage=usage, model="work/big", cost_usd=0.5))
    recorder.sink(AgentEnd(messages=messages, outcome=Done()))

    loaded = reopened(start, recorder).load()

    assert loaded.messages == messages
    assert (loaded.choices.model, loaded.choices.thinking, loaded.choices.mode) == (
        "work/big",
        "high",
        "plan",
    )
    assert loaded.grants == ("execute:make",)
    assert loaded.choices.settings == {"todo": [{"text": "a", "done": False}], "prompt": "terse"}
    assert (loaded.usage, loaded.cost_usd, loaded.turns) == (usage, 0.5, 1)
    assert (loaded.description.title, loaded.notices, loaded.open_calls) == ("go", (), ())


def test_each_event_is_recorded_with_previous_record_as_parent(start, store):
    recorder = start()
    recorder.note_model("work/big")
    recorder.sink(AgentStart(run_id="r1"))
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(SystemNotice("watch out"))
    recorder.sink(AgentEnd(messages=(), outcome=LimitExceeded(name="cost", used=2.0, max=1.0)))

    records = stored(store)

    types = ["session", "model", "run_start", "title", "message", "notice", "run_end"]
    assert [r.type for r in records] == types
    assert [r.parent for r in records] == [None, *(r.id for r in records[:-1])]
    assert records[-1].data == {
        "run_id": "r1",
        "outcome": "LimitExceeded",
        "why": {"name": "cost", "used": 2.0, "max": 1.0},
        "messages": 1,
        "model": "work/big",
        "title": "go",
    }


def test_session_without_messages_leaves_no_files(start, store):
    recorder = start()
    recorder.load()
    recorder.note_model("work/big")
    recorder.note_grant("execute:make")
    for name in ("output", "assets"):
        (store.folder / "s" / name).mkdir(mode=0o700, parents=True)
    recorder.close()

    assert list(store.folder.iterdir()) == []


async def test_tool_call_start_is_on_disk_before_tool_runs(start, store):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("c")))

    async def proceed():
        last = stored(store)[-1]
        assert last.type == "tool_started"
        assert last.data == {
            "call_id": "c",
            "name": "bash",
            "arguments": {"a": 1},
            "only_reads": False,
        }
        return text_result("ran")

    result = await recorder.interceptor(call_of("execute", arguments={"a": 1}), proceed)

    assert result.text == "ran"


def begins(call_id):
    return ToolExecutionStart(tool_call_id=call_id, tool_name="bash", args={})


def ends(call_id, text="ok", **more):
    result = text_result(text)
    return ToolExecutionEnd(
        tool_call_id=call_id, tool_name="bash", result=result, is_error=False, **more
    )


async def run_of(recorder, call_id):
    async def proceed():
        return text_result("ok")

    await recorder.interceptor(call_of("execute", call_id=call_id), proceed)


async def test_s24_tool_result_is_on_disk_while_parallel_calls_still_run(start, store):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("a", "b")))
    for call_id in ("a", "b"):
        recorder.sink(begins(call_id))
    for call_id in ("a", "b"):
        await run_of(recorder, call_id)
    recorder.sink(ends("b", "made"))
    recorder.close()

    resumed = start("s")
    loaded = resumed.load()

    assert [(m.tool_call_id, m.text) for m in loaded.messages[2:]] == [("b", "made")]
    assert [(one.call.id, one.state) for one in loaded.interruption.calls] == [("a", "unknown")]
    assert stored(store)[-1].data["asked_in"] == loaded.record_ids[1]
    assert resumed.load().messages == loaded.messages
    assert resumed.load().reused == ()


async def test_sequential_tool_calls_write_no_tool_finished_record(start, store):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("a", "b")))
    for call_id in ("a", "b"):
        recorder.sink(begins(call_id))
        await run_of(recorder, call_id)
        recorder.sink(ends(call_id))
        recorder.sink(MessageEnd(answer(call_id)))

    assert "tool_finished" not in [record.type for record in stored(store)]


def test_denied_call_is_not_part_of_interruption_after_resume(start):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("a", "b")))
    recorder.sink(begins("a"))
    recorder.sink(ends("a", "Denied."))

    loaded = reopened(start, recorder).load()

    assert [m.text for m in loaded.messages[2:]] == ["Denied."]
    assert [one.call.id for one in loaded.interruption.calls] == ["b"]


def test_deferred_call_writes_no_tool_finished_record(start, store):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("a", "b")))
    for call_id in ("a", "b"):
        recorder.sink(begins(call_id))
        recorder.sink(ends(call_id, deferred=True))

    assert "tool_finished" not in [record.type for record in stored(store)]


def test_interruption_is_kept_until_next_message(start):
    recorder = start()
    recorder.sink(AgentStart(run_id="r1"))
    recorder.sink(MessageEnd(user_text("go")))
    resumed = reopened(start, recorder)
    found = resumed.load().interruption

    resumed.note_mode("plan")
    assert resumed.interruption == found
    resumed.sink(MessageEnd(user_text("on")))

    assert (found.run_id, resumed.interruption) == ("r1", None)


async def test_secrets_in_tool_finished_records_are_redacted(start, store):
    recorder = start(redact=lambda text: text.replace("sk-secret", "[key]"))
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("a", "b")))
    for call_id in ("a", "b"):
        recorder.sink(begins(call_id))
    recorder.sink(ends("a", "it is sk-secret"))
    recorder.close()

    assert b"sk-secret" not in (store.folder / "s.jsonl").read_bytes()
    assert start("s").load().messages[-1].text == "it is [key]"


def test_deferred_calls_are_open_after_resume_until_their_result(start):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(asks("c")))
    recorder.sink(AgentEnd(messages=(), outcome=AwaitingConfirmation(call_ids=("c",))))

    resumed = reopened(start, recorder)
    loaded = resumed.load()
    resumed.sink(MessageEnd(answer("c")))

    assert [call.id for call in loaded.open_calls] == ["c"]
    assert loaded.notices == ()
    assert resumed.load().open_calls == ()


async def test_full_disk_blocks_changing_tools_but_not_reading_tools(start, notices, full_disk):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    full_disk.fill()
    calls = []

    async def proceed():
        calls.append(1)
        return text_result("ran")

    reading = await recorder.interceptor(call_of("read", "meta"), proceed)
    changing = await recorder.interceptor(call_of("read", "edit"), proceed)

    assert (reading.text, reading.is_error) == ("ran", False)
    assert changing.is_error and "Not run" in changing.text
    assert changing.details["outcome"] == "error"
    assert calls == [1]
    assert len(notices) == 1 and "cannot be saved" in notices[0]


async def test_records_refused_by_full_disk_are_saved_later_in_order(
    start, store, notices, full_disk, clock
):
    recorder = start()
    recorder.sink(MessageEnd(user_text("one")))
    full_disk.fill()
    for text in ("two", "three"):
        clock.now += 1
        recorder.sink(MessageEnd(user_text(text)))
    assert not recorder.is_saving
    full_disk.free()
    recorder.sink(MessageEnd(user_text("four")))
    clock.now += 1
    recorder.sink(MessageEnd(user_text("five")))

    records = stored(store)

    assert recorder.is_saving
    assert [m.text for m in recorder.load().messages] == ["one", "two", "three", "four", "five"]
    assert len(notices) == 2 and "saved again" in notices[1]
    assert [r.parent for r in records] == [None, *(r.id for r in records[:-1])]
    assert [r.ts[17:19] for r in records[-4:]] != [records[-1].ts[17:19]] * 4


def test_closing_recorder_on_full_disk_reports_lost_records_once(start, notices, full_disk):
    recorder = start()
    recorder.sink(MessageEnd(user_text("one")))
    full_disk.fill()
    recorder.sink(MessageEnd(user_text("two")))
    recorder.close()
    recorder.close()

    assert [text for text in notices if "not saved" in text] == [
        "1 records of session s were not saved."
    ]


def test_events_after_close_are_not_recorded_and_cause_no_disk_notice(start, notices, store):
    recorder = start()
    recorder.sink(MessageEnd(user_text("one")))
    recorder.close()
    before = stored(store)
    recorder.sink(SystemNotice("Ended with the session: sh1 (`make`)."))

    assert (notices, stored(store)) == ([], before)


async def test_unsaved_tool_started_record_is_not_written_later(start, store, full_disk):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    full_disk.fill()

    async def proceed():
        return text_result("ran")

    await recorder.interceptor(call_of("edit"), proceed)
    full_disk.free()
    recorder.sink(MessageEnd(user_text("on")))

    assert "tool_started" not in [r.type for r in stored(store)]


def test_event_that_cannot_be_recorded_causes_notice_but_no_error(start, notices):
    recorder = start()

    recorder.sink(MessageEnd("no message at all"))

    assert len(notices) == 1 and "message_end" in notices[0]


def test_message_payload_json_cannot_represent_is_still_recorded(start):
    recorder = start()
    recorder.sink(MessageEnd(user_text("go")))
    recorder.sink(MessageEnd(CustomMessage(kind="k", payload={1: {2.5, 3.5}, "x": object})))

    assert recorder.load().messages[-1].payload["1"] in ([2.5, 3.5], [3.5, 2.5])


async def test_secrets_in_messages_settings_grants_and_calls_are_redacted_in_journal(start, store):
    # G15
    def redact(text):
        return text.replace("sk-secret", "[key]")

    async def proceed():
        return text_result("ran")

    recorder = start(redact=redact)
    recorder.note_setting("sk-secret", ["sk-secret"])
    recorder.note_grant("execute:curl -H sk-secret")
    recorder.sink(MessageEnd(user_text("my key is sk-secret")))
    call = ToolCallBlock(id="c", name="bash", arguments={"sk-secret": ["sk-secret"]})
    recorder.sink(MessageEnd(AssistantMessage(content=(call,))))
    await recorder.interceptor(call_of("execute", arguments={"command": "echo sk-secret"}), proceed)
    details = {"outcome": "ok", "env": {"KEY": "sk-secret"}}
    recorder.sink(
        MessageEnd(
            ToolResultMessage(tool_call_id="c", tool_name="bash", content=(), details=details)
        )
    )
    recorder.close()

    written = (store.folder / "s.jsonl").read_bytes()
    assert b"sk-secret" not in written
    assert written.count(b"[key]") == 9


def test_thinking_signature_and_redacted_data_are_not_redacted(start):
    recorder = start(redact=lambda text: text.replace("abc", "[gone]"))
    thought = ThinkingBlock(text="abc", signature="abc", redacted="abc")
    recorder.sink(MessageEnd(AssistantMessage(content=(thought,))))

    (block,) = recorder.load().messages[-1].content

    assert block == ThinkingBlock(text="[gone]", signature="abc", redacted="abc")


def test_continuing_from_earlier_record_keeps_later_records_in_journal(start, store):
    recorder = start()
    for text in ("one", "two"):
        recorder.sink(MessageEnd(user_text(text)))
    recorder.note_grant("execute:make")
    first = recorder.load().record_ids[0]

    recorder.go_on_from(first)
    recorder.sink(MessageEnd(user_text("three")))
    loaded = reopened(start, recorder).load()

    assert [m.text for m in loaded.messages] == ["one", "three"]
    assert loaded.grants == ("execute:make",)
    assert [r.data["content"] for r in stored(store) if r.type == "message"] == [
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (call_of("read"), False),
        (call_of("meta", "read"), False),
        (call_of("read", "execute"), True),
        (call_of("memory"), True),
        (call_of(), True),
        (ToolCall(id="c", name="gone", arguments={}), True),
    ],
)
def test_tool_call_counts_as_change_unless_all_claims_only_read(call, changes):
    assert changes_something(call) is changes
