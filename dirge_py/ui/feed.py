"""What flows into the transcript: the events of the open conversation, and notices."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.slash.base import Tone
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import ForkEvent, LoopEvent, MessageUpdate, ToolExecutionUpdate
from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript.view import TranscriptWidget

if TYPE_CHECKING:
    from dirge_py.ui.transcript.renderer import TranscriptRenderer
else:
    TranscriptRenderer = late("dirge_py.ui.transcript.renderer", "TranscriptRenderer")

SOON_S = 1 / 30
"""Seconds between two deliveries at least."""
CALM_S = 1 / 10
"""The same while only text or output is added."""


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
