"""The terminal under the UI: what Textual should know of it, and noticing that it is gone."""

import os
import select
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import IO, Any, cast

from textual.drivers.linux_driver import LinuxDriver

from dirge_py.ui.terminal_input import TerminalInput

_ESCAPE_DELAY_S = 0.02
"""How long a lone Esc waits for more: terminals send sequences in one piece, people do not."""

_LOOK_UP_S = 0.1
"""How often the reader looks whether it shall end."""

_READ_BYTES = 65_536

_LAST_RESORT_S = 1.5
"""How long the end of the process may take once the terminal is gone."""


class _Screenful:
    """What is drawn on, as a file that takes everything once nobody sees it any more."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return

    def fileno(self) -> int:
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's driver, with another reader and a writer that survives the terminal.

    Textual's reader takes a tenth of a second to see that a lone Esc is one, dies of a byte that is
    not UTF-8, and types what it does not know. Its writer ends at the first error, and the program
    then waits for ever for it to take more.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _Screenful(cast("IO[str]", self._file)))
        self._size = self._get_terminal_size()

    def take_mouse(self, *, is_ours: bool) -> None:
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
        # while the others were turned off. Nobody turns anything on any more now.
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
                    return  # The terminal is gone, which `watch_for_hangup` sees to.
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
    """Call `gone`, from a thread of its own, once nobody is at the other end of the terminal.

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
