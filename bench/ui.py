"""What the terminal UI costs as a conversation grows, on a 120 x 40 pty, beside an empty app.

    python bench/ui.py [quick]

Sessions of 10, 200 and 2,000 messages (23 lines each on average) are resumed. A time is from the
key to the last byte of what it changed on the screen; the empty app (a text area, no more) gives
what Textual and this machine take, so ratios in one run count. The model of the streams is the
scripted provider in the same process, whose own cost is included.
"""

import fcntl
import json
import os
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from tui import answer, on_pty

from dirge_py.session.journal import Journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd
from dirge_py.types.messages import AssistantMessage, TextBlock, Usage, user_text
from dirge_py.types.outcomes import Done

SIZES = (10, 200, 2000)
ROUNDS = 40
QUIET_S = 0.06
"""Nothing more comes after this, once something has."""

END = "END-OF-STREAM"
FRAME = b"\x1b[?2026h"
TOKENS_PER_S = 2000
BATCH = 4
"""Tokens of a chunk, as fast services send them."""

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


class Screen:
    """A program on a pty that knows of synchronised frames."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self.began = time.monotonic()
        self.child, self.master = on_pty(
            [sys.executable, *arguments], folder, DIRGE_CONFIG_DIR=str(folder)
        )
        self.seen = b""
        self.last_s = 0.0

    def size(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read(self, patience_s: float) -> bool:
        """Take what there is, or comes within this time."""
        if not select.select([self.master], [], [], patience_s)[0]:
            return False
        self.seen += os.read(self.master, 1 << 16)
        self.last_s = time.monotonic()
        if b"\x1b[?2026$p" in self.seen:
            self.seen = self.seen.replace(b"\x1b[?2026$p", b"")
            os.write(self.master, b"\x1b[?2026;2$y")
        return True

    def until(self, mark: str, limit_s: float = 60.0) -> float:
        """Seconds from now until `mark` was written."""
        began = time.monotonic()
        while mark.encode() not in self.seen:
            if time.monotonic() - began > limit_s:
                raise SystemExit(f"{mark!r} did not appear in {limit_s} s: {self.seen[-500:]!r}")
            self.read(0.05)
        return self.last_s - began

    def settle(self, quiet_s: float = 0.4) -> None:
        end = time.monotonic() + 5
        while time.monotonic() < end and self.read(quiet_s):
            pass

    def after(self, act: Callable[[], object]) -> float:
        """Milliseconds until the last byte of what `act` changed."""
        self.seen = b""
        began = time.monotonic()
        act()
        if not self.read(1.0):
            return 0.0
        while self.read(QUIET_S):
            pass
        return (self.last_s - began) * 1000

    def write(self, text: str) -> None:
        os.write(self.master, text.encode())

    def resize(self, columns: int) -> None:
        self.size(columns)
        self.child.send_signal(signal.SIGWINCH)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        self.child.kill()
        self.child.wait(10)
        os.close(self.master)


def conversation(path: Path, messages: int) -> None:
    """A stored session of prompts and answers, 46 lines for each pair."""
    recorder = Recorder(Journal(path))
    text = answer(44).replace("END-OF-ANSWER", "and so on.")
    for number in range(messages // 2):
        recorder.sink(AgentStart(run_id=f"r{number}"))
        said = AssistantMessage(content=(TextBlock(f"{number}\n{text}"),), usage=Usage(input=10))
        for message in (user_text(f"prompt {number}"), said):
            recorder.sink(MessageEnd(message))
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.close()


def configure(folder: Path) -> None:
    words = " ".join(f"word{number}" for number in range(TOKENS_PER_S))
    replies = [
        {"text": f"{words}\n\n{END}", "chunk_chars": 4 * BATCH, "pause_s": BATCH / TOKENS_PER_S}
    ] * 3
    (folder / "script.json").write_text(json.dumps({"replies": replies}))
    (folder / "config.toml").write_text(
        f'[providers.s]\ntype = "scripted"\nmodel = "m"\nscript = "{folder / "script.json"}"\n'
        "[session]\nsnapshots = false\n"
    )


def spread(took: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(took)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]


def keys(screen: Screen, before: str = "") -> tuple[float, float]:
    """Median and 95th percentile of a key, in ms; `before` is sent with it."""
    took = [screen.after(lambda: screen.write(f"{before}k")) for _ in range(ROUNDS)]
    return spread(took)


def measured(screen: Screen, *, scrolls: bool) -> dict[str, tuple[float, float]]:
    found = {"key": keys(screen), "blur, focus and a key": keys(screen, "\x1b[O\x1b[I")}
    if scrolls:
        pages = [f"\x1b[{5 + number % 2}~" for number in range(ROUNDS)]
        found["a page up or down"] = spread(
            [screen.after(lambda p=p: screen.write(p)) for p in pages]
        )
        screen.settle()
    columns = [100 + 20 * (number % 2) for number in range(6)]
    found["resize"] = spread([screen.after(lambda c=c: screen.resize(c)) for c in columns])
    screen.settle()
    return found


def idle(screen: Screen, seconds: float) -> str:
    screen.settle(1.0)
    before, screen.seen = screen.cpu_s(), b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        screen.read(end - time.monotonic())
    used = 100 * (screen.cpu_s() - before) / seconds
    return f"idle {seconds:.0f} s: {used:.2f} % CPU, {len(screen.seen)} bytes"


def stream(screen: Screen, folder: Path) -> str:
    """A long answer at 2,000 tokens a second: how far behind the screen is at its end."""
    screen.seen = b""
    screen.write("\x15go\r")
    waited_s = screen.until("word0")
    before, began = screen.cpu_s(), time.monotonic()
    screen.until(END)
    shown_at, took = time.time(), time.monotonic() - began
    frames, cpu = screen.seen.count(FRAME), screen.cpu_s() - before
    screen.settle()
    newest = max(folder.glob("state/sessions/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    ended = [line for line in newest.read_text().splitlines() if END in line][-1]
    stored = datetime.fromisoformat(json.loads(ended)["ts"]).timestamp()
    tokens = sum(len(f"word{number} ") for number in range(TOKENS_PER_S)) / 4
    return (
        f"stream begins after {waited_s:.2f} s, "
        f"{tokens / took:.0f} tokens/s, {frames / took:.1f} frames/s, the last one "
        f"{(shown_at - stored) * 1000:+.0f} ms after the answer was stored, "
        f"{cpu / tokens * 1e6:.0f} µs CPU per token"
    )


def show(
    name: str, found: dict[str, tuple[float, float]], empty: dict[str, tuple[float, float]]
) -> None:
    for what, (median, p95) in found.items():
        beside = (
            f"   empty app {empty[what][0]:6.1f} / {empty[what][1]:6.1f}" if what in empty else ""
        )
        print(f"{name:>8}  {what:24}{median:7.1f} ms median {p95:7.1f} ms p95{beside}")


def of_the_empty_app(folder: Path, idle_s: float) -> tuple[float, dict[str, tuple[float, float]]]:
    firsts = []
    for _ in range(3):
        screen = Screen(folder, ["-c", EMPTY])
        screen.until("eady")
        firsts.append(screen.last_s - screen.began)
        screen.settle()
        if len(firsts) < 3:
            screen.close()
    found = measured(screen, scrolls=False)
    show("empty", found, {})
    rested = idle(screen, idle_s)
    print(f"   empty  first frame {min(firsts):.2f} s, {screen.rss_mb():.0f} MB, {rested}")
    screen.close()
    return min(firsts), found


def of_dirge(folder: Path, size: int, first: float, empty: dict[str, tuple[float, float]]) -> None:
    arguments = ["-m", "dirge_py", "-r", f"long{size}"]
    firsts = []
    for _ in range(3):
        screen = Screen(folder, arguments)
        screen.until("hat do you want to do")
        firsts.append(screen.last_s - screen.began)
        if len(firsts) < 3:
            screen.close()
    screen.until("Back in this session")
    whole_s = screen.last_s - screen.began
    screen.settle()
    name = f"{size:,}"
    print(
        f"{name:>8}  first frame {min(firsts):.2f} s, {min(firsts) / first:.2f} × empty app; "
        f"all of it {whole_s:.2f} s; {screen.rss_mb():.0f} MB"
    )
    show(name, measured(screen, scrolls=True), empty)
    print(f"{name:>8}  {stream(screen, folder)}; {screen.rss_mb():.0f} MB")
    screen.close()


def main() -> None:
    idle_s = 2.0 if "quick" in sys.argv else 10.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        configure(folder)
        sessions = Store(folder / "state", folder).folder
        sessions.mkdir(parents=True)
        first, empty = of_the_empty_app(folder, idle_s)
        for size in SIZES:
            conversation(sessions / f"long{size}.jsonl", size)
            of_dirge(folder, size, first, empty)
        screen = Screen(folder, ["-m", "dirge_py", "-r", f"long{SIZES[-1]}"])
        screen.until("Back in this session")
        print(f"{SIZES[-1]:>8,}  {idle(screen, idle_s)}, {screen.rss_mb():.0f} MB")
        screen.close()


if __name__ == "__main__":
    main()
