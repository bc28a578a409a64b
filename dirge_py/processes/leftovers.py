"""Commands that outlived the program that started them: it was killed, and could not end them."""

import contextlib
import os
import signal
from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import MARKER_NAME
from dirge_py.processes.table import process_table, read_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One process. `started` tells it from a later one with its number; `command` is its line."""

    pid: int
    started: int
    command: str


def leftovers_of(program: int) -> Sequence[Leftover]:
    """What still runs of the commands that the process `program` started, oldest first.

    Nothing while that process itself runs. A command that cleared its environment is not found, and
    where there is no /proc none is.
    """
    table = process_table()
    owner = table.get(program)
    if owner is not None and not owner.is_zombie:
        return ()
    mark = f"{MARKER_NAME}={program}-".encode()
    found = []
    for entry in table.values():
        environment = _words(entry.pid, "environ")
        if entry.is_zombie or not any(item.startswith(mark) for item in environment):
            continue
        line = b" ".join(_words(entry.pid, "cmdline")).decode(errors="replace").strip()
        found.append(Leftover(pid=entry.pid, started=entry.started, command=line))
    return sorted(found, key=lambda one: (one.started, one.pid))


def end(leftovers: Sequence[Leftover]) -> None:
    """Kill them, children of theirs that have the mark included."""
    for one in leftovers:
        entry = read_entry(one.pid)
        if entry is not None and entry.started == one.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGKILL)


def _words(pid: int, name: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as words:
            return words.read().split(b"\0")
    except OSError:
        return []
