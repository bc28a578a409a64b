"""Whether a start is for line mode."""

import os
import sys


def wants_lines(*, line: bool) -> bool:
    """Whether line mode was asked for (`line`), or the terminal can do no more."""
    return line or (is_dumb() and all(s.isatty() for s in (sys.stdin, sys.stdout)))


def is_dumb() -> bool:
    """Whether the terminal cannot move its cursor, or does not say that it can."""
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")
