"""The process table: who runs, whose child it is, in which group and session."""

import contextlib
import os
import subprocess
import sys

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.orphans import adopt_orphans


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """One row. `started` tells two processes with the same number apart; 0 where unknown.

    `work_s` is the processor time it has used, in seconds; 0 where unknown. `has_reaped` is whether
    it already had a child that has ended. `is_zombie`: nothing of it runs any more; a process whose
    first thread alone has ended is not one.
    """

    pid: int
    parent: int
    group: int
    session: int
    is_zombie: bool
    started: int
    work_s: float = 0.0
    has_reaped: bool = False


_LONGEST_LINE = 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_table() -> dict[int, ProcessEntry]:
    """Every process we can see, by number."""
    entries = _from_proc() if sys.platform == "linux" else _from_ps()
    return {entry.pid: entry for entry in entries}


def family_table() -> dict[int, ProcessEntry]:
    """A process table with all our descendants in it; empty where there can be none.

    Where orphans come to us, who has no child has no descendant either, and need not read the rows
    of the whole machine: that is most of what a short command costs us.
    """
    return {} if adopt_orphans() and not _has_children() else process_table()


def our_children() -> list[ProcessEntry]:
    """Our own children, dead ones too: much faster than reading a whole table.

    A descendant that forks and exits again and again is ended by whoever looks this often.
    """
    if not _has_children():
        return []
    try:
        pids = _listed_children()
    except OSError:  # a kernel without these lists
        return [entry for entry in process_table().values() if entry.parent == os.getpid()]
    found = (read_entry(pid) for pid in pids)
    return [entry for entry in found if entry is not None]


def _listed_children() -> list[int]:
    """The kernel's list of our children. An orphan is in it before its parent counts as dead."""
    listed = []
    for thread in os.listdir("/proc/self/task"):
        # A thread that ends meanwhile leaves its children to another one of ours.
        path = f"/proc/self/task/{thread}/children"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, "rb") as file:
            listed.append(file.read())
    if not listed:
        raise OSError("the kernel lists no children")
    return [int(pid) for each in listed for pid in each.split()]


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def read_entry(pid: int) -> ProcessEntry | None:
    """One row from /proc, None if there is none (any more)."""
    try:
        line = _read_line(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The program's name stands in parentheses and may itself hold parentheses and blanks.
    fields = line[line.rfind(b")") + 2 :].split()
    return ProcessEntry(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        # The state is that of the first thread. Others may run on behind a dead one.
        is_zombie=fields[0] in (b"Z", b"X") and int(fields[17]) <= 1,
        started=int(fields[19]),
        work_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        has_reaped=int(fields[8]) > 0,  # page faults of children waited for: none is without
    )


def _read_line(path: str) -> bytes:
    """One line of /proc. Hundreds are read for each command: a file object would cost more."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST_LINE)
    finally:
        os.close(fd)


def has_in_environment(pid: int, setting: bytes) -> bool:
    """Whether the process was started with this `NAME=value`; False where that cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return setting in environ.read().split(b"\0")
    except OSError:
        return False


def _from_proc() -> list[ProcessEntry]:
    found = (read_entry(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [entry for entry in found if entry is not None]


def _from_ps() -> list[ProcessEntry]:
    """macOS has no /proc, and its `ps` prints no usable session: the group stands for it."""
    try:
        listing = subprocess.run(
            ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state="],
            capture_output=True,
            check=False,
            timeout=2,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [_row(line.split()) for line in listing.splitlines() if len(line.split()) == 4]


def _row(fields: list[bytes]) -> ProcessEntry:
    pid, parent, group = (int(field) for field in fields[:3])
    return ProcessEntry(
        pid=pid,
        parent=parent,
        group=group,
        session=group,
        is_zombie=fields[3].startswith(b"Z"),
        started=0,
    )
