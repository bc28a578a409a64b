"""How often a thing is tried, and a record of how often it was."""

import os

IS_FULL = os.environ.get("SECURITY_SIZE") == "full"

COUNTS: dict[str, list[str]] = {}
"""What was counted, by the name of the list; printed at the end of the tests."""


def size(small: int, full: int) -> int:
    """`full` under `make security`, else `small`."""
    return full if IS_FULL else small


def count(name: str, tried: int, found: int, of: str = "") -> None:
    """Note that `tried` attempts of the list `name` had `found` bad ends."""
    COUNTS.setdefault(name, []).append(f"{tried:,} tried, {found} {of or 'got through'}")
