"""A command's output in bounded memory: its beginning, its end, and all of it in a file."""

import codecs
import time
from collections.abc import Callable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.outputs import OutputFile

KEEP_BYTES = 64 * 1024
"""Kept of the beginning and again of the end, in memory."""

SHOWN_WHOLE_BYTES = 8 * 1024
SHOWN_WHOLE_LINES = 200
"""Output up to this size is shown whole; beyond it a file is begun."""

_LIVE_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedOutput:
    """What a command wrote. `tail` begins where `head` ends, or later when bytes were left out.

    `path` is the file that holds all of it (its first 64 MiB if `is_file_cut`), empty when the
    output was small enough to do without one, or when `file_error` says why there is none.
    """

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0
    total_lines: int = 0
    path: str = ""
    is_file_cut: bool = False
    file_error: str = ""

    @property
    def is_small(self) -> bool:
        return is_small(self.total_bytes, self.total_lines)


class Capture:
    """Takes a command's output as it comes. Memory stays below a few hundred KiB."""

    def __init__(self, open_file: Callable[[], OutputFile] | None = None) -> None:
        """`open_file` is called once, when the output grows too big to be shown whole."""
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
        """Seconds since the last piece, or since the beginning."""
        return time.monotonic() - self._fed_at

    def feed(self, chunk: bytes) -> None:
        """Take the next piece, of any size."""
        self._fed_at = time.monotonic()
        self.total_bytes += len(chunk)
        self._newlines += chunk.count(b"\n")
        self._ends_line = chunk.endswith(b"\n") if chunk else self._ends_line
        self._write(chunk)
        room = KEEP_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:][-KEEP_BYTES:]
        # Cut rarely, not at every chunk: each cut moves what stays.
        if len(self._tail) > 2 * KEEP_BYTES:
            del self._tail[:-KEEP_BYTES]

    def live_tail(self) -> str:
        """The last few KiB as text, for somebody watching; whole characters only."""
        recent = bytes(self._tail[-_LIVE_BYTES:])
        if len(recent) < _LIVE_BYTES:
            recent = (bytes(self._head) + recent)[-_LIVE_BYTES:]
        return readable(whole_characters(recent, is_cut_before=self.total_bytes > len(recent)))

    def finish(self) -> BoundedOutput:
        """Close the file and say what came."""
        if self._file is not None:
            self._file.close()
        return self.so_far()

    def so_far(self) -> BoundedOutput:
        """What came until now. The file holds it already, if there is one."""
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

    def _write(self, chunk: bytes) -> None:
        if self._file is None:
            if self._open_file is None or is_small(self.total_bytes, self._lines):
                return
            self._file = self._open_file()
            # Everything so far is still in `_head`: a file begins long before that is full.
            self._file.write(bytes(self._head))
        self._file.write(chunk)


def is_small(total_bytes: int, total_lines: int) -> bool:
    """Whether output of this size is shown whole."""
    return total_bytes <= SHOWN_WHOLE_BYTES and total_lines <= SHOWN_WHOLE_LINES


def whole_characters(
    piece: bytes, *, is_cut_before: bool = False, is_cut_after: bool = False
) -> str:
    """UTF-8 as text without the halves of characters at its cut ends; bad bytes become U+FFFD."""
    if is_cut_before:
        start = 0
        while start < min(3, len(piece)) and piece[start] & 0xC0 == 0x80:
            start += 1
        piece = piece[start:]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(piece, final=not is_cut_after)


def begun_character(piece: bytes) -> bytes:
    """The last bytes of `piece` that begin a UTF-8 character whose rest is not there."""
    for length in range(1, min(3, len(piece)) + 1):
        byte = piece[-length]
        if byte & 0xC0 != 0x80:
            needed = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4
            return piece[-length:] if byte >= 0xC0 and length < needed else b""
    return b""


# Neither models nor terminals gain from these, and some services reject a NUL in JSON.
_CONTROLS = {code: "�" for code in range(32) if chr(code) not in "\t\n\r\x1b"} | {127: "�"}


def readable(text: str) -> str:
    """`text` with Windows line ends made plain, and control characters shown as U+FFFD."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)
