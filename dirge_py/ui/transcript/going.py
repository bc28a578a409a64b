"""What can be said of a call while it runs: for how long, whether it is quiet, how much is done."""

import math
from collections.abc import Callable, Mapping
from typing import Any

_SAID_FROM_S = 3
"""Seconds from which on it is said how long a call has been running."""

_BAR_WIDTH = 10


class Going:
    """A running call, by its clock (seconds) and the details of its updates."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._quiet_since: float | None = None
        self._share = ""

    def begin(self) -> None:
        """It runs from now on: what came before was waiting."""
        self._began = self._clock()

    def hear(self, details: Mapping[str, Any]) -> None:
        """Take over what an update says: `quiet_s`, or `done` and perhaps `total`."""
        quiet_s = _number(details.get("quiet_s"))
        self._quiet_since = self._clock() - quiet_s if quiet_s else None
        done = _number(details.get("done"))
        if done is not None:
            self._share = progress_bar(done, _number(details.get("total")))

    @property
    def words(self) -> str:
        """As much as is worth saying, such as `95 s, quiet for 75 s`."""
        parts = [self._share]
        ran_s = int(self._clock() - self._began)
        if ran_s >= _SAID_FROM_S:
            parts.append(_duration(ran_s))
        if self._quiet_since is not None:
            parts.append(f"quiet for {_duration(int(self._clock() - self._quiet_since))}")
        return ", ".join(part for part in parts if part)


def progress_bar(done: float, total: float | None) -> str:
    """`███░░░░░░░ 3/10`; without a total only how much is done."""
    if not total or total < 0:
        return f"{done:g} done"
    filled = round(_BAR_WIDTH * max(0.0, min(1.0, done / total)))
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {done:g}/{total:g}"


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes >= 2 else f"{seconds} s"


def _number(value: Any) -> float | None:
    """A finite number; tools of plugins may say anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None
