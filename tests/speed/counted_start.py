"""Runs dirge and counts what does not depend on the machine: `counted_start.py REPORT WORDS…`.

Writes a JSON object to the file REPORT when the process ends: `modules` (imported by dirge),
`first_frame` (those of them that were imported when the input line was first on the screen),
`processes` (the program and first argument of each process started), `fsyncs`, and `writes` (system
calls that wrote to stdout or stderr).
"""

import io
import json
import os
import re
import sys

READY = b"What do you want to do?"
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})

report_file = sys.argv[1]
sys.argv[:] = ["dirge", *sys.argv[2:]]
# The folder of this file is not on the path of a usual start.
del sys.path[0]

processes: list[str] = []
first_frame: list[str] = []
fsyncs = writes = 0
shown = b""
real_write, real_exit = os.write, os._exit


def watch(event: str, details: tuple[object, ...]) -> None:
    if event not in _STARTS:
        return
    words = details[1] if event in ("subprocess.Popen", "os.posix_spawn") else [event]
    processes.append(" ".join(map(os.fsdecode, list(words)[:12])))  # type: ignore[call-overload]


def note_write(descriptor: int, data: object) -> None:
    global writes, shown
    if descriptor not in (1, 2):
        return
    writes += 1
    if not first_frame and os.isatty(descriptor):
        shown += bytes(data)  # type: ignore[call-overload]
        if READY in _CONTROL.sub(b"", shown):
            first_frame.extend(set(sys.modules) - before)


class WatchedFile(io.FileIO):
    """A descriptor whose writes are counted."""

    def write(self, data: object) -> int | None:  # type: ignore[override]
        written = super().write(data)  # type: ignore[arg-type]
        note_write(self.fileno(), data)
        return written


def watched_write(descriptor: int, data: bytes) -> int:
    written = real_write(descriptor, data)
    note_write(descriptor, data)
    return written


def counted_sync(real: object) -> object:
    def sync(descriptor: object) -> None:
        global fsyncs
        fsyncs += 1
        real(descriptor)  # type: ignore[operator]

    return sync


def write_report_and_exit(code: int) -> None:
    report = {
        "modules": sorted(set(sys.modules) - before),
        "first_frame": sorted(first_frame),
        "processes": processes,
        "fsyncs": fsyncs,
        "writes": writes,
    }
    with open(report_file, "w", encoding="utf-8") as file:
        json.dump(report, file)
    real_exit(code)


def watched(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = WatchedFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
    )


sys.stdout = sys.__stdout__ = watched(sys.stdout)  # type: ignore[misc, assignment, arg-type]
sys.stderr = sys.__stderr__ = watched(sys.stderr)  # type: ignore[misc, assignment, arg-type]
os.write = watched_write  # type: ignore[assignment]
os.fsync, os.fdatasync = counted_sync(os.fsync), counted_sync(os.fdatasync)  # type: ignore[assignment]
os._exit = write_report_and_exit  # type: ignore[assignment]
sys.addaudithook(watch)
before = set(sys.modules)

from dirge_py.cli.entry import main  # noqa: E402

main()
write_report_and_exit(0)
