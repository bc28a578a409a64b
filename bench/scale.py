"""Large data: long sessions, many sessions, many files, long output; with peak memory.

    python bench/scale.py [--rounds N] [--size FACTOR]

Rows: a session of 50,000 messages (84 MB) continued by `dirge -p -c` and resumed in the terminal
UI; `dirge -p -c` and `dirge sessions` beside 10,000 sessions; the @ list, the overview and a start
in a project of 200,000 files; a command that writes 50 MB. Times are CPU time; the first row is the
same turn of dirge with nothing of that. `--size 0.01` does it with a hundredth of everything.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from report import Report, run

REPORT = Report("scale")
ROOT = Path(__file__).parents[1]
LISTING = """
from pathlib import Path
from dirge_py.ui.prompt.file_index import FileMatcher, list_files
FileMatcher("module1", list_files(Path.cwd())[0]).work()
"""


class Place:
    """A project folder, the state and the settings of dirge, and a scripted model."""

    def __init__(self, base: Path, rounds: int) -> None:
        self.base, self.rounds, self.project = base, rounds, base / "project"
        self.project.mkdir()
        self.config = base / "config.toml"
        self._script = base / "script.json"
        self.config.write_text(
            f'[providers.s]\ntype = "scripted"\nmodel = "m"\nscript = "{self._script}"\n'
        )
        self.environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "DIRGE_STATE_DIR": str(base / "state"),
            "DIRGE_CONFIG_DIR": str(base),
            "PYTHONPATH": str(ROOT),
        }
        self.replies(text="done")

    def replies(self, *calls: dict[str, object], text: str) -> None:
        # One more, for the summary of a history that is too long.
        replies = [*({"calls": [call]} for call in calls), {"text": text}, {"text": text}]
        self._script.write_text(json.dumps({"replies": replies}))

    def made(self, write: Callable[[Path, float], None], size: float) -> None:
        """Call `write` in a process of its own: what it takes would count as its parent's."""
        run([sys.executable, __file__, "--write", write.__name__, str(self.base), str(size)])

    def row(self, name: str, *words: str) -> None:
        """Two rows: CPU time and peak memory of `python WORDS`."""
        command = [sys.executable, *words]
        used = [run(command, self.project, self.environment) for _ in range(self.rounds)]
        REPORT.row(name, [each.cpu_ms for each in used])
        REPORT.row(f"{name}: peak memory", [each.peak_mb for each in used], "MB")

    def dirge(self, name: str, *words: str) -> None:
        self.row(name, "-m", "dirge_py", *words)


def long_session(place: Place, size: float) -> None:
    place.made(write_long_session, size)
    messages = f"{int(50_000 * size):,} messages"
    # Its first turn compacts it, once.
    run([sys.executable, "-m", "dirge_py", "-p", "-c", "hi"], place.project, place.environment)
    place.dirge(f"dirge -p -c, {messages}", "-p", "-c", "hi")
    from tui import Program

    began = time.monotonic()
    program = Program(place.project, place.config, "-c", DIRGE_STATE_DIR=str(place.base / "state"))
    program.read_until("hat do you want to do", 20)
    name = f"dirge -c, {messages}"
    REPORT.row(f"{name}: input on screen", [(time.monotonic() - began) * 1000])
    program.read_until("this session with", 60)
    REPORT.row(f"{name}: its end on screen", [(time.monotonic() - began) * 1000])
    program.read_for(5.0)
    REPORT.row(f"{name}: all of it, CPU", [program.cpu_s() * 1000])
    REPORT.row(f"{name}: memory", [program.rss_mb()], "MB")
    program.child.terminate()
    program.child.wait(10)


def write_long_session(base: Path, size: float) -> None:
    import sessions

    from dirge_py.session.segments import SegmentLimits
    from dirge_py.session.store import Store

    folder = Store(base / "state", base / "project").folder
    folder.mkdir(parents=True)
    turns = int(12_500 * size)
    limits = SegmentLimits()
    sessions.write(folder / "long.jsonl", turns=turns, result_chars=1200, limits=limits)


def many_sessions(place: Place, size: float) -> None:
    place.made(write_sessions, size)
    count = f"{int(10_000 * size):,} sessions"
    place.dirge(f"dirge -p -c, {count}", "-p", "-c", "--fork-session", "hi")
    run([sys.executable, "-m", "dirge_py", "sessions"], place.project, place.environment)
    place.dirge(f"dirge sessions, {count}", "sessions")


def write_sessions(base: Path, size: float) -> None:
    import session_list

    from dirge_py.session.store import Store

    store = Store(base / "state", base / "project")
    for number in range(int(10_000 * size)):
        session_list.make(store, number, 3)


def many_files(place: Place, size: float) -> None:
    place.made(write_files, size)
    subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    count = f"{int(200_000 * size):,} files"
    place.row(f"@ list and a match, {count}", "-c", LISTING)
    place.dirge(f"dirge -p, {count}", "-p", "hi")
    place.replies({"name": "repo_overview", "arguments": {}}, text="done")
    place.dirge(f"repo_overview, {count}", "-p", "hi")


def write_files(base: Path, size: float) -> None:
    import tools

    tools.plant(base / "project", int(200_000 * size))


def long_output(place: Place, size: float) -> None:
    for name, command in {
        "lines": "yes 'a line of output of a program'",
        "one line": "tr '\\0' x </dev/zero",
    }.items():
        command += f" | head -c {int(50_000_000 * size)}"
        place.replies({"name": "bash", "arguments": {"command": command}}, text="done")
        place.dirge(f"bash, {50 * size:.1f} MB of {name}", "-p", "--yolo", "hi")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.write:
        name, base, size = flags.write
        os.fsync = lambda descriptor: None
        globals()[name](Path(base), float(size))
        return
    works: list[Callable[[Place, float], None]] = [
        lambda place, size: place.dirge("dirge -p, one turn", "-p", "hi"),
        many_sessions,
        many_files,
        long_output,
        long_session,  # the last one, as it imports dirge here
    ]
    for work in works:
        with tempfile.TemporaryDirectory(prefix="dirge-bench-") as folder:
            work(Place(Path(folder).resolve(), flags.rounds), flags.size)
    REPORT.save()


if __name__ == "__main__":
    main()
