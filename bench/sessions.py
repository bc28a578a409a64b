"""How long sessions take to read and to write, and what they need of memory.

    python bench/sessions.py [--rounds N]

Rows: a session of 5,000 messages and 20 MB opened and replayed, with the memory it takes and beside
what parsing the same lines takes; the same with its results in files of their own, and in segments
of 1 MiB; a session of 100 MB; one record appended, with and without a sync. Each load is a process
of its own. A figure is a median with its range. Nothing here fails: it prints.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Report

from dirge_py.session.journal import Journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, UsageReported
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done

ROOT = Path(__file__).parents[1]
USAGE = Usage(input=1000, output=100)

LOAD = """
import sys, time
from pathlib import Path
from dirge_py.session.history import replay
from dirge_py.session.journal import Journal

def peak_mb():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024

before, start = peak_mb(), time.perf_counter()
journal = Journal(Path(sys.argv[1]))
opened = time.perf_counter()
loaded = replay(journal.records(), notices=journal.notices)
print(opened - start, time.perf_counter() - opened, peak_mb() - before)
"""

PARSE = """
import json, sys, time
start = time.perf_counter()
with open(sys.argv[1], "rb") as lines:
    kept = [json.loads(line) for line in lines]
print(time.perf_counter() - start)
"""


def write(path: Path, *, turns: int, result_chars: int, limits: SegmentLimits) -> None:
    """A session of four messages a turn."""
    recorder = Recorder(Journal(path, limits=limits))
    said = "lorem ipsum dolor é\n" * 400
    for number in range(turns):
        recorder.sink(AgentStart(run_id=f"r{number}"))
        call = ToolCallBlock(id=f"c{number}", name="bash", arguments={"command": "make test"})
        text = f"{number} " + ("a line of output – é\n" * (result_chars // 20))[:result_chars]
        for message in (
            user_text(f"do {number} " * 20),
            AssistantMessage(
                content=(ThinkingBlock(text="hm " * 300), TextBlock("look"), call), usage=USAGE
            ),
            ToolResultMessage(tool_call_id=call.id, tool_name="bash", content=(TextBlock(text),)),
            AssistantMessage(content=(TextBlock(said[:2000]),), usage=USAGE),
        ):
            recorder.sink(MessageEnd(message))
            if message.role == "assistant":
                recorder.sink(UsageReported(usage=USAGE, model="m", cost_usd=0.01))
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.close()


def apart(code: str, path: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


REPORT = Report("sessions")


def loads(name: str, path: Path, rounds: int) -> None:
    found = [apart(LOAD, path) for _ in range(rounds)]
    files = [path, *path.with_suffix("").rglob("*.jsonl")]
    parsed = f"{name}: json.loads of the lines"
    taken = [sum(apart(PARSE, file)[0] for file in files) * 1000 for _ in range(rounds)]
    REPORT.row(parsed, taken)
    whole = [(opened + replayed) * 1000 for opened, replayed, _ in found]
    REPORT.row(f"{name}: open and replay", whole, floor=parsed)
    REPORT.row(f"{name}: memory", [memory for _, _, memory in found], "MB")


def appends(folder: Path, rounds: int, *, sync: bool) -> list[float]:
    journal = Journal(folder / f"append-{sync}.jsonl")
    took = []
    for _ in range(rounds * 40):
        start = time.perf_counter()
        journal.append("message", {"role": "user", "content": "x" * 2000}, sync=sync)
        took.append((time.perf_counter() - start) * 1000)
    journal.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    whole = SegmentLimits(records=10**9, size=10**12)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "one.jsonl", turns=1250, result_chars=12_000, limits=whole)
        loads("5,000 messages, one file", folder / "one.jsonl", rounds)
        small = SegmentLimits(records=10_000, size=1024 * 1024)
        write(folder / "segments.jsonl", turns=1250, result_chars=12_000, limits=small)
        loads("5,000 messages, segments of 1 MiB", folder / "segments.jsonl", rounds)
        write(folder / "blobs.jsonl", turns=1250, result_chars=17_000, limits=whole)
        loads("5,000 messages, each result in its file", folder / "blobs.jsonl", rounds)
        write(folder / "large.jsonl", turns=5200, result_chars=12_000, limits=SegmentLimits())
        loads("20,800 messages", folder / "large.jsonl", max(1, rounds // 2))
        REPORT.row("a record appended", appends(folder, rounds, sync=False))
        REPORT.row("a record appended and synced", appends(folder, rounds, sync=True))
    REPORT.save()


if __name__ == "__main__":
    main()
