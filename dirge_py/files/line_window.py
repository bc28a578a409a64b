"""A stretch of a text file's lines, read without holding the file."""

import codecs
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

_CHUNK = 1 << 20
SNIFFED = 4096
_MAX_ODD_SHARE = 0.3


@dataclass(slots=True, kw_only=True)
class Window:
    """Which lines to keep (1-based `first`, at most `count`) and how much of them, in bytes."""

    first: int
    count: int
    line_limit: int
    size_limit: int


@dataclass(slots=True)
class LineWindow:
    """Feed it a file's bytes in pieces; it keeps the lines of its window and counts all.

    `cut_lines` are the numbers of kept lines that were longer than the limit. `is_full` says that
    the window was closed early because its lines grew too large together.
    """

    window: Window
    lines: list[bytes] = field(default_factory=list)
    cut_lines: set[int] = field(default_factory=set)
    total: int = 0
    is_full: bool = False
    _open: bytearray = field(default_factory=bytearray)
    _open_size: int = 0
    _kept: int = 0

    def feed(self, chunk: bytes) -> None:
        newlines = chunk.count(b"\n")
        if self.total + newlines < self.window.first - 1 or self._is_past():
            self._skip(chunk, newlines)
            return
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._extend(piece)
            self._end_line()
        self._extend(rest)

    def finish(self) -> None:
        """The file has ended: a last line without a newline counts too."""
        if self._open_size:
            self._end_line()

    @property
    def last(self) -> int:
        """The number of the last kept line."""
        return self.window.first - 1 + len(self.lines)

    def _is_past(self) -> bool:
        return self.is_full or self.total >= self.window.first - 1 + self.window.count

    def _skip(self, chunk: bytes, newlines: int) -> None:
        self.total += newlines
        rest = len(chunk) - 1 - chunk.rfind(b"\n")
        self._open_size = rest if newlines else self._open_size + rest

    def _extend(self, piece: bytes) -> None:
        self._open += piece[: max(0, self.window.line_limit + 1 - len(self._open))]
        self._open_size += len(piece)

    def _end_line(self) -> None:
        self.total += 1
        if (
            self.total >= self.window.first
            and not self.is_full
            and len(self.lines) < self.window.count
        ):
            self._keep(bytes(self._open).removesuffix(b"\r"))
        self._open.clear()
        self._open_size = 0

    def _keep(self, line: bytes) -> None:
        if self._open_size > self.window.line_limit:
            self.cut_lines.add(self.total)
            line = line[: self.window.line_limit]
        self._kept += len(line)
        if self._kept > self.window.size_limit and self.lines:
            self.is_full = True
            return
        self.lines.append(line)


def scan(
    stream: BinaryIO,
    into: LineWindow,
    *,
    stop_after: int | None = None,
    is_aborted: Callable[[], bool] = lambda: False,
) -> str | None:
    """Run a file through `into`; returns its sha256, or None if it was not read to its end.

    `stop_after`: give up counting that many lines behind the window.
    """
    digest = hashlib.sha256()
    enough = None if stop_after is None else into.window.first - 1 + into.window.count + stop_after
    is_first = True
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        into.feed(chunk.removeprefix(codecs.BOM_UTF8) if is_first else chunk)
        is_first = False
        if is_aborted() or (enough is not None and into.total >= enough):
            return None
    into.finish()
    return digest.hexdigest()


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are no text: a NUL, or too many that nobody types."""
    if b"\0" in head:
        return True
    odd = sum(head.count(code) for code in _CONTROLS)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        odd += sum(byte > 127 for byte in head)
    return odd > _MAX_ODD_SHARE * len(head)


_CONTROLS = tuple(bytes([code]) for code in (*range(1, 32), 127) if code not in b"\t\n\r\f\b\x1b")
