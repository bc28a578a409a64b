"""Lists and searches over many sessions, cold and warm, beside reading the same bytes.

python bench/session_list.py [--sessions 1000] [--turns 20]
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def timed(name: str, act: Callable[[], object], bytes_s: float) -> None:
    start = time.perf_counter()
    act()
    took = time.perf_counter() - start
    print(json.dumps({"what": name, "seconds": round(took, 4), "ratio": round(took / bytes_s, 2)}))


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
    index = SessionIndex(root, store.folder.name)
    start = time.perf_counter()
    size = sum(len(path.read_bytes()) for path in store.folder.glob("*.jsonl"))
    bytes_s = time.perf_counter() - start
    print(json.dumps({"what": "reading the bytes", "seconds": round(bytes_s, 4), "bytes": size}))
    timed("list, no index yet", index.sessions, bytes_s)
    print(json.dumps({"what": "index", "bytes": (root / "index.sqlite").stat().st_size}))
    timed("list", index.sessions, bytes_s)
    timed("search of a rare word", lambda: index.search([f"needle{sessions // 2}"]), bytes_s)
    timed("search of a word in every text", lambda: index.search(["parser"]), bytes_s)
    make(store, sessions, 20)
    timed("list after one more session", index.sessions, bytes_s)
    timed("list without index", lambda: store.list(), bytes_s)


if __name__ == "__main__":
    main()
