"""Asking the terminal itself what it can do, with a limit on how long it may take to answer."""

import contextlib
import os
import re
import select
import signal
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from dirge_py.lib.lean_dataclass import dataclass

LIMIT_S = 0.2

SAMPLES: Mapping[str, int] = {"漢": 2, "é": 1, "👍🏽": 2, "⚙": 1}
"""Texts whose width terminals disagree about, and how many columns they ought to take."""

MODES = {2026: "synchronized output", 1004: "focus reports", 2004: "bracketed paste"}
_KITTY = "\x1b[?u"
_CAN_SET_CLIPBOARD = "\x1bP+q4d73\x1b\\"
_WHAT_ARE_YOU = "\x1b[c"
_WHERE = "\x1b[6n"
_ANSWERED = re.compile(rb"\x1b\[\?([\d;]*)c")
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalAnswers:
    """What a terminal said of itself.

    `modes`: DECRQM's numbers, 0 for unknown. `widths`: columns that the samples took. `attributes`:
    of the primary device attributes; None when nothing was answered in time.
    """

    attributes: tuple[int, ...] | None
    has_kitty_keys: bool = False
    modes: Mapping[int, int]
    sets_clipboard: bool = False
    widths: Mapping[str, int]


def ask_terminal(
    input_fd: int, output_fd: int, *, is_simple: bool = False, limit_s: float = LIMIT_S
) -> TerminalAnswers:
    """Ask, and wait at most `limit_s`. The terminal is left as it was, whatever happens.

    What was typed ahead is lost. `is_simple`: ask only what every terminal understands; some write
    down what they do not.

    Raises:
        OSError: this is no terminal, or it is gone.
    """
    with _raw(input_fd):
        asked = "".join(f"\r{sample}{_WHERE}" for sample in SAMPLES) + "\r\x1b[K"
        if not is_simple:
            asked += _KITTY + "".join(f"\x1b[?{mode}$p" for mode in MODES) + _CAN_SET_CLIPBOARD
        # Answers come in order and everybody answers this one, so it ends the wait.
        os.write(output_fd, (asked + _WHAT_ARE_YOU).encode())
        return read_answers(_heard(input_fd, limit_s))


def read_answers(heard: bytes) -> TerminalAnswers:
    """What was answered, from the bytes that came."""
    end = _ANSWERED.search(heard)
    numbers = end[1].split(b";") if end else []
    modes = re.findall(rb"\x1b\[\?(\d{1,5});(\d)\$y", heard)
    columns = [int(column) - 1 for column in re.findall(rb"\x1b\[\d{1,5};(\d{1,5})R", heard)]
    return TerminalAnswers(
        attributes=tuple(int(number) for number in numbers if number.isdigit()) if end else None,
        has_kitty_keys=bool(re.search(rb"\x1b\[\?\d{1,3}u", heard)),
        modes={int(mode): int(state) for mode, state in modes},
        sets_clipboard=bool(re.search(rb"\x1bP1\+r4[dD]73", heard)) or b"52" in numbers[1:],
        widths=dict(zip(SAMPLES, columns, strict=False)) if len(columns) == len(SAMPLES) else {},
    )


def _heard(input_fd: int, limit_s: float) -> bytes:
    heard, end = b"", time.monotonic() + limit_s
    while not _ANSWERED.search(heard):
        left_s = end - time.monotonic()
        if left_s <= 0 or not select.select([input_fd], [], [], left_s)[0]:
            break
        piece = os.read(input_fd, 4096)
        if not piece:
            break
        heard += piece
    return heard


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Every byte as it comes, and no echo. A signal that would end us puts things back first."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error as error:
        raise OSError(*error.args) from error

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ending: Sequence[signal.Signals] = [
        number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in ending:
        signal.signal(number, leave)
    try:
        tty.setraw(descriptor, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
