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

_LEAST = 1 << 60
_STEP = 1024  # what `ulimit` counts in: a limit it reads and sets again stays the same

_numbers = itertools.count(1)
_LIMIT = re.compile(rb"^Max resident set +([0-9]+) ", re.MULTILINE)


def put_mark(pid: int) -> int:
    """Mark a process we have just started; returns the mark, 0 where that is not possible."""
    if sys.platform != "linux":
        return 0
    mark = _LEAST + next(_numbers) * _STEP
    try:
        hard = resource.prlimit(pid, resource.RLIMIT_RSS)[1]
        resource.prlimit(pid, resource.RLIMIT_RSS, (mark, hard))
    except (OSError, ValueError, OverflowError):  # another user's by now, or gone
        return 0
    return mark


def bears_mark(pid: int, mark: int) -> bool:
    """Whether it came out of the command that was given this mark; False where nobody knows."""
    if not mark:
        return False
    try:
        with open(f"/proc/{pid}/limits", "rb") as limits:
            found = _LIMIT.search(limits.read())
    except OSError:
        return False
    return found is not None and int(found[1]) == mark
