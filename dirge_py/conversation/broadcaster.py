"""Events for readers that read at their own pace: one bounded subscription for each of them.

Sinks receive events synchronously and never wait. An iterating reader has a `Subscription` instead:

* It holds 100 entries. A delta that continues the last entry is merged into it, and so is the next
  progress of the same call, so text is complete and in order however slowly it is read.
* While a subscription is full, the run waits for its reader at the hook points
  (`EventBroadcaster.wait_for_capacity`), never inside an event. Each reader may cause 30 s of such
  waiting in a run; meanwhile its subscription may hold up to 1,000 entries.
* A reader that has used up its 30 s is detached: it reads what its subscription holds, then gets
  `Detached`, which says where to catch up. Other readers are not affected.
* A reader that is closed, or no longer referenced, is removed at once.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageUpdate, Phase, ToolExecutionUpdate
from dirge_py.types.tools import is_internal

CAPACITY = 100
"""A subscription with this many entries is full."""
MAX_ENTRIES = 1000
"""A reader with this many unread entries is detached at once."""
GRACE_S = 30.0

_DELTAS: frozenset[Phase] = frozenset({"text_delta", "thinking_delta", "toolcall_delta"})

_logger = logging.getLogger(__name__)


class Detached(DirgeError):
    """The reader was too slow and gets no more events."""

    def __init__(self, *, seq: int, after_seq: int | None) -> None:
        where = f" Journal records after {after_seq} hold the rest." if after_seq else ""
        super().__init__(
            f"Detached after {seq} events: the run waited {GRACE_S:g} s for them to be read.",
            hint=f"Read faster, or look into the conversation's messages.{where}",
        )
        self.seq = seq
        """How many events the reader got."""
        self.after_seq = after_seq
        """The last journal record that it got an event of; None without a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackpressurePolicy:
    """How long a run waits for slow readers."""

    grace_s: float = GRACE_S
    """The total time that a run waits for one reader."""
    clock: Callable[[], float] = time.monotonic
    """Seconds since some start."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits that many seconds."""


class _Entry:
    """One event, or several merged into one; `journal_seq` is the record that stores it, if any."""

    __slots__ = ("_event", "_pieces", "journal_seq")

    def __init__(self, event: LoopEvent, journal_seq: int | None) -> None:
        self._event = event
        self._pieces: list[str] = []
        self.journal_seq = journal_seq

    def merge(self, event: LoopEvent) -> bool:
        """Merge `event` into this one if it continues it; returns whether it does."""
        own = self._event
        if isinstance(event, MessageUpdate) and isinstance(own, MessageUpdate):
            same = (event.phase, event.index, event.tool_call_id)
            if event.phase not in _DELTAS or same != (own.phase, own.index, own.tool_call_id):
                return False
            self._pieces.append(event.delta)
            return True
        if isinstance(event, ToolExecutionUpdate) and isinstance(own, ToolExecutionUpdate):
            # Each update holds all that there is to show by then, so the last one is enough.
            if event.tool_call_id != own.tool_call_id:
                return False
            if is_internal(event.partial_result) != is_internal(own.partial_result):
                return False
            self._event = event
            return True
        return False

    @property
    def event(self) -> LoopEvent:
        if self._pieces and isinstance(self._event, MessageUpdate):
            self._event = replace(self._event, delta="".join((self._event.delta, *self._pieces)))
            self._pieces = []
        return self._event


class Subscription:
    """The unread events of one reader: written by `EventBroadcaster`, read by an `EventStream`."""

    def __init__(self, entries: Iterable[_Entry], grace_s: float) -> None:
        self._entries = deque(entries)
        self.grace_s = grace_s
        self.is_detached = False
        self.is_over = False
        self.has_changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= CAPACITY

    def put(self, event: LoopEvent, journal_seq: int | None) -> None:
        if not (self._entries and self._entries[-1].merge(event)):
            self._entries.append(_Entry(event, journal_seq))
        self.has_changed.set()

    def pop(self) -> tuple[LoopEvent, int | None] | None:
        if not self._entries:
            return None
        entry = self._entries.popleft()
        self.has_changed.set()
        return entry.event, entry.journal_seq

    def end(self, *, is_detached: bool = False) -> None:
        """Add nothing more; what is unread can still be read."""
        self.is_over, self.is_detached = True, is_detached
        self.has_changed.set()

    def close(self) -> None:
        """Drop what is unread; the reader is gone."""
        self._entries.clear()
        self.end()


