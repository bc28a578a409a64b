"""The output of a command: bounded in memory, stored whole in a file, cut to an excerpt."""

import codecs
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.terminal_text import final_text
from dirge_py.types.errors import FileError

MAX_FILE_BYTES = 64 * 1024 * 1024
_UNSAFE = late_pattern(r"[^A-Za-z0-9_.-]+")

KEEP_BYTES = 64 * 1024
"""The most bytes kept in memory of the beginning, and again of the end."""
SHOWN_WHOLE_BYTES = 8 * 1024
SHOWN_WHOLE_LINES = 200
"""Output up to this size is shown whole; larger output is also written to a file."""
_LIVE_BYTES = 4 * 1024

# These help neither models nor terminals, and some services reject a NUL in JSON.
_CONTROLS = {code: "�" for code in range(32) if chr(code) not in "\t\n"} | {127: "�"}

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))

EXCERPT_LINES = 50
"""The lines shown of the beginning, and of the end."""

EXCERPT_BYTES = 8 * 1024
"""The most bytes shown of either, however long their lines are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedOutput:
    """The part of a command's output that is kept in memory."""

    head: bytes = b""
    """Its beginning."""
    tail: bytes = b""
    """Its end: begins where `head` ends, or later if bytes were left out."""
    total_bytes: int = 0
    """The number of bytes that the command wrote."""
    total_lines: int = 0
    """The number of lines that the command wrote."""
    path: str = ""
    """The file with all of it; "" if it was small, or if there is a `file_error`."""
    is_file_cut: bool = False
    """Whether the file holds only the first 64 MiB."""
    file_error: str = ""
    """Why there is no file; "" if there was no error."""


@dataclass(slots=True)
class OutputFile:
    """A file being written, up to `MAX_FILE_BYTES`; later output is dropped.

    Never raises: if it can't be written, `error` says why, and the file is removed.
    """

    path: str
    written: int = 0
    error: str = ""
    _fd: int | None = None

    def write(self, chunk: bytes) -> None:
        if self._fd is None:
            return
        waiting = memoryview(chunk)[: MAX_FILE_BYTES - self.written]
        try:
            while waiting:  # a nearly full disk writes only a part without an error
                count = os.write(self._fd, waiting)
                self.written += count
                waiting = waiting[count:]
        except OSError as error:
            self.error = error.strerror or str(error)
            self.close()
            with suppress(OSError):
                os.unlink(self.path)

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.close(fd)


class OutputStore:
    """The folder of stored outputs of one conversation, created on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str) -> OutputFile:
        """Return a new file named after `name`; check its `error` before using it."""
        stem = _UNSAFE.sub("_", name).strip("._")[:80] or "output"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        path, number = self.folder / f"{stem}.txt", 1
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                with suppress(FileExistsError):
                    return OutputFile(path=str(path), _fd=os.open(path, flags, 0o600))
                number += 1
                path = self.folder / f"{stem}-{number}.txt"
        except OSError as error:
            return OutputFile(path="", error=error.strerror or str(error))

    def keep(self, call_id: str, output: bytes) -> str:
        """Store the whole `output`; return its path. Raises FileError."""
        file = self.create(call_id)
        file.write(output)
        file.close()
        if file.error:
            hint = "Ask for less at once."
            raise FileError(f"Output could not be kept in {self.folder}: {file.error}.", hint=hint)
        return file.path


class OutputCapture:
    """Captures a command's output as it arrives, in a few hundred KiB of memory at most."""

    def __init__(self, open_file: Callable[[], OutputFile] | None = None) -> None:
        """`open_file` is called once, when the output gets too large to be shown whole."""
        self._open_file = open_file
        self._file: OutputFile | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self._newlines = 0
        self._ends_line = True
        self._fed_at = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """Seconds since the last output, or since the start."""
        return time.monotonic() - self._fed_at

    def feed(self, chunk: bytes) -> None:
        """Add the next piece, of any size."""
        self._fed_at = time.monotonic()
        self.total_bytes += len(chunk)
        self._newlines += chunk.count(b"\n")
        self._ends_line = chunk.endswith(b"\n") if chunk else self._ends_line
        is_large = self.total_bytes > SHOWN_WHOLE_BYTES or self._lines > SHOWN_WHOLE_LINES
        if is_large and self._file is None and self._open_file is not None:
            self._file = self._open_file()
            # Everything so far is still in `_head`: a file is opened long before that is full.
            self._file.write(bytes(self._head))
        if self._file is not None:
            self._file.write(chunk)
        free = KEEP_BYTES - len(self._head)
        self._head += chunk[:free]
        self._tail += chunk[free:][-KEEP_BYTES:]
        # Cut rarely, not at every chunk, because each cut copies the rest.
        if len(self._tail) > 2 * KEEP_BYTES:
            del self._tail[:-KEEP_BYTES]

    def live_tail(self) -> str:
        """Return the last few KiB as text, in whole characters, to show while the command runs."""
        recent = bytes(self._tail[-_LIVE_BYTES:])
        if len(recent) < _LIVE_BYTES:
            recent = (bytes(self._head) + recent)[-_LIVE_BYTES:]
        return readable(whole_characters(recent, is_cut_before=self.total_bytes > len(recent)))

    def finish(self) -> BoundedOutput:
        """Close the file; return all output."""
        if self._file is not None:
            self._file.close()
        return self.so_far()

    def so_far(self) -> BoundedOutput:
        """Return all output so far. The file contains it already, if there is one."""
        file = self._file
        return BoundedOutput(
            head=bytes(self._head),
            tail=bytes(self._tail[-KEEP_BYTES:]),
            total_bytes=self.total_bytes,
            total_lines=self._lines,
            path=file.path if file and not file.error else "",
            is_file_cut=bool(file and self.total_bytes > file.written),
            file_error=file.error if file else "",
        )

    @property
    def _lines(self) -> int:
        return self._newlines + (not self._ends_line)


