"""Runs a command on its own terminal: the user types into it, and sees its output.

`TerminalText` is the output as the text that remained on the terminal: a full-screen program leaves
none, and a line that was overwritten repeatedly, such as a progress bar, counts once, in its final
state.
"""

import codecs
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.processes.output import OutputCapture
from dirge_py.processes.process_tree import CommandTree, EndedProcesses
from dirge_py.processes.running_command import (
    CommandResult,
    RunningCommand,
    shell_arguments,
    start_problem,
)
from dirge_py.types.errors import ProcessError

OnBytes: TypeAlias = Callable[[bytes], None]
"""Called with the command's raw output as it arrives, including escape sequences."""
MOST_TYPED_BYTES = 1024 * 1024
"""How much input waits for a program that does not read; the rest is dropped."""
_READ_BYTES = 32 * 1024
_PAUSE_S = 0.01

# The session's first process that opens the terminal makes it the controlling terminal.
_TAKE_TERMINAL = ': <"$0"; exec "$@"'


def open_terminal(
    command: str, *, cwd: str, environment: Mapping[str, str], rows: int, columns: int
) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start a command line with the user's shell (`$SHELL`, else bash) on a new terminal.

    Returns the process, which has its own session, and two descriptors of the terminal: dirge's
    end, for keys and output, and the process's end. Raises ProcessError if nothing was started.
    """
    try:
        keyboard_fd, program_fd = os.openpty()
    except OSError as error:
        raise ProcessError(f"Cannot open a terminal: {error.strerror}.") from error
    set_size(keyboard_fd, rows=rows, columns=columns)
    shell = environment.get("SHELL", "")
    is_usable = os.path.isabs(shell) and os.access(shell, os.X_OK)
    try:
        words = [shell, "-c", command] if is_usable else shell_arguments(command)
        process = subprocess.Popen(
            [*shell_arguments(_TAKE_TERMINAL), os.ttyname(program_fd), *words],
            cwd=cwd,
            env=dict(environment),
            stdin=program_fd,
            stdout=program_fd,
            stderr=program_fd,
            start_new_session=True,
        )
    except (OSError, ValueError, ProcessError) as error:
        os.close(keyboard_fd)
        os.close(program_fd)
        if isinstance(error, ProcessError):
            raise
        raise start_problem(error, "The shell", cwd, hint="Check $SHELL.") from error
    os.set_blocking(keyboard_fd, False)
    return process, keyboard_fd, program_fd


def set_size(fd: int, *, rows: int, columns: int) -> None:
    """Set the size of a terminal, and notify its programs."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class PtyCommand(RunningCommand):
    """A started command on its terminal; `finished.output` is its text, without escape sequences.

    At most 32 KiB are read at once, so a command that floods the terminal has to wait.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        keyboard_fd: int,
        program_fd: int,
        *,
        tree: CommandTree,
        on_bytes: OnBytes,
    ) -> None:
        self._program_fd: int | None = program_fd
        self._text = TerminalText()
        self._on_bytes = on_bytes
        self._pending_keys = bytearray()
        super().__init__(process, keyboard_fd, tree, capture=OutputCapture())

    def send_keys(self, keys: bytes) -> None:
        """Send `keys` to the program, as if they were typed."""
        if self._output_fd is None or len(self._pending_keys) + len(keys) > MOST_TYPED_BYTES:
            return
        self._pending_keys += keys
        self._write_keys()

    def resize(self, *, rows: int, columns: int) -> None:
        """Change the size of the terminal."""
        if self._output_fd is not None:
            with suppress(OSError):
                set_size(self._output_fd, rows=rows, columns=columns)

    def _write_keys(self) -> None:
        if self._output_fd is None:
            return
        try:
            written = os.write(self._output_fd, self._pending_keys)
        except BlockingIOError:
            written = 0
        except OSError:  # no process has the terminal any more
            written = len(self._pending_keys)
        del self._pending_keys[:written]
        if self._pending_keys:
            self._loop.add_writer(self._output_fd, self._write_keys)
        else:
            self._loop.remove_writer(self._output_fd)

    def _read(self) -> None:
        budget = _READ_BYTES
        while budget > 0 and self._output_fd is not None:
            try:
                chunk = os.read(self._output_fd, budget)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""  # Linux: no process has the terminal open any more
            if not chunk:
                self._close_output()
                return
            budget -= len(chunk)
            self._capture.feed(self._text.feed(chunk))
            self._on_bytes(chunk)
        if self._output_fd is not None:
            # A flood: other work on this event loop comes first.
            self._loop.remove_reader(self._output_fd)
            self._loop.call_later(_PAUSE_S, self._resume_reading)

    def _resume_reading(self) -> None:
        if self._output_fd is not None:
            self._loop.add_reader(self._output_fd, self._read)

    def _notice_exit(self) -> None:
        super()._notice_exit()
        if self._ends["exit"].done():
            self._close_program_end()

    def _finished(self, ended_by: Any, ended: EndedProcesses) -> CommandResult:
        self._capture.feed(self._text.end())
        return super()._finished(ended_by, ended)

    def _close_output(self) -> None:
        if self._output_fd is not None:
            self._loop.remove_writer(self._output_fd)
        super()._close_output()
        self._close_program_end()

    def _close_program_end(self) -> None:
        """Close dirge's copy of the program's end, which keeps the terminal open until then."""
        if self._program_fd is not None:
            os.close(self._program_fd)
            self._program_fd = None


_LONGEST_LINE = 16 * 1024
"""After this many characters, an unfinished line is processed as it is."""
_FULL_SCREEN = late_pattern(r"\x1b\[\?(?:1049|1047|47)([hl])")
_LINE_END = late_pattern(r"\r+\n")


class TerminalText:
    """Converts bytes as they arrive; an unfinished part of a chunk waits for the next one."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial = ""
        self._is_full_screen = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that are finished now, as UTF-8 without terminal commands."""
        text = self._partial + self._decoder.decode(chunk)
        end = text.rfind("\n") + 1
        if not end and len(text) > _LONGEST_LINE:
            end = len(text)
        self._partial = text[end:]
        return self._plain(text[:end])

    def end(self) -> bytes:
        """Return the rest."""
        return self._plain(self._partial + self._decoder.decode(b"", final=True))

    def _plain(self, text: str) -> bytes:
        text = _LINE_END.sub("\n", self._without_full_screen(text))
        if "\r" in text or "\b" in text:
            text = "\n".join(map(_final_line, text.split("\n")))
        return clean(text).encode("utf-8", "replace")

    def _without_full_screen(self, text: str) -> str:
        """Return `text` without the output to the terminal's alternate screen."""
        if "\x1b[?" not in text and not self._is_full_screen:
            return text
        kept: list[str] = []
        at = 0
        for switch in _FULL_SCREEN.finditer(text):
            if not self._is_full_screen:
                kept.append(text[at : switch.start()])
            self._is_full_screen, at = switch[1] == "h", switch.end()
        if not self._is_full_screen:
            kept.append(text[at:])
        return "".join(kept)


def _final_line(line: str) -> str:
    """Return the final state of a line with carriage returns and backspaces."""
    passes = line.split("\r")
    last = next((text for text in reversed(passes) if clean(text).strip()), "")
    if "\b" not in last:
        return last
    shown: list[str] = []
    for char in last:
        if char != "\b":
            shown.append(char)
        elif shown:
            shown.pop()
    return "".join(shown)
