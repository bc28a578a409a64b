import random
from pathlib import Path

from dirge_py.session.journal import read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store
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
from tests.crash.simulated_disk import Disk
from tests.security.sizes import count, size
from tests.support.history_faults import faults

MOMENTS = size(40, 20_000)


def store_in(base: Path) -> Store:
    return Store(base, Path("/project"), limits=SegmentLimits(records=7))


def live(disk: Disk) -> None:
    """Eight runs whose messages all have to be durable."""
    with disk.watched():
        recorder = Recorder(store_in(disk.base).create("s"))
        for n in range(8):
            recorder.sink(AgentStart(run_id=f"r{n}"))
            call = ToolCallBlock(id="call_0", name="bash", arguments={})
            answer = AssistantMessage(content=(TextBlock("look"), call), usage=Usage(input=1))
            text = f"{n} lines\n" * (3000 if n % 3 == 1 else 2)
            told = ToolResultMessage(
                tool_call_id=call.id, tool_name="bash", content=(TextBlock(text),)
            )
            for message in (user_text(f"prompt {n}"), answer, told):
                recorder.sink(MessageEnd(message))
                assert recorder.written_seq is not None
                disk.committed(recorder.written_seq)
                recorder.sink(UsageReported(usage=Usage(input=1), model="m", cost_usd=0.1))
            recorder.sink(AgentEnd(messages=(), outcome=Done()))
        recorder.close()


def test_power_loss_loses_no_committed_record(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "state")
    disk.base.mkdir()
    live(disk)
    chance = random.Random(5)
    whole = store_in(disk.base).read("s").messages

    for number in range(MOMENTS):
        left = tmp_path / "left" / str(number)
        moment = chance.randrange(1, len(disk.log) + 1)
        committed = disk.after_power_loss(moment, chance, left)
        store = store_in(left)
        journal = store.open_or_create("s")
        loaded = Recorder(journal).load()
        journal.close()

        first = store.folder / "s.jsonl"
        seqs = {record.seq for record in read_journal(first).records} if first.exists() else set()
        assert committed <= seqs
        # What came later never outlives what came before it.
        assert seqs == set(range(1, len(seqs) + 1))
        assert faults(normalize_history([*loaded.messages, user_text("go on")]).messages) == []
        results = [m for m in loaded.messages if isinstance(m, ToolResultMessage)]
        assert [m for m in results if m not in whole and not m.details.get("synthetic")] == []
    count("crash: power lost between two writes", MOMENTS, 0, "lost something committed")
