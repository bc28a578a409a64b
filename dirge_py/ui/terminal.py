"""The terminal under the UI: what Textual should know of it, and noticing that it is gone."""

import os
import select
import threading
from collections.abc import Callable
from enum import Enum
from typing import IO, Any, cast

from textual import constants
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.drivers.linux_driver import LinuxDriver

_ESCAPE_DELAY_S = 0.02
"""How long a lone Esc waits for more: terminals send sequences in one piece, people do not."""

_LAST_RESORT_S = 1.5
"""How long the end of the process may take once the terminal is gone."""


class _MoreKeys(Enum):
    ALT_ENTER = "alt+enter"


def teach_keys() -> None:
    """Make Esc quick, and Alt+Enter known where the terminal has no extended keyboard protocol."""
    vars(constants)["ESCAPE_DELAY"] = _ESCAPE_DELAY_S
    known = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    known["\x1b\r"] = known["\x1b\n"] = (_MoreKeys.ALT_ENTER,)


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
    """Textual's driver, except that losing the terminal does not stop its writer.

    Its writer ends at the first error, and the program then waits for ever for it to take more.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast("Any", _Screenful(cast("IO[str]", self._file)))


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
