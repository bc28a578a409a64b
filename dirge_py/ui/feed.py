"""What flows into the transcript: the events of the open conversation, and notices."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.slash.base import Tone
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ForkEvent, LoopEvent, MessageUpdate, ToolExecutionUpdate
from dirge_py.types.messages import Message, UserMessage
from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript.blocks import TranscriptBlock
from dirge_py.ui.transcript.view import TranscriptWidget

if TYPE_CHECKING:
    from dirge_py.session.history import PlanRecordEvent
    from dirge_py.ui.transcript.renderer import TranscriptRenderer
else:
    TranscriptRenderer = late("dirge_py.ui.transcript.renderer", "TranscriptRenderer")

SOON_S = 1 / 30
"""Seconds between two deliveries at least."""
CALM_S = 1 / 10
"""The same while only text or output is added."""
DRAWN_FIRST = 1_000
"""About how many messages of a stored history are drawn before all others, its last ones."""
DRAWN_AT_ONCE = 2_000
"""About how many of the messages before them are added at a time, which takes 0.1 s."""


class TranscriptFeed:
    """Draws the events of the open conversation in the transcript, and notices between them.

    At most every `SOON_S`, `deliver` is called to draw the collected events with `flush`;
    `on_drawn` gets those of each drawing.
    """

    def __init__(
        self,
        transcript: TranscriptWidget,
        *,
        settings: Callable[[], UiSettings],
        clock: Callable[[], float],
        deliver: Callable[[], object],
        on_drawn: Callable[[Sequence[LoopEvent]], None],
    ) -> None:
        self.transcript, self._settings, self._clock = transcript, settings, clock
        self._deliver, self._on_drawn = deliver, on_drawn
        self._events: list[LoopEvent] = []
        self._timer: asyncio.TimerHandle | None = None
        self._delivered_at = 0.0
        self._renderer: TranscriptRenderer | None = None
        self._assets: Path | None = None
        self._drawing: asyncio.Task[None] | None = None

    @property
    def renderer(self) -> "TranscriptRenderer":
        """The renderer of this conversation, made at the first use."""
        if self._renderer is None:
            settings = self._settings()
            self._renderer = TranscriptRenderer(
                self.transcript,
                show_thinking=settings.show_thinking,
                diff=settings.diff,
                clock=self._clock,
                assets=self._assets,
            )
        return self._renderer

    @property
    def has_calls_running(self) -> bool:
        return self._renderer is not None and self._renderer.has_calls_running

    def begin(self, assets: Path | None) -> None:
        """Clear the transcript for a history whose pictures are in the folder `assets`."""
        self._take_events()
        self.transcript.clear()
        self._renderer, self._assets = None, assets

    def replay(
        self, messages: Sequence[Message], besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        """Draw a stored history, of a long one the end now and the rest in the background.

        For `besides` see `replay_messages`. With them it is drawn at once, as phases may be long.
        """
        begin = 0 if besides else _last_prompt(messages, len(messages) - DRAWN_FIRST)
        self.renderer.replay(messages[begin:], besides)
        if begin:
            earlier = self._draw_earlier(tuple(messages[:begin]))
            self._drawing = asyncio.get_running_loop().create_task(earlier)

    async def drawn(self) -> None:
        """Wait until the whole history is in the transcript."""
        if self._drawing is not None:
            await asyncio.shield(self._drawing)  # Its waiter may be cancelled.

    async def _draw_earlier(self, messages: Sequence[Message]) -> None:
        renderer, end = self.renderer, len(messages)
        while end:
            await asyncio.sleep(SOON_S)
            if self._renderer is not renderer:
                return  # another history is shown by now
            begin = _last_prompt(messages, end - DRAWN_AT_ONCE)
            page = BlockList()
            renderer.for_fork(page).replay(messages[begin:end])
            self.transcript.prepend(page.blocks)
            self.transcript.redraw()
            end = begin

    def collect(self, event: LoopEvent) -> None:
        """Draw an event soon."""
        self._events.append(event)
        event = event.event if isinstance(event, ForkEvent) else event
        is_growth = isinstance(event, MessageUpdate | ToolExecutionUpdate)
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._delivered_at + (CALM_S if is_growth else SOON_S))
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._deliver)

    def _take_events(self) -> Sequence[LoopEvent]:
        """Return the events since the last call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        if events:
            self._delivered_at = asyncio.get_running_loop().time()
        return events

    def flush(self) -> None:
        """Draw all events so far."""
        events = self._take_events()
        for event in events:
            self.renderer.on_event(event)
        self.renderer.settle()
        self.transcript.redraw()
        self._on_drawn(events)

    def show(self, event: LoopEvent) -> None:
        """Draw this event at once, after all events so far."""
        self.flush()
        self.renderer.on_event(event)
        self.transcript.redraw()

    def notify(self, text: str, *, tone: Tone = "plain") -> None:
        """Add a notice, after all events so far."""
        self.flush()
        self.renderer.notice(text, tone=tone)
        self.transcript.redraw()

    def notify_error(self, error: DirgeError) -> None:
        """Add a notice about an error, with its hint."""
        self.notify(f"{error.message}\n{error.hint}".strip(), tone="error")


def _last_prompt(messages: Sequence[Message], before: int) -> int:
    """Return the index of the last prompt up to the index `before`; 0 without one."""
    prompts = (at for at in range(before, 0, -1) if isinstance(messages[at], UserMessage))
    return next(prompts, 0)


class BlockList:
    """A page that only collects blocks."""

    def __init__(self) -> None:
        self.blocks: list[TranscriptBlock] = []
        self.add = self.blocks.append
        self.remove_block = self.blocks.remove

    def insert(self, before: TranscriptBlock, block: TranscriptBlock) -> None:
        self.blocks.insert(self.blocks.index(before), block)

    def touch(self, block: TranscriptBlock) -> None:
        """Do nothing: the block is not drawn yet."""
