"""Loop events on their way to the screen: gathered, and delivered at most 30 times a second."""

import asyncio
from collections.abc import Callable, Sequence

from textual.message import Message

from dirge_py.types.events import ForkEvent, LoopEvent, MessageUpdate, ToolExecutionUpdate

SOON_S = 1 / 30
"""Between two deliveries at least."""

CALM_S = 1 / 10
"""While only text or output grows: the eye reads no faster, and each drawing costs a screenful."""


class LoopEvents(Message):
    """Something has happened: the bridge has it."""


class Bridge:
    """A sink that posts `LoopEvents`, whereupon `take` gives them. Idle, it costs nothing."""

    def __init__(self, post: Callable[[LoopEvents], object]) -> None:
        self._post = post
        self._events: list[LoopEvent] = []
        self._timer: asyncio.TimerHandle | None = None
        self._delivered_at = 0.0

    def sink(self, event: LoopEvent) -> None:
        self._events.append(event)
        event = event.event if isinstance(event, ForkEvent) else event
        is_growth = isinstance(event, MessageUpdate | ToolExecutionUpdate)
        self._deliver_within(CALM_S if is_growth else SOON_S)

    def take(self) -> Sequence[LoopEvent]:
        """What happened since the last time, in order. Nothing is left to deliver."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._delivered_at = asyncio.get_running_loop().time()
        return events

    def _deliver(self) -> None:
        self._timer = None
        self._post(LoopEvents())

    def _deliver_within(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._delivered_at + pause_s)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._deliver)
