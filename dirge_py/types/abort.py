"""The signal that stops a run: now (`abort`) or at the next boundary (`interject`)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any


def call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Make `loop` call `callback`, from any thread; does nothing if it is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


class AbortSignal:
    """Two flags shared by everything in one run.

    `aborted` ends the run now. The loop alone reads `interjected`, at turn boundaries: running
    tools finish, no new turn begins. Both only ever change from False to True. They may be set from
    any thread and from a signal handler's event-loop callback.
    """

    __slots__ = ("_callbacks", "_lock", "aborted", "interjected", "reason")

    def __init__(self) -> None:
        self.aborted = False
        self.interjected = False
        self.reason = ""
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def abort(self, reason: str = "user") -> None:
        """Stop the run now. Later calls change nothing, the first `reason` stays."""
        with self._lock:
            if self.aborted:
                return
            self.reason = reason
            self.aborted = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def interject(self) -> None:
        """Ask the run to end after the current turn."""
        self.interjected = True

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when aborted, at once if it already is; returns its removal.

        Each registration counts, also of the same callback; a removal removes its own.
        """
        key = object()
        with self._lock:
            if not self.aborted:
                self._callbacks[key] = callback
                return lambda: self._remove(key)
        callback()
        return lambda: None

    async def wait(self, unless: "asyncio.Future[Any] | None" = None) -> None:
        """Return when aborted, or when `unless` is done before that.

        It creates no task, which would cost more than most waits.
        """
        if self.aborted:
            return
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def settle(_done: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        forget = self.on_abort(lambda: call_in_loop(loop, settle))
        if unless is not None:
            unless.add_done_callback(settle)
        try:
            await woken
        finally:
            forget()
            if unless is not None:
                unless.remove_done_callback(settle)

    def _remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
