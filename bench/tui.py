"""What the terminal UI costs on a 120 x 40 pty: starting, idling, streaming, resuming, flooded.

    python bench/tui.py stream | 2000 | 10000 | resume | flood

The model is the scripted provider in the same process, so its own cost is included. `resume` goes
on in a session of 5,000 messages and 20 MB; `flood` presses keys while a command writes 10,000
lines a second.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from sessions import write

from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store

_END = "END-OF-ANSWER"


def answer(lines: int) -> str:
    """Headings, prose, lists, code and tables, about as models write them."""
    out: list[str] = []
    number = 0
    while len(out) < lines:
        number += 1
        out += [f"## Section {number}", "", f"Paragraph {number} says **why** `f_{number}` is so,"]
        out += ["and that it was *measured*.", ""]
        out += [f"- item {item} with `code` and some words" for item in range(4)] + [""]
        out += ["```python", "def f(x):", "    return {'id': 1, 'ok': x > 2}", "```", ""]
        if number % 5 == 0:
            out += ["| a | b |", "| --- | ---: |", "| row | 1 |", "| row | 2 |", ""]
    return "\n".join([*out[: lines - 1], _END])


def configure(folder: Path, kind: str) -> Path:
    text = answer(150 if kind == "stream" else int(kind))
    pause_s = 4 / 600 if kind == "stream" else 0.0
    replies = [{"text": text, "chunk_chars": 4, "pause_s": pause_s}]
    (folder / "script.json").write_text(json.dumps({"replies": replies}))
    config = folder / "config.toml"
    config.write_text(
        'provider = "s"\n[providers.s]\ntype = "scripted"\nmodel = "m"\n'
        f'script = "{folder / "script.json"}"\n'
    )
    return config


def on_pty(
    command: Sequence[str], folder: Path, **more: str
) -> tuple[subprocess.Popen[bytes], int]:
    """The program on a pty of 120 x 40, and the other end of that."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        "TERM": "xterm-256color",
        "DIRGE_STATE_DIR": str(folder / "state"),
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
        **more,
    }
    child = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    return child, master


class Program:
    """dirge on a pty: what it wrote, and what it has cost so far."""

    def __init__(self, folder: Path, config: Path, *words: str, **more: str) -> None:
        command = [sys.executable, "-m", "dirge_py", "--config", str(config), *words]
        self.child, self.master = on_pty(command, folder, **more)
        self.seen = b""

    def read_until(self, mark: str, limit_s: float) -> float:
        """Seconds until `mark` was written."""
        began = time.monotonic()
        while mark.encode() not in self.seen:
            if time.monotonic() - began > limit_s:
                raise SystemExit(f"{mark!r} did not appear in {limit_s} s")
            self.read_for(0.02)
        return time.monotonic() - began

    def read_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 1 << 16)

    def write(self, text: str) -> None:
        self.seen = b""
        os.write(self.master, text.encode())

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def resume() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        config = configure(folder, "stream")
        sessions = Store(folder / "state", folder).folder
        sessions.mkdir(parents=True)
        limits = SegmentLimits(records=10**9, size=10**12)
        write(sessions / "long.jsonl", turns=1250, result_chars=12_000, limits=limits)
        program = Program(folder, config, "-r", "long")
        first_s = program.read_until("hat do you want to do", 20)
        whole_s = first_s + program.read_until("this session with", 60)
        print(f"5,000 messages: input on screen {first_s:.2f} s, all of it {whole_s:.2f} s,")
        program.read_for(1.0)
        print(f"{program.cpu_s():.2f} s CPU, {program.rss_mb():.0f} MB")
        program.child.terminate()
        program.child.wait(10)


def flood() -> None:
    lines = "import time\nfor n in range(2000):\n print('line of output\\n' * 100, flush=True)\n"
    lines += " time.sleep(0.01)\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lines.py").write_text(lines)
        config = configure(folder, "stream")
        call = {"name": "bash", "arguments": {"command": f"{sys.executable} lines.py"}}
        replies = [{"calls": [call]}, {"text": _END}]
        (folder / "script.json").write_text(json.dumps({"replies": replies}))
        program = Program(folder, config, "--yolo")
        program.read_until("ready", 20)
        rss = program.rss_mb()
        program.write("go\r")
        program.read_for(2.0)
        took = []
        for _ in range(100):
            began = time.monotonic()
            program.write("Z")
            program.read_until("Z", 5)
            took.append(1000 * (time.monotonic() - began))
            program.read_for(0.1)
        took.sort()
        print(
            f"flood: a key {took[50]:.0f} ms, p95 {took[95]:.0f} ms, worst {took[-1]:.0f} ms;"
            f" +{program.rss_mb() - rss:.0f} MB"
        )
        program.child.terminate()
        program.child.wait(10)


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "stream"
    if kind in ("resume", "flood"):
        resume() if kind == "resume" else flood()
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = Program(folder, configure(folder, kind))
        first_s = program.read_until("hat do you want to do", 20)
        ready_s = first_s + program.read_until("ready", 20)
        print(
            f"input on screen {first_s:.2f} s, ready {ready_s:.2f} s, {program.cpu_s():.2f} s CPU"
        )
        program.read_for(1.0)
        before, program.seen = program.cpu_s(), b""
        program.read_for(5.0)
        idle = program.cpu_s() - before
        print(f"idle 5 s: {idle:.2f} s CPU, {len(program.seen)} bytes, {program.rss_mb():.0f} MB")
        rss, before = program.rss_mb(), program.cpu_s()
        program.write("go\r")
        took = program.read_until(_END, 60)
        program.read_for(0.3)
        print(
            f"{kind}: {took:.2f} s, {program.cpu_s() - before:.2f} s CPU,"
            f" {len(program.seen) / 1000:.0f} kB to the terminal, +{program.rss_mb() - rss:.0f} MB"
        )
        before = program.cpu_s()
        began = time.monotonic()
        program.write("k")
        program.read_until("k", 5)
        print(f"then one key: {1000 * (time.monotonic() - began):.0f} ms")
        program.child.terminate()
        print(f"SIGTERM: exit {program.child.wait(10)}")


if __name__ == "__main__":
    main()
