"""How often a test repeats, and a record of the counts."""

import os

ASKED = os.environ.get("SECURITY_SIZE", "")
IS_WHOLE = ASKED == "whole"
"""Nothing: seconds, with every run of the tests. `full`: minutes. `whole`: an hour or two."""

_ALWAYS_WHOLE = 1000

COUNTS: dict[str, list[str]] = {}
"""What was counted, by the name of the list; printed at the end of the tests."""


def size(small: int, whole: int) -> int:
    """`whole` for the full size, a tenth of a large one for `full`, else `small`.

    A step, which is larger where less is tried, is divided instead.
    """
    if not ASKED:
        return small
    if IS_WHOLE or small <= whole <= _ALWAYS_WHOLE:
        return whole
    if whole < small:
        return max(whole, small // 10)
    return max(small, _ALWAYS_WHOLE, whole // 10)


def count(name: str, tried: int, found: int, of: str = "") -> None:
    """Record that `tried` attempts of `name` had `found` failures."""
    COUNTS.setdefault(name, []).append(f"{tried:,} tried, {found} {of or 'got through'}")
