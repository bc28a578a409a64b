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
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from report import Report
from startup import EMPTY
from tui import answer, on_pty

from dirge_py.session.journal import Journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd
from dirge_py.types.messages import AssistantMessage, TextBlock, Usage, user_text
from dirge_py.types.outcomes import Done

REPORT = Report("ui")
SIZES = (10, 200, 2000)
ROUNDS = 40
QUIET_S = 0.06
"""Nothing more comes after this, once something has."""

END = "END-OF-STREAM"
FRAME = b"\x1b[?2026h"
TOKENS_PER_S = 2000
BATCH = 4
"""Tokens of a chunk, as fast services send them."""


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


def keys(screen: Screen, before: str = "") -> list[float]:
    """Milliseconds of each key; `before` is sent with it."""
    return [screen.after(lambda: screen.write(f"{before}k")) for _ in range(ROUNDS)]


def measured(screen: Screen, *, scrolls: bool) -> dict[str, list[float]]:
    found = {"key": keys(screen), "blur, focus and a key": keys(screen, "\x1b[O\x1b[I")}
    if scrolls:
        pages = [f"\x1b[{5 + number % 2}~" for number in range(ROUNDS)]
        found["a page up or down"] = [screen.after(lambda p=p: screen.write(p)) for p in pages]
        screen.settle()
    columns = [100 + 20 * (number % 2) for number in range(6)]
    found["resize"] = [screen.after(lambda c=c: screen.resize(c)) for c in columns]
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


def first_frames(make: Callable[[], Screen], mark: str) -> tuple[Screen, list[float]]:
    """The third of three programs, and the milliseconds of each until `mark` was written."""
    took: list[float] = []
    while True:
        screen = make()
        screen.until(mark)
        took.append((screen.last_s - screen.began) * 1000)
        if len(took) == 3:
            return screen, took
        screen.close()


def of_the_empty_app(folder: Path, idle_s: float) -> None:
    screen, firsts = first_frames(lambda: Screen(folder, ["-c", EMPTY]), "eady")
    screen.settle()
    REPORT.row("empty app: first frame", firsts)
    for what, took in measured(screen, scrolls=False).items():
        REPORT.row(f"empty app: {what}", took)
    REPORT.row("empty app: memory", [screen.rss_mb()], "MB")
    print(idle(screen, idle_s))
    screen.close()


def of_dirge(folder: Path, size: int) -> None:
    arguments, name = ["-m", "dirge_py", "-r", f"long{size}"], f"{size:,} messages"
    screen, firsts = first_frames(lambda: Screen(folder, arguments), "hat do you want to do")
    REPORT.row(f"{name}: first frame", firsts, floor="empty app: first frame")
    screen.until("Resumed this session")
    REPORT.row(f"{name}: all of it", [(screen.last_s - screen.began) * 1000])
    screen.settle()
    REPORT.row(f"{name}: memory", [screen.rss_mb()], "MB", floor="empty app: memory")
    for what, took in measured(screen, scrolls=True).items():
        floor = f"empty app: {what}"
        REPORT.row(f"{name}: {what}", took, floor=floor if REPORT.has(floor) else "")
    print(f"{stream(screen, folder)}; {screen.rss_mb():.0f} MB")
    screen.close()


def main() -> None:
    idle_s = 2.0 if "quick" in sys.argv else 10.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        configure(folder)
        sessions = Store(folder / "state", folder).folder
        sessions.mkdir(parents=True)
        of_the_empty_app(folder, idle_s)
        for size in SIZES:
            conversation(sessions / f"long{size}.jsonl", size)
            of_dirge(folder, size)
        screen = Screen(folder, ["-m", "dirge_py", "-r", f"long{SIZES[-1]}"])
        screen.until("Resumed this session")
        print(f"{idle(screen, idle_s)}, {screen.rss_mb():.0f} MB")
        screen.close()
    REPORT.save()


if __name__ == "__main__":
    main()
