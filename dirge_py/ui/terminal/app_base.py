"""Textual's app and driver as dirge needs them: exit, failure, signals, a closed terminal."""

import asyncio
import os
import select
import signal
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, ClassVar, cast

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.worker import WorkerFailed

from dirge_py.ui.terminal.input import TerminalInput

_ESCAPE_DELAY_S = 0.02
"""How long a lone Esc waits for more: terminals send sequences in one piece, people do not."""
_LOOK_UP_S = 0.1
"""How often the reader looks whether it shall end."""
_READ_BYTES = 65_536
_LAST_RESORT_S = 1.5
"""How long the end of the process may take once the terminal is gone."""


class _TerminalFile:
    """The terminal as a file that discards writes once it is closed."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


class TerminalDriver(LinuxDriver):
    """Textual's driver, with another reader and a writer that survives the terminal.

    Textual's reader needs a tenth of a second to recognise a lone Esc, ends at a byte that is
    not UTF-8, and types what it does not know. Its writer ends at the first error, and the program
    then waits forever for it to accept more.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _TerminalFile(cast("IO[str]", self._file)))
        self._size = self._get_terminal_size()

    def use_mouse(self, *, is_ours: bool) -> None:
        """Turn mouse reports on or off, from now on also after a suspension."""
        if is_ours == self._mouse:
            return
        if is_ours:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False

    def disable_input(self) -> None:
        super().disable_input()
        # Textual's reader turns these on when the terminal says that it can, which may have been
        # while the others were turned off. Nothing turns anything on from here on.
        if self._writer_thread is not None:
            self.write("\x1b[?1016l\x1b[?2048l")

    def _get_terminal_size(self) -> tuple[int, int]:
        # The terminal itself knows; COLUMNS in the environment is from when it was set.
        try:
            width, height = os.get_terminal_size(self.fileno)
        except OSError:
            return super()._get_terminal_size()
        return (width, height) if width and height else super()._get_terminal_size()

    def run_input_thread(self) -> None:
        arrived = TerminalInput()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        ready = select.poll()
        ready.register(self.fileno, select.POLLIN)
        patience_s, silent_s = _LOOK_UP_S, 0.0
        while not self.exit_event.is_set():
            typed = b""
            if ready.poll(patience_s * 1000):
                typed = self._read()
                if not typed:
                    return  # The terminal is gone, which `watch_for_hangup` handles.
            silent_s = 0.0 if typed else silent_s + patience_s
            for event in arrived.feed(decode(typed)) if typed else arrived.idle(silent_s):
                self.process_message(event)
            # After an Esc it is soon clear whether more belongs to it.
            patience_s = _ESCAPE_DELAY_S if typed else _LOOK_UP_S

    def _sigcont_application(self, *signal: Any) -> None:
        if self._auto_restart and not self._must_signal_resume:
            # Stopped from outside, without a chance to clean up: what we would take for the
            # terminal's own state, and restore at the end, is what we made of it.
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application(*signal)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:
            return b""


def watch_for_hangup(descriptor: int, gone: Callable[[], object], exit_code: int) -> None:
    """Call `gone`, from another thread, once the terminal is closed.

    The signal for it reaches only the terminal's own session, and a reader sees an end of file that
    Textual reads again and again. If `gone` does not end the process soon, this does.
    """
    hangup = select.poll()
    hangup.register(descriptor, 0)

    def wait() -> None:
        hangup.poll()
        gone()
        threading.Event().wait(_LAST_RESORT_S)
        os._exit(exit_code)

    threading.Thread(target=wait, name="hangup", daemon=True).start()


_TURNS_FOR_SIGNALS = 3
"""One until the loop looks for signals, one until it reads which, one until it calls us."""


class _Screen(Screen[None], inherit_bindings=False):
    """A screen without key bindings: Tab would move the focus out of the input.

    `is_styled`: nothing that styles depend on is changing.
    """

    BINDINGS: ClassVar = []
    is_styled = False

    def update_node_styles(self, animate: bool = True) -> None:
        if not self.is_styled:
            super().update_node_styles(animate=animate)

    AUTO_FOCUS = ""  # The app sets the focus; None would focus the first widget that can have it.


class TerminalApp(App[int], inherit_bindings=False):
    """An app that restores the terminal, whatever ends it."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []

    def __init__(self, *, no_color: bool) -> None:
        super().__init__(ansi_color=True if no_color else None)
        self.animation_level = "none"
        self.scroll_sensitivity_y = 3.0
        self.failure: BaseException | None = None
        """The error that ended it, if one did."""
        self.is_handed_over = False
        """Another program has the screen for a while."""
        self.has_mouse = True
        """The terminal reports the mouse to dirge."""

    def to_terminal(self, sequence: str) -> None:
        """Send an escape sequence that draws nothing, while the terminal is ours."""
        if self._driver is not None and not self.is_handed_over:
            self._driver.write(sequence)

    def use_mouse(self, *, is_ours: bool) -> None:
        """Have mouse reports, or leave the mouse to the terminal: selecting, its own menus."""
        self.has_mouse = is_ours
        if isinstance(self._driver, TerminalDriver):
            self._driver.use_mouse(is_ours=is_ours)

    def _watch_app_focus(self, focus: bool) -> None:
        # Textual would style every widget again, and draw all of the screen. No style of ours
        # depends on it; the widget that loses the focus or gets it back redraws itself.
        screen = self.screen
        if isinstance(screen, _Screen):
            screen.is_styled = True
        try:
            super()._watch_app_focus(focus)
        finally:
            if isinstance(screen, _Screen):
                screen.is_styled = False

    def get_default_screen(self) -> Screen[None]:
        return _Screen(id="_default")

    def draw_anew(self) -> None:
        """Draw the whole screen: something else was on it."""
        self.refresh(layout=True, repaint=True)

    def leave(self, code: int) -> None:
        """End the program; the terminal is restored first."""
        self.exit(code, return_code=code)

    async def reclaim_screen(self) -> None:
        """Mark the screen as ours again, once the terminal is.

        The loop handles a signal some turns after it came: a Ctrl+C pressed before that was still
        meant for the other program.
        """
        for _ in range(_TURNS_FOR_SIGNALS):
            await asyncio.sleep(0)
        self.is_handed_over = False

    def leave_by_signal(self, number: int) -> None:
        """End the program on a signal, except for Ctrl+C in an editor that has the screen."""
        if not (self.is_handed_over and number == signal.SIGINT):
            self.leave(128 + number)

    def fail(self, error: Exception) -> None:
        """End the program because of `error`, which `run_tui` raises then."""
        self.failure = self.failure or error
        self.leave(1)

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.failure = self.failure or cause
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print the values of all local variables: prompts, files, keys.
        self._close_messages_no_wait()
