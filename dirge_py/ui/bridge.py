"""Loop events on their way to the screen: gathered, and delivered at most 30 times a second."""

import asyncio
from collections.abc import Callable

from textual.message import Message

from dirge_py.events import LoopEvent, MessageUpdate, ToolExecutionUpdate

SOON_S = 1 / 30
"""Between two deliveries at least."""

CALM_S = 1 / 10
"""While only text or output grows: the eye reads no faster, and each drawing costs a screenful."""


class LoopEvents(Message):
    """What happened since the last delivery, in order."""

    def __init__(self, events: tuple[LoopEvent, ...]) -> None:
        super().__init__()
        self.events = events


class Bridge:
    """A sink that posts `LoopEvents`. Costs nothing while nothing happens."""

    def __init__(self, post: Callable[[LoopEvents], object]) -> None:
        self._post = post
        self._events: list[LoopEvent] = []
        self._timer: asyncio.TimerHandle | None = None
        self._delivered_at = 0.0

    def sink(self, event: LoopEvent) -> None:
        self._events.append(event)
        is_growth = isinstance(event, MessageUpdate | ToolExecutionUpdate)
        self._deliver_within(CALM_S if is_growth else SOON_S)

    def flush(self) -> None:
        """Deliver what is there now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._events:
            events, self._events = tuple(self._events), []
            self._delivered_at = asyncio.get_running_loop().time()
            self._post(LoopEvents(events))

    def drop(self) -> None:
        """Forget what was not delivered: it is about a conversation that is no longer shown."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._events = []

    def _deliver_within(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._delivered_at + pause_s)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self.flush)
