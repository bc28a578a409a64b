"""A pilot that continues as soon as the app is idle.

Textual's own pilot sleeps for 20 ms twice per key, longer while the app is busy, and then queries
every widget. Neither waits for threads, programs or timers: use a predicate for those.
"""

import asyncio
import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest.mock import patch

from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.screen import Screen

_LIMIT_S = 1.0

_render: Callable[..., Any] = Compositor.render_update


class FastPilot(Pilot[int]):
    """A pilot whose methods return when all resulting messages are handled and drawn."""

    async def press(self, *keys: str) -> None:
        """Press keys as fast as possible, then draw."""
        with patch("textual.app.wait_for_idle", _until_quiet):
            await self.app._press_keys(keys)
        await self.pause()

    async def pause(self, delay: float | None = None) -> None:
        """Wait until no work is left that needs neither time nor others; then draw."""
        assert delay is None, "there is something to wait for"
        await self.settle()
        compositor = self.app.screen._compositor
        if compositor._dirty_regions:
            _render(compositor, screen_stack=self.app._background_screens)
            await self.settle()

    async def settle(self) -> None:
        """As `pause`, without drawing."""
        end = time.monotonic() + _LIMIT_S
        while time.monotonic() < end:
            await _until_quiet()
            # What is due comes with the next tick of a clock otherwise.
            if self.app._resize_timer is not None:
                self.app._check_resize()
            elif _has_frame_due(self.app.screen):
                self.app.screen._on_timer_update()
            else:
                return

    async def _wait_for_screen(self, timeout: float = _LIMIT_S) -> bool:
        await _until_quiet()
        return True


def draw_late() -> None:
    """Make apps of this process draw only when a pilot asks.

    A frame that the next one replaces at once is a third of what a test costs.
    """

    @wraps(_render)
    def render_update(self: Compositor, full: bool = False, **options: Any) -> Any:
        if full or self.root is None or not self.root.app.is_headless:
            return _render(self, full, **options)
        return None

    Compositor.render_update = render_update  # type: ignore[assignment, method-assign]


async def _until_quiet(min_sleep: float = 0.0, max_sleep: float = _LIMIT_S) -> None:
    """Run the event loop until it would wait, for at most `max_sleep` seconds."""
    loop = asyncio.get_running_loop()
    end = time.monotonic() + max_sleep
    while time.monotonic() < end:
        await asyncio.sleep(0)
        if not loop._ready:  # type: ignore[attr-defined]
            return


def _has_frame_due(screen: Screen[object]) -> bool:
    """Whether the next tick of the screen's clock would change or call anything."""
    if not screen.is_current or screen.app._batch_count:
        return False
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )
