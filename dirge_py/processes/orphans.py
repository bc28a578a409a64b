"""Become the parent of every process whose own parent is gone, so that none escapes us."""

import ctypes
import functools
import sys

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@functools.cache
def adopt_orphans() -> bool:
    """Whether orphans among our descendants come to us from now on; asked of the kernel once.

    Linux only. Elsewhere they go to process 1, and are found by their process group alone.
    """
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
