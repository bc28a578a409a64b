"""How long a silence may last: a time-out that is cheap to move."""

import asyncio
import math
from collections.abc import Callable

_LOOK_EVERY_S = 30.0


class Patience:
    """Calls `give_up` once the allowed silence has passed.

    `allow` only notes a time; one timer looks now and then whether it is over. A timer for each of
    the thousand pieces of an answer would cost more than reading them. `total_s` bounds the whole,
    whatever is allowed.
    """

    def __init__(self, give_up: Callable[[], None], total_s: float | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._last = math.inf if total_s is None else self._loop.time() + total_s
        self._ends_at = self._last
        self._timer: asyncio.TimerHandle | None = None

    @property
    def total_is_over(self) -> bool:
        """Whether it was the whole that took too long."""
        return self._loop.time() >= self._last

    def allow(self, seconds: float) -> None:
        """From now on, so much."""
        self._ends_at = min(self._last, self._loop.time() + seconds)
        if self._timer is None or self._ends_at < self._timer.when():
            self._look()

    def pause(self) -> None:
        """Wait for as long as it takes, until the next `allow`."""
        self._ends_at = self._last

    def stop(self) -> None:
        """Never give up any more."""
        self._ends_at = math.inf
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        if now >= self._ends_at:
            self._give_up()
        else:
            next_look = min(self._ends_at, now + _LOOK_EVERY_S)
            self._timer = self._loop.call_at(next_look, self._look)
