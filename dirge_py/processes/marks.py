"""A number that all processes of one command inherit, whatever becomes of their environment.

Linux has not enforced the limit on resident memory since 2.4.30, but still hands it down: through
forks, new programs and new sessions. Far above any memory there is, and different for every
command, it says where a process came from. Changing it takes intent, and clearing the environment
does not.
"""

import itertools
import re
import resource
import sys

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.table import read_entry

_LEAST = 1 << 60
_STEP = 1024  # what `ulimit` counts in: a limit it reads and sets again stays the same

_numbers = itertools.count(1)
_LIMIT = re.compile(rb"^Max resident set +([0-9]+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mark:
    """`number` is 0 if there is none. `is_sure`: nothing had left the command before it was put."""

    number: int = 0
    is_sure: bool = False


def put_mark(pid: int) -> Mark:
    """Mark a process we have just started, and what it may have started itself by now."""
    if sys.platform != "linux":
        return Mark()
    number = _LEAST + next(_numbers) * _STEP
    is_sure = _mark(pid, number)
    return Mark(number, is_sure)


def mark_of(pid: int) -> int:
    """The number a process was marked with, or another limit; 0 where there is none."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as limits:
            found = _LIMIT.search(limits.read())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _mark(pid: int, number: int) -> bool:
    """Mark one process and its children; whether none of them can have left behind another."""
    if sys.platform == "linux":
        try:
            hard = resource.prlimit(pid, resource.RLIMIT_RSS)[1]
            resource.prlimit(pid, resource.RLIMIT_RSS, (number, hard))
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as children:
                started = [int(child) for child in children.read().split()]
        except (OSError, ValueError, OverflowError):  # gone, or another user's by now
            return False
        entry = read_entry(pid)
        is_whole = entry is not None and not entry.is_zombie and not entry.has_reaped
        marked = [_mark(child, number) for child in started]  # every one, whatever becomes of it
        return is_whole and all(marked)
    return False
