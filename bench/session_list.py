"""Lists and searches over many sessions, cold and warm, beside reading the same bytes.

python bench/session_list.py [--sessions 1000] [--turns 20]
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from report import Report, cpu_ms

from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, UsageReported
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done

USAGE = Usage(input=12_000, output=300, cache_read=11_000)
FILLER = "The parser reads a token, looks one ahead and decides which rule comes next. " * 8


def make(store: Store, number: int, turns: int) -> None:
    recorder = Recorder(store.create(f"bench-{number:05}"))
    recorder.load()
    recorder.note_model("work/model")
    recorder.sink(AgentStart(run_id="r"))
    recorder.sink(MessageEnd(user_text(f"mend the parser of part {number}, needle{number}")))
    for turn in range(turns):
        call = ToolCallBlock(id=f"c{turn}", name="read", arguments={"path": f"src/{turn}.py"})
        message = AssistantMessage(content=(TextBlock(FILLER), call), usage=USAGE)
        recorder.sink(MessageEnd(message))
        recorder.sink(UsageReported(usage=USAGE, model="work/model", cost_usd=0.01))
        result = ToolResultMessage(
            tool_call_id=call.id, tool_name="read", content=(TextBlock(FILLER * 4),)
        )
        recorder.sink(MessageEnd(result))
    recorder.sink(AgentEnd(outcome=Done(), messages=()))
    recorder.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=20)
    flags = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="dirge-bench-"))
    try:
        store = Store(root, root)
        for number in range(flags.sessions):
            make(store, number, flags.turns)
        measure(root, store, flags.sessions)
    finally:
        shutil.rmtree(root)


def measure(root: Path, store: Store, sessions: int) -> None:
    report, index = Report("session_list"), SessionIndex(root, store.folder.name)
    reading = "reading the bytes"

    def row(name: str, act: Callable[[], object], floor: str = reading) -> None:
        report.row(name, [cpu_ms(act)], floor=floor)

    row(reading, lambda: [path.read_bytes() for path in store.folder.glob("*.jsonl")], "")
    row("list, no index yet", index.sessions)
    report.row("index", [(root / "index.sqlite").stat().st_size / 1e6], "MB")
    row("list", index.sessions)
    row("search of a rare word", lambda: index.search([f"needle{sessions // 2}"]))
    row("search of a word in every text", lambda: index.search(["parser"]))
    make(store, sessions, 20)
    row("list after one more session", index.sessions)
    row("list without index", store.list)
    row("the newest, as `dirge -c` finds it", store.newest)
    report.save()


if __name__ == "__main__":
    main()
