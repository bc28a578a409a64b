"""Where lines come from: `LineSource`, and its form for pipes, files and dumb terminals."""

import asyncio
import os
import termios
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from dirge_py.frontend.line.writer import LineWriter

_READ_BYTES = 65_536


class AnswerInterrupted(Exception):
    """Ctrl+C while a question was open."""


class LineSource(Protocol):
    """Reads what a person types, or what a script holds.

    `is_script`: nobody sits there. Its lines are read one after the other, each once what the one
    before asked for is done, and a question reads the next one.
    """

    is_script: bool

    @property
    def is_gone(self) -> bool:
        """Whether there is nobody at the other end any more."""

    @property
    def has_set_aside(self) -> bool:
        """Whether something was being typed when the last answer was asked for."""

    async def line(self) -> str | None:
        """The next line that is sent; None at the end of the input."""

    async def answer(self, label: str) -> str | None:
        """The next line, typed after `label` was shown; None at the end of the input.

        What was being typed is set aside meanwhile, and given back after.

        Raises:
            Interrupted: Ctrl+C instead of an answer.
        """

    def remember(self, prompts: Iterable[str]) -> None:
        """Earlier prompts, oldest first, to be taken again where lines are edited."""

    def put_back(self, line: str) -> None:
        """Let this be the next line: it was read, and was meant for somebody else."""

    def put(self, text: str) -> None:
        """Put `text` in front of what is being typed."""

    @property
    def draft(self) -> str:
        """What stands in the input now."""

    def refresh(self) -> None:
        """The label of the line may be another one now."""

    def stop(self) -> None:
        """Read no more: `line` and `answer` come back, with None."""


class PlainLines:
    """A `LineSource` that reads `fd`. `label` stands before a line, at a terminal.

    A line is what ends with a newline, or with the input. Bytes that are no UTF-8 are replaced.
    """

    def __init__(self, writer: LineWriter, *, label: Callable[[], str], fd: int = 0) -> None:
        self._writer = writer
        self._label = label
        self._fd = fd
        self.is_script = not os.isatty(fd)
        self._lines: deque[str] = deque()
        self._rest = b""
        self._is_over = False
        self.is_gone = False
        self._is_open = True
        self._came = asyncio.Event()
        self._is_asking = False
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._is_interrupted = False
        self._lacks_label = False
        self._is_reading = False
        self.has_set_aside = False
        self._loop = asyncio.get_running_loop()

    async def line(self) -> str | None:
        self._lacks_label = not self.is_script
        self.refresh()
        while True:
            await self._is_free.wait()
            line = await self._next(is_answer=False)
            if line is not _NOT_MINE:
                break
            self._lacks_label = not self.is_script
        self._lacks_label = False
        if not self.is_script:
            self._writer.typed()
        elif isinstance(line, str):
            self._writer.line(f"> {line}")
        return line if isinstance(line, str) else None

    async def answer(self, label: str) -> str | None:
        self._is_free.clear()
        self._came.set()
        self._set_aside()
        try:
            if not self.is_script:
                self._writer.label(label)
            line = await self._next(is_answer=True)
        finally:
            self._is_free.set()
            self._is_interrupted = False
            self._writer.typed()
        if self.is_script and isinstance(line, str):
            self._writer.line(f"{label}{line}")
        return line if isinstance(line, str) else None

    def remember(self, prompts: Iterable[str]) -> None:
        """There is no way back to them here."""

    def put_back(self, line: str) -> None:
        self._lines.appendleft(line)
        self._came.set()

    def put(self, text: str) -> None:
        """The line cannot be changed from here: the text is shown, to be typed or copied again."""
        if text:
            self._writer.line(f"Not sent: {text}")

    @property
    def draft(self) -> str:
        return ""

    def interrupt(self) -> bool:
        """Ctrl+C; whether a question was open, which is then over."""
        if self._is_free.is_set():
            return False
        self._is_interrupted = True
        self._came.set()
        return True

    def refresh(self) -> None:
        """Show the label, if there is one now and was none when the line was asked for."""
        if self._lacks_label and (label := self._label()):
            self._lacks_label = False
            self._writer.label(label)

    def stop(self) -> None:
        self._is_open = False
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False
        self._came.set()

    # -- inside

    async def _next(self, *, is_answer: bool) -> "str | _NotMine | None":
        while self._is_open:
            if self._is_interrupted and is_answer:
                raise AnswerInterrupted
            if not is_answer and not self._is_free.is_set():
                return _NOT_MINE
            if self._lines:
                return self._lines.popleft()
            if self._is_over:
                return None
            self._came.clear()
            self._want_more()
            await self._came.wait()
        return None

    def _want_more(self) -> None:
        if self._is_reading:
            return
        try:
            self._loop.add_reader(self._fd, self._read)
            self._is_reading = True
        except OSError:
            self._read()  # A file, or nothing at all: there is never anything to wait for.

    def _read(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False
        try:
            self._take(os.read(self._fd, _READ_BYTES))
        except OSError:
            self.is_gone = True
            self._take(b"")

    def _take(self, found: bytes) -> None:
        *whole, self._rest = (self._rest + found).split(b"\n")
        if not found:
            self._is_over = True
            whole, self._rest = ([self._rest] if self._rest else []), b""
        self._lines += [line.decode("utf-8", "replace").removesuffix("\r") for line in whole]
        self._came.set()

    def _set_aside(self) -> None:
        """What was typed before a question was shown does not answer it."""
        if self.is_script:
            return
        ahead = [text for text in (*self._lines, _half_typed(self._fd)) if text.strip()]
        self._lines.clear()
        self.has_set_aside = bool(ahead)
        for text in ahead:
            self.put(text)


class _NotMine:
    """A question was put up: the next line is for it."""


_NOT_MINE = _NotMine()


def _half_typed(fd: int) -> str:
    """Take back what stands in the terminal's own line, which Enter has not sent yet."""
    try:
        before = termios.tcgetattr(fd)
    except (termios.error, OSError):
        return ""
    loose = [*before[:3], before[3] & ~termios.ICANON, *before[4:6], [*before[6]]]
    loose[6][termios.VMIN], loose[6][termios.VTIME] = 0, 0
    try:
        termios.tcsetattr(fd, termios.TCSANOW, loose)
        return os.read(fd, _READ_BYTES).decode("utf-8", "replace")
    except (termios.error, OSError):
        return ""
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
