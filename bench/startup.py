"""What a start costs, against a bare interpreter: CPU time, and what was imported for it.

    python bench/startup.py [--rounds N] [--imports]

Rows: the interpreter alone, `dirge --version`, `dirge --help`, one turn of `dirge -p` with a local
server beside a bare httpx client, and the stages of the terminal UI on a pseudo-terminal beside an
empty Textual app. Runs are interleaved; a figure is the median of its rounds, with minimum and
maximum, of CPU time. Nothing here fails: it prints.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from report import Report, run

MARKS = {
    "dirge, first frame": b"What do you want to do?",
    "dirge, UI takes over": b"\x1b]11;?",
    "dirge, session open": b"ready",
}
"""What the terminal UI writes: the early frame, after its own first frame, when it is ready."""
DIRGE = str(Path(sys.executable).parent / "dirge")


EMPTY_APP = "empty Textual app, first frame"
EMPTY = """
from textual.app import App
from textual.widgets import TextArea
class Empty(App):
    def compose(self):
        yield TextArea("ready")
    def on_mount(self):
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.focus()
Empty().run()
"""
HTTPX = """
import asyncio, os, httpx
async def main():
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    async with httpx.AsyncClient() as client, client.stream("POST", url, json={}) as response:
        async for line in response.aiter_lines():
            pass
asyncio.run(main())
"""


class Service(BaseHTTPRequestHandler):
    """Chat Completions that always answers with one word."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        chunks = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        ]
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def environment(home: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "OPENAI_API_KEY": "sk-bench",
        "OPENAI_BASE_URL": url,
        "DIRGE_MODEL": "openai/bench",
    }


def ui_writes(
    mark: bytes, home: Path, env: dict[str, str], argv: Sequence[str] = (DIRGE,)
) -> float:
    """CPU milliseconds until the terminal UI has written `mark`."""
    pid, master = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.chdir(home)
        os.execve(argv[0], argv, env)
    seen = b""
    while mark not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", seen):
        if not select.select([master], [], [], 20)[0]:
            raise SystemExit(f"the terminal UI did not write {mark!r} within 20 s")
        seen += os.read(master, 65536)
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    cpu = sum(map(int, ticks)) * 1000 / os.sysconf("SC_CLK_TCK")
    os.kill(pid, signal.SIGTERM)
    threading.Thread(target=_drain, args=(master,), daemon=True).start()
    os.waitpid(pid, 0)
    return cpu


def _drain(master: int) -> None:
    try:
        while os.read(master, 65536):
            pass
    except OSError:
        return


def imports(argv: list[str], home: Path, env: dict[str, str], most: int = 25) -> str:
    """The packages that cost most of the import time, in milliseconds of their own."""
    traced = [sys.executable, "-X", "importtime", DIRGE, *argv[1:]]
    child = subprocess.run(traced, cwd=home, env=env, capture_output=True, text=True)
    spent: dict[str, float] = {}
    for line in child.stderr.splitlines():
        if match := re.match(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", line):
            parts = match[2].split(".")
            name = ".".join(parts[:2]) if parts[0] == "dirge_py" else parts[0]
            spent[name] = spent.get(name, 0) + int(match[1]) / 1000
    rows = sorted(spent.items(), key=lambda row: -row[1])[:most]
    total = f"{sum(spent.values()):8.1f}  all imports"
    return "\n".join([total, *(f"{cost:8.1f}  {name}" for name, cost in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--imports", action="store_true", help="tables of what was imported")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served() as url:
        home = Path(folder)
        env = environment(home, url)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "bare httpx client, one turn": [sys.executable, "-c", HTTPX],
            "dirge --version": [DIRGE, "--version"],
            "dirge --help": [DIRGE, "--help"],
            "dirge -p, one turn": [DIRGE, "-p", "hi"],
        }
        rows: dict[str, Callable[[], float]] = {
            name: lambda argv=argv: run(argv, home, env).cpu_ms for name, argv in commands.items()
        }
        empty = [sys.executable, "-c", EMPTY]
        rows[EMPTY_APP] = lambda: ui_writes(b"ready", home, env, empty)
        ui_writes(MARKS["dirge, session open"], home, env)  # Stores the early frame.
        rows |= {name: lambda mark=mark: ui_writes(mark, home, env) for name, mark in MARKS.items()}
        figures: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(flags.rounds):
            for name, measure in rows.items():
                figures[name].append(measure())
        report = Report("startup")
        floors = {"dirge -p, one turn": "bare httpx client, one turn"}
        for name, taken in figures.items():
            floor = EMPTY_APP if name in MARKS else floors.get(name, "")
            report.row(name, taken, floor=floor)
        turns = [run(commands["dirge -p, one turn"], home, env).peak_mb for _ in range(3)]
        report.row("dirge -p, one turn: peak memory", turns, "MB")
        report.save()
        if flags.imports:
            for name, argv in list(commands.items())[2:]:
                print(f"\n{name}: own import time, ms\n{imports(argv, home, env)}")


if __name__ == "__main__":
    main()
