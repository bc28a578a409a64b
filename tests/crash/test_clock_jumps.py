"""A clock that jumps changes only the displayed times."""

from datetime import UTC, datetime
from pathlib import Path

from dirge_py.sdk.sessions import changes_since
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd
from dirge_py.types.messages import AssistantMessage, TextBlock, user_text
from dirge_py.types.outcomes import Done

NOON = 1_795_000_000.0
JUMPS = (NOON, NOON + 3600, NOON - 3600, 0.0, 2.0**31 + 5, NOON + 7200, 4e9, NOON)


def test_messages_keep_their_order_if_the_clock_jumps(tmp_path: Path) -> None:
    for number, moment in enumerate(JUMPS):
        store = Store(
            tmp_path, tmp_path, clock=lambda at=moment: at, limits=SegmentLimits(records=12)
        )
        recorder = Recorder(store.open_or_create("s"), clock=lambda at=moment: at)
        recorder.load()
        recorder.sink(AgentStart(run_id=f"r{number}"))
        recorder.sink(MessageEnd(user_text(f"prompt {number}")))
        answer = AssistantMessage(content=(TextBlock(f"answer {number}"),))
        recorder.sink(MessageEnd(answer))
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
        recorder.close()

    loaded = store.read("s")
    [summary] = store.list()

    told = [text for n in range(len(JUMPS)) for text in (f"prompt {n}", f"answer {n}")]
    assert [message.text for message in loaded.messages] == told
    records = store.events_since("s", 0)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert summary.messages == len(told)
    assert summary.updated == datetime.fromtimestamp(NOON, UTC)
    before = datetime.fromtimestamp(NOON - 10**6, UTC)
    assert list(changes_since(loaded, cwd=tmp_path, now=before)) == []
