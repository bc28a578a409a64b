"""What one command may use up: enough for any build, not enough to bring the machine down.

Of memory nothing is said: sanitizers, Java and WebAssembly reserve more address space than any
machine has, so every limit on that either breaks them or stops nothing.
"""

import resource
from collections.abc import Sequence

_MIB = 1024 * 1024

_WANTED = (
    ("c", resource.RLIMIT_CORE, 0, 1024),
    ("t", resource.RLIMIT_CPU, 12 * 3600, 1),  # seconds of each process, over all its threads
    ("f", resource.RLIMIT_FSIZE, 64 * 1024 * _MIB, 1024),
    ("u", resource.RLIMIT_NPROC, 16_384, 1),
    ("n", resource.RLIMIT_NOFILE, 65_536, 1),
)
"""bash's letter, the limit, its value, and the unit in which bash counts it."""


def lowered_limits() -> Sequence[tuple[int, int, int]]:
    """The limit, its soft and its hard value, for all that are higher or absent now."""
    found = []
    for _letter, limit, value, _unit in _WANTED:
        soft, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY or hard > value:
            is_soft_lower = soft != resource.RLIM_INFINITY and soft < value
            found.append((limit, soft if is_soft_lower else value, value))
    return found


def as_shell() -> str:
    """Statements of bash that set the limits, each ended by a semicolon."""
    named = {limit: (letter, unit) for letter, limit, _value, unit in _WANTED}
    return "".join(
        f"ulimit -S{named[limit][0]} {soft // named[limit][1]}; "
        f"ulimit -H{named[limit][0]} {hard // named[limit][1]}; "
        for limit, soft, hard in lowered_limits()
    )