class EventStream(AsyncIterator[LoopEvent]):
    """The events of one run for one reader, in order; ends after `agent_end`.

    Raises Detached to a reader that was too slow, once it has read what its subscription held.
    """

    def __init__(self, subscription: Subscription, *, is_whole: bool) -> None:
        self._subscription = subscription
        self._last_stored: int | None = None
        self.is_whole = is_whole
        """Whether its first event is the first of the run."""
        self.seq = 0
        """How many events were read: counted after merging, so without gaps."""
        self.journal_seq: int | None = None
        """The record that stores the last event that was read, if any."""

    async def __anext__(self) -> LoopEvent:
        while True:
            entry = self._subscription.pop()
            if entry is not None:
                event, self.journal_seq = entry
                self._last_stored = self.journal_seq or self._last_stored
                self.seq += 1
                return event
            if self._subscription.is_detached:
                raise Detached(seq=self.seq, after_seq=self._last_stored)
            if self._subscription.is_over:
                raise StopAsyncIteration
            self._subscription.has_changed.clear()
            await self._subscription.has_changed.wait()

    async def aclose(self) -> None:
        """Stop reading; the run continues."""
        self._subscription.close()

    def __del__(self) -> None:
        self._subscription.close()


class EventBroadcaster:
    """All readers of one run; it belongs to the event loop of that run."""

    def __init__(
        self,
        policy: BackpressurePolicy | None = None,
        *,
        on_detached: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._policy = policy or BackpressurePolicy()
        self._on_detached = on_detached
        self._subscriptions: list[Subscription] = []
        self._earlier: Subscription | None = Subscription((), 0)
        self._is_over = False
        self._waiting = asyncio.Lock()

    def subscribe(self) -> EventStream:
        """Return a reader of the events to come, and of all earlier ones if they are still held."""
        earlier = self._earlier
        entries = [_Entry(e.event, e.journal_seq) for e in earlier._entries] if earlier else ()
        subscription = Subscription(entries, self._policy.grace_s)
        subscription.is_over = self._is_over
        if not self._is_over:
            self._subscriptions.append(subscription)
        return EventStream(subscription, is_whole=earlier is not None)

    def put(self, event: LoopEvent, journal_seq: int | None = None) -> None:
        """Give every reader the event. Never waits."""
        if self._earlier is not None:
            self._earlier.put(event, journal_seq)
            if len(self._earlier) > CAPACITY:
                self._earlier = None
        for subscription in self._live():
            subscription.put(event, journal_seq)
            if len(subscription) >= MAX_ENTRIES:
                self._detach(subscription)

    def close(self) -> None:
        """End the subscriptions; what they hold can still be read."""
        self._is_over = True
        for subscription in self._subscriptions:
            subscription.end()
        self._subscriptions.clear()

    def backpressure(self) -> Awaitable[None] | None:
        """Return `wait_for_capacity()` if a subscription is full, else None: nearly always."""
        is_full = any(subscription.is_full for subscription in self._subscriptions)
        return self.wait_for_capacity() if is_full else None

    async def wait_for_capacity(self) -> None:
        """Return when no subscription is full; each reader delays the run by its grace at most."""
        # Calls that run together wait together: a reader's grace is spent once, not once for each.
        async with self._waiting:
            while full := [subscription for subscription in self._live() if subscription.is_full]:
                patient = [subscription for subscription in full if subscription.grace_s > 0]
                for subscription in full:
                    if subscription not in patient:
                        self._detach(subscription)
                if patient:
                    await self._wait_for(patient)

    async def _wait_for(self, full: list[Subscription]) -> None:
        """Wait until one of them is read from, or the shortest grace is over."""
        clock, began = self._policy.clock, self._policy.clock()
        shortest_s = min(subscription.grace_s for subscription in full)
        waits: list[asyncio.Future[object]] = [
            asyncio.ensure_future(self._policy.sleep(shortest_s))
        ]
        for subscription in full:
            subscription.has_changed.clear()
            waits.append(asyncio.ensure_future(subscription.has_changed.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            spent = clock() - began
            for subscription in full:
                subscription.grace_s -= spent

    def _live(self) -> list[Subscription]:
        """Return the subscriptions that are still read; the others are removed."""
        self._subscriptions = [each for each in self._subscriptions if not each.is_over]
        return list(self._subscriptions)

    def _detach(self, subscription: Subscription) -> None:
        subscription.end(is_detached=True)
        self._subscriptions.remove(subscription)
        _logger.warning("an event reader was detached: it left %d events unread", len(subscription))
        self._on_detached(
            "A reader of this run's events did not keep up and was detached; the run continues."
        )
