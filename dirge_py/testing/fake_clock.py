"""A clock that a test advances."""

import asyncio
import heapq
import itertools


class FakeClock:
    """A clock: call it for the seconds since its start, `sleep` on it, `advance` it.

    With `is_eager` every sleep ends at once and advances the clock itself; `slept` then holds all
    delays.
    """

    def __init__(self, *, is_eager: bool = False) -> None:
        self.slept: list[float] = []
        self._now = 0.0
        self._is_eager = is_eager
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self._now

    @property
    def sleepers(self) -> int:
        """How many tasks sleep now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        if self._is_eager:
            self._now += delay_s
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + delay_s, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Advance the time; sleepers whose time has come wake when the event loop next runs."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