def whole_characters(
    piece: bytes, *, is_cut_before: bool = False, is_cut_after: bool = False
) -> str:
    """Decode UTF-8 without partial characters at cut ends; invalid bytes become U+FFFD."""
    if is_cut_before:
        piece = piece[:3].lstrip(_CONTINUATION_BYTES) + piece[3:]
    return codecs.getincrementaldecoder("utf-8")("replace").decode(piece, final=not is_cut_after)


def readable(text: str) -> str:
    """Return what a terminal would show in the end; other control characters are U+FFFD.

    Colours and titles are left out, and progress that was written over is gone.
    """
    return final_text(text).translate(_CONTROLS)


def split_whole(output: BoundedOutput) -> tuple[BoundedOutput, bytes]:
    """Split `output` after its last whole character; also return the bytes of the next one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode((output.tail or output.head)[-3:])
    partial = decoder.getstate()[0]
    if not partial:
        return output, b""
    last = "tail" if output.tail else "head"
    rest: dict[str, Any] = {last: getattr(output, last)[: -len(partial)]}
    return replace(output, total_bytes=output.total_bytes - len(partial), **rest), partial


def excerpt(output: BoundedOutput) -> str:
    """Return the output as text; if parts are left out, it says how much and where to find all."""
    kept = output.head + output.tail
    is_contiguous = len(kept) == output.total_bytes
    is_small = output.total_bytes <= SHOWN_WHOLE_BYTES and output.total_lines <= SHOWN_WHOLE_LINES
    if is_contiguous and (is_small or b"\r" in kept or b"\x1b" in kept):
        whole = readable(whole_characters(kept))
        # Progress bars are long only until they are drawn.
        if is_small or (
            len(whole.encode()) <= SHOWN_WHOLE_BYTES and whole.count("\n") < SHOWN_WHOLE_LINES
        ):
            return whole
    first = _first_lines(output.head)
    last = _last_lines(kept if is_contiguous else output.tail)
    left_out = output.total_bytes - len(first) - len(last)
    if left_out <= 0:
        return readable(whole_characters(kept))
    # One by one: movements of the cursor in the end must not erase the note.
    beginning = readable(whole_characters(first, is_cut_after=True))
    ending = readable(whole_characters(last, is_cut_before=True))
    lines = output.total_lines - first.count(b"\n") - last.count(b"\n")
    amount = f"{lines:,} lines ({left_out:,} bytes)" if lines > 1 else f"{left_out:,} bytes"
    note = f"[{amount} are left out. {_whereabouts(output)}]"
    return f"{beginning.removesuffix(chr(10))}\n\n{note}\n\n{ending}"


def _first_lines(data: bytes) -> bytes:
    data = data[:EXCERPT_BYTES]
    rest = data.split(b"\n", EXCERPT_LINES)[EXCERPT_LINES:]
    return data[: -len(rest[0])] if rest and rest[0] else data


def _last_lines(data: bytes) -> bytes:
    data = data[-EXCERPT_BYTES:]
    lines = data.removesuffix(b"\n").rsplit(b"\n", EXCERPT_LINES)
    return data[len(lines[0]) + 1 :] if len(lines) > EXCERPT_LINES else data


def _whereabouts(output: BoundedOutput) -> str:
    if output.file_error:
        return f"The full output could not be kept: {output.file_error}."
    if not output.path:
        return "The full output was not kept; narrow the command to see the rest."
    if output.is_file_cut:
        return f"The first 64 MiB of the output are in {output.path}: read or search that file."
    return f"The full output is in {output.path}: read or search that file."
