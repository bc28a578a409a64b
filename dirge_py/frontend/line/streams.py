"""Input and output of line mode; output runs from top to bottom and is never overwritten."""

import asyncio
import os
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterable

from dirge_py.lib.text import clean
from dirge_py.lib.text_width import cell_width, wrap

_READ_BYTES = 65_536


class LineWriter:
    """Writes lines and streamed answers, without control sequences.

    `columns` is the line width while an input line is redrawn below the text; streamed text is then
    written in whole lines. With None, each piece is written at once.
    """

    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        *,
        columns: Callable[[], int] | None = None,
    ) -> None:
        self._write_text = write or _to_stdout
        self._columns = columns
        self._growing = ""
        self._is_in_line = False
        self.problem: OSError | ValueError | None = None
        """Why writing failed: the reader is gone, or the disk is full; None if it works."""

    def line(self, text: str = "") -> None:
        """Write one or more whole lines."""
        self.end_line()
        self._write(clean(text) + "\n")

    def append(self, text: str) -> None:
        """Write the next piece of a streamed text."""
        if self._columns is None:
            self._write(clean(text))
            self._is_in_line = not text.endswith("\n") if text else self._is_in_line
            return
        self._growing += text
        *lines, self._growing = self._growing.split("\n")
        width = max(20, self._columns() - 1)
        if cell_width(self._growing) > width:
            *full, self._growing = wrap(self._growing, width)
            lines += full
        for line in lines:
            self._write(clean(line) + "\n")

    def end_line(self) -> None:
        """End the current line, if one is begun."""
        if self._growing:
            self._write(clean(self._growing) + "\n")
            self._growing = ""
        elif self._is_in_line:
            self._write("\n")
        self._is_in_line = False

    def label(self, text: str) -> None:
        """Write a label at the beginning of the line that the user types next."""
        self.end_line()
        self._write(clean(text))
        self._is_in_line = bool(text)

    def note_enter(self) -> None:
        """Note that the terminal itself has gone to the next line: the user pressed Enter."""
        self._is_in_line = False

    def _write(self, text: str) -> None:
        if self.problem is not None:
            return
        try:
            self._write_text(text)
        except (OSError, ValueError) as problem:
            self.problem = problem


def _to_stdout(text: str) -> None:
    # Look it up each time: while a line is edited, `sys.stdout` is another stream.
    sys.stdout.write(text)
    sys.stdout.flush()


class AnswerInterrupted(Exception):
    """Raised for Ctrl+C while a question is open."""


class PlainLines:
    """Reads the lines of a user or a script from `fd`. `label` stands before one, at a terminal.

    A line is what ends with a newline, or with the input. Bytes that are no UTF-8 are replaced.
    """

    def __init__(self, writer: LineWriter, *, label: Callable[[], str], fd: int = 0) -> None:
        self._writer = writer
        self._label = label
        self._fd = fd
        self.is_script = not os.isatty(fd)
        """Without a user. Each line is read when the one before is done, or by a question."""
        self._lines: deque[str] = deque()
        self._rest = b""
        self._is_over = False
        self.is_gone = False
        """Whether the other end is closed."""
        self._is_open = True
        self._came = asyncio.Event()
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._is_interrupted = False
        self._lacks_label = False
        self._is_reading = False
        self.has_set_aside = False
        """Whether the user was typing when the last question appeared."""
        self._loop = asyncio.get_running_loop()

    async def line(self) -> str | None:
        """The next line; None at the end of the input."""
        self._lacks_label = not self.is_script
        self.refresh()
        line = await self._next(is_answer=False)
        self._lacks_label = False
        if not self.is_script:
            self._writer.note_enter()
        elif line is not None:
            self._writer.line(f"> {line}")
        return line

    async def answer(self, label: str) -> str | None:
        """The next line, typed after `label` was shown; None at the end of the input.

        Text that the user was typing is set aside, and restored afterwards. Raises
        AnswerInterrupted for Ctrl+C instead of an answer.
        """
        self._is_free.clear()
        self._came.set()
        try:
            if not self.is_script:
                # What was typed before the question can't answer it.
                ahead = [text for text in (*self._lines, _half_typed(self._fd)) if text.strip()]
                self._lines.clear()
                self.has_set_aside = bool(ahead)
                for text in ahead:
                    self.put(text)
                self._writer.label(label)
            line = await self._next(is_answer=True)
        finally:
            self._is_free.set()
            self._is_interrupted = False
            self._writer.note_enter()
        if self.is_script and line is not None:
            self._writer.line(f"{label}{line}")
        return line

    def remember(self, prompts: Iterable[str]) -> None:
        """Does nothing: there is no history of lines here."""

    def put_back(self, line: str) -> None:
        """Make `line`, which was read but isn't an answer, the next line again."""
        self._lines.appendleft(line)
        self._came.set()

    def put(self, text: str) -> None:
        """Show the text, because the terminal's own input line can't be changed."""
        if text:
            self._writer.line(f"Not sent: {text}")

    @property
    def draft(self) -> str:
        """The current content of the input: dirge doesn't know it."""
        return ""

    def interrupt(self) -> bool:
        """Handle Ctrl+C; returns whether it ended an open question."""
        if self._is_free.is_set():
            return False
        self._is_interrupted = True
        self._came.set()
        return True

    def refresh(self) -> None:
        """Show the label if the current line has none yet."""
        if self._lacks_label and (label := self._label()):
            self._lacks_label = False
            self._writer.label(label)

    def stop(self) -> None:
        """Stop reading: `line` and `answer` return None."""
        self._is_open = False
        self._stop_reading()
        self._came.set()

    # -- inside

    async def _next(self, *, is_answer: bool) -> str | None:
        while self._is_open:
            if self._is_interrupted and is_answer:
                raise AnswerInterrupted
            if not is_answer and not self._is_free.is_set():
                # A question was put: the next line answers that one.
                self._lacks_label = not self.is_script
                await self._is_free.wait()
                continue
            if self._lines:
                return self._lines.popleft()
            if self._is_over:
                return None
            self._came.clear()
            if not self._is_reading:
                try:
                    self._loop.add_reader(self._fd, self._read)
                    self._is_reading = True
                except OSError:
                    self._read()  # A file, or nothing at all: there is never anything to wait for.
            await self._came.wait()
        return None

    def _read(self) -> None:
        self._stop_reading()
        content = b""
        try:
            content = os.read(self._fd, _READ_BYTES)
        except OSError:
            self.is_gone = True
        *whole, self._rest = (self._rest + content).split(b"\n")
        if not content:
            self._is_over = True
            whole, self._rest = [self._rest] * bool(self._rest), b""
        self._lines += [line.decode("utf-8", "replace").removesuffix("\r") for line in whole]
        self._came.set()

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False


def _half_typed(fd: int) -> str:
    """Read the unsent text in the terminal's own input line."""
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
