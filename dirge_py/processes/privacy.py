"""Keeping this process to itself: its environment holds keys, its memory more."""

import ctypes
import functools
import sys

_PR_SET_DUMPABLE = 4  # linux/prctl.h


@functools.cache
def close_to_others() -> bool:
    """Whether commands can no longer look into us: read our environment in /proc, or attach.

    Linux only, and not where they run as root. What a command starts itself stays open to it.
    """
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
