"""Events for those who read at their own pace: one bounded mailbox for each of them.

Sinks are told synchronously and never wait. Whoever iterates reads from a mailbox instead:

* It holds 100 entries. A delta that continues the last entry is merged into it, and so is the next
  progress of the same call, so text is whole and in order however slowly it is read.
* While one is full, the run waits for it at its hook points (`EventBroadcaster.wait_for_room`),
  never inside an event. Each reader has 30 s of such patience, once, for the whole run; meanwhile
  its mailbox may hold more, up to 1,000.
* A reader that has used it up is detached: it reads what it has, then gets `Detached`, which says
  where to catch up. Nobody else notices.
* A reader that goes away (closed, or no longer referenced) is forgotten at once.
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

ROOM = 100
MOST = 1000
GRACE_S = 30.0

_DELTAS: frozenset[Phase] = frozenset({"text_delta", "thinking_delta", "toolcall_delta"})

_logger = logging.getLogger(__name__)


class Detached(DirgeError):
    """This reader was too slow and is told no more.

    `after_seq` is the journal's number of the last record it got an event of, None without a
    journal; `seq` counts the events it got.
    """

    def __init__(self, *, seq: int, after_seq: int | None) -> None:
        where = f" Journal records after {after_seq} hold the rest." if after_seq else ""
        super().__init__(
            f"Detached after {seq} events: the run waited {GRACE_S:g} s for them to be read.",
            hint=f"Read faster, or look into the conversation's messages.{where}",
        )
        self.seq = seq
        self.after_seq = after_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class BackpressurePolicy:
    """How long a run waits for a reader, and on which clock (seconds)."""

    grace_s: float = GRACE_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class _Entry:
    """One event, or several that became one; `journal_seq` is where it is stored, if it is."""

    __slots__ = ("_event", "_pieces", "journal_seq")

    def __init__(self, event: LoopEvent, journal_seq: int | None) -> None:
        self._event = event
        self._pieces: list[str] = []
        self.journal_seq = journal_seq

    def absorbs(self, event: LoopEvent) -> bool:
        """Take `event` in, if it continues this one."""
        mine = self._event
        if isinstance(event, MessageUpdate) and isinstance(mine, MessageUpdate):
            same = (event.phase, event.index, event.tool_call_id)
            if event.phase not in _DELTAS or same != (mine.phase, mine.index, mine.tool_call_id):
                return False
            self._pieces.append(event.delta)
            return True
        if isinstance(event, ToolExecutionUpdate) and isinstance(mine, ToolExecutionUpdate):
            # Each holds what there is to show by then, so the last one is enough.
            if event.tool_call_id != mine.tool_call_id:
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

    def copy(self) -> "_Entry":
        return _Entry(self.event, self.journal_seq)


class Subscription:
    """What one reader has not read yet. Written by `EventBroadcaster`, read by an `EventStream`."""

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
        return len(self._entries) >= ROOM

    def put(self, event: LoopEvent, journal_seq: int | None) -> None:
        if not (self._entries and self._entries[-1].absorbs(event)):
            self._entries.append(_Entry(event, journal_seq))
        self.has_changed.set()

    def take(self) -> tuple[LoopEvent, int | None] | None:
        if not self._entries:
            return None
        entry = self._entries.popleft()
        self.has_changed.set()
        return entry.event, entry.journal_seq

    def close(self) -> None:
        """Its reader is gone."""
        self._entries.clear()
        self.is_over = True
        self.has_changed.set()


class EventStream(AsyncIterator[LoopEvent]):
    """The events of one run for one reader, in order; ends after `agent_end`.

    `seq` is how many were handed out: numbered after merging, so without gaps. `journal_seq` is the
    record that the last of them is stored in, if it is. `is_whole` says whether the first one is
    the run's first.

    Raises:
        Detached: once what it had been given is read, if it was too slow.
    """

    def __init__(self, mailbox: Subscription, *, is_whole: bool) -> None:
        self._mailbox = mailbox
        self._last_stored: int | None = None
        self.is_whole = is_whole
        self.seq = 0
        self.journal_seq: int | None = None

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> LoopEvent:
        while True:
            taken = self._mailbox.take()
            if taken is not None:
                event, self.journal_seq = taken
                self._last_stored = self.journal_seq or self._last_stored
                self.seq += 1
                return event
            if self._mailbox.is_detached:
                raise Detached(seq=self.seq, after_seq=self._last_stored)
            if self._mailbox.is_over:
                raise StopAsyncIteration
            self._mailbox.has_changed.clear()
            await self._mailbox.has_changed.wait()

    async def aclose(self) -> None:
        """Read no more. The run goes on."""
        self._mailbox.close()

    def __del__(self) -> None:
        self._mailbox.close()


class EventBroadcaster:
    """All readers of one run. Belongs to the event loop of that run.

    What happened before anybody read is kept as long as it fits one mailbox. `on_detached` gets a
    line for the person.
    """

    def __init__(
        self,
        patience: BackpressurePolicy | None = None,
        *,
        on_detached: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._patience = patience or BackpressurePolicy()
        self._on_detached = on_detached
        self._boxes: list[Subscription] = []
        self._begin: Subscription | None = Subscription((), 0)
        self._is_over = False
        self._turnstile = asyncio.Lock()

    def subscribe(self) -> EventStream:
        """A reader of what comes, and of all that came, if that is still there."""
        begun = self._begin
        earlier = [entry.copy() for entry in begun._entries] if begun else ()
        mailbox = Subscription(earlier, self._patience.grace_s)
        mailbox.is_over = self._is_over
        if not self._is_over:
            self._boxes.append(mailbox)
        return EventStream(mailbox, is_whole=begun is not None)

    def put(self, event: LoopEvent, journal_seq: int | None = None) -> None:
        """Give every reader the event. Never waits."""
        if self._begin is not None:
            self._begin.put(event, journal_seq)
            if len(self._begin) > ROOM:
                self._begin = None
        for mailbox in self._live():
            mailbox.put(event, journal_seq)
            if len(mailbox) >= MOST:
                self._detach(mailbox)

    def close(self) -> None:
        """There will be no more events. What lies in the mailboxes can still be read."""
        self._is_over = True
        for mailbox in self._boxes:
            mailbox.is_over = True
            mailbox.has_changed.set()
        self._boxes.clear()

    def room(self) -> Awaitable[None] | None:
        """`wait_for_room`, or nothing to wait for, which is what it nearly always is."""
        is_full = any(mailbox.is_full for mailbox in self._boxes)
        return self.wait_for_room() if is_full else None

    async def wait_for_room(self) -> None:
        """Return when no mailbox is full; those that stay so cost at most their grace, once."""
        if not any(mailbox.is_full for mailbox in self._boxes):
            return
        # Calls that run together wait together: a reader's grace is spent once, not once for each.
        async with self._turnstile:
            while full := [mailbox for mailbox in self._live() if mailbox.is_full]:
                for mailbox in [mailbox for mailbox in full if mailbox.grace_s <= 0]:
                    self._detach(mailbox)
                    full.remove(mailbox)
                if full:
                    await self._wait_for(full)

    async def _wait_for(self, full: list[Subscription]) -> None:
        """Wait until one of them was read from, or the shortest grace is over."""
        clock, began = self._patience.clock, self._patience.clock()
        waits: list[asyncio.Future[object]] = [
            asyncio.ensure_future(self._patience.sleep(min(box.grace_s for box in full)))
        ]
        for mailbox in full:
            mailbox.has_changed.clear()
            waits.append(asyncio.ensure_future(mailbox.has_changed.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            spent = clock() - began
            for mailbox in full:
                mailbox.grace_s -= spent

    def _live(self) -> list[Subscription]:
        """The mailboxes that somebody still reads; the others are forgotten."""
        self._boxes = [mailbox for mailbox in self._boxes if not mailbox.is_over]
        return list(self._boxes)

    def _detach(self, mailbox: Subscription) -> None:
        mailbox.is_detached = True
        mailbox.has_changed.set()
        self._boxes.remove(mailbox)
        _logger.warning("an event reader was detached: it left %d events unread", len(mailbox))
        self._on_detached(
            "A reader of this run's events did not keep up and was detached; the run goes on."
        )
