"""The standard streams of `dirge -p`: prompts on stdin, results on stdout, notices on stderr."""

import asyncio
import contextlib
import json
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from types import FrameType
from typing import TypeAlias

from dirge_py.lib.text import clean
from dirge_py.types.errors import UsageError
from dirge_py.types.messages import TextBlock, UserMessage

_Handler: TypeAlias = Callable[[int, FrameType | None], None]
FIRST_BYTE_S = 3.0
ALONE_FIRST_BYTE_S = 30.0
NEXT_PIECE_S = 30.0
MOST_BYTES = 16 * 1024 * 1024
_CHUNK = 65536
HURRIED_S = 1.0
"""How long a write waits for its reader after a signal."""


def read_prompt(fd: int = 0, *, have_words: bool) -> tuple[str, str]:
    """The text on stdin, and a notice for stderr (either may be empty).

    Doesn't read a terminal. Gives up on a silent pipe after 3 s if the prompt has words, else after
    30 s. Once data arrives, reads to its end, or until a pause of 30 s. SIGTERM ends the program
    meanwhile.

    Raises:
        UsageError: stdin holds more than 16 MiB.
        SystemExit: on SIGTERM.
    """
    patience_s = FIRST_BYTE_S if have_words else ALONE_FIRST_BYTE_S

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    with handled_signals(end, *[signal.SIGTERM] * is_main):
        try:
            if os.isatty(fd):
                return "", ""
            kind = os.fstat(fd).st_mode
        except OSError:
            return "", ""
        if not stat.S_ISREG(kind) and not _wait_readable(fd, patience_s):
            return "", f"nothing came on stdin for {patience_s:g} s; continuing without it."
        return _read_pieces(fd)


def _read_pieces(fd: int) -> tuple[str, str]:
    """The text until the end of stdin or a long pause, and a notice about such a pause."""
    content = bytearray()
    notice = (
        f"nothing more came on stdin for {NEXT_PIECE_S:g} s, though it was not closed; "
        "continuing with what came."
    )
    while _wait_readable(fd, NEXT_PIECE_S):
        try:
            piece = os.read(fd, _CHUNK)
        except BlockingIOError:
            # Another reader of this pipe took the data.
            continue
        if not piece:
            notice = ""
            break
        content += piece
        if len(content) > MOST_BYTES:
            hint = "Put it into a file and name it with @path."
            raise UsageError("stdin holds more than 16 MiB.", hint=hint)
    return content.decode("utf-8", "replace").strip("\n"), notice


@contextlib.contextmanager
def handled_signals(
    handle: Callable[[int, FrameType | None], None], *numbers: int
) -> Iterator[None]:
    """Call `handle` on these signals, until the context ends; only in the main thread."""
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_readable(fd: int, patience_s: float) -> bool:
    return bool(select.select([fd], [], [], patience_s)[0])


async def user_lines(fd: int = 0) -> AsyncGenerator[UserMessage | str, None]:
    """User messages from JSON lines, as they come, or why a line is none, until end of file."""
    pipe = os.fdopen(os.dup(fd), "rb", buffering=0)
    kind = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(fd)):
        # The event loop can't wait for files or /dev/null.
        with pipe:
            for line in pipe:
                if line.strip():
                    yield read_line(line)
        return
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        async for line in _lines(reader):
            if line.strip():
                yield read_line(line)
    finally:
        transport.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): its limit would end the stream at the first long line.
    rest = b""
    while chunk := await reader.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


def read_line(line: bytes) -> UserMessage | str:
    """A message from `{"type":"user","message":{"role":"user","content":…}}`, or why it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict) or value.get("type") != "user":
        return '`type` is not "user"'
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return '`message` is not an object with the role "user"'
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    known = [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    texts = [b["text"] for b in known if b.get("type") == "text" and isinstance(b.get("text"), str)]
    if not isinstance(blocks, list) or len(texts) < len(blocks):
        return "`content` is neither text nor a list of text blocks"
    if not any(text.strip() for text in texts):
        return "`content` is empty"
    return UserMessage(content=tuple(map(TextBlock, texts)))


class WriteInterrupted(Exception):
    """Raised if a signal arrives while a slow reader blocks a write."""


class Stdout:
    """Writes text to a file descriptor, waiting as long as the reader needs.

    The event loop waits meanwhile, which is the back-pressure. If the other end is closed or a
    write fails, `is_closed` becomes True and later writes do nothing; `failure` is the reason of a
    failed write. `is_blocked` is True while the reader is slow.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self.is_closed = False
        self.failure = ""
        self.is_blocked = False
        self.is_hurried = False

    def write(self, text: str) -> None:
        """Write all of `text`. Lone surrogates are written as `?`."""
        left = memoryview(text.encode("utf-8", "replace"))
        while left and not self.is_closed:
            left = left[self._write_some(left) :]

    def _write_some(self, text: memoryview) -> int:
        try:
            self._wait()
            # A ready pipe takes this much at once, so the write itself never blocks.
            return os.write(self._fd, text[: select.PIPE_BUF])
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError, WriteInterrupted):
            self.is_closed = True
        except OSError as error:
            self.is_closed = True
            self.failure = error.strerror or str(error)
        return 0

    def _wait(self) -> None:
        """Wait for the reader; after a signal only for one that is still there."""
        if self._is_ready(0):
            return
        self.is_blocked = True
        try:
            ready = self._is_ready(HURRIED_S if self.is_hurried else None)
        except WriteInterrupted:
            ready = self._is_ready(HURRIED_S)
        finally:
            self.is_blocked = False
        if not ready:
            raise WriteInterrupted

    def _is_ready(self, patience_s: float | None) -> bool:
        return bool(select.select([], [self._fd], [], patience_s)[1])


def on_signals(
    stdout: Stdout, stop: Callable[[str], None]
) -> contextlib.AbstractContextManager[None]:
    """Call `stop(name)` on SIGINT, SIGTERM or SIGHUP in the context, even while a write waits.

    After a signal, a write waits at most `HURRIED_S` for its reader.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        stop(signal.Signals(number).name)
        stdout.is_hurried = True
        if stdout.is_blocked:
            raise WriteInterrupted

    return handled_signals(handle, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def print_notice(message: str, hint: str = "") -> None:
    """Write a notice for the user on stderr, and its hint below."""
    lines = f"dirge: {message}\n" + (f"  {hint}\n" if hint else "")
    # Ignore errors of stderr: the result is on stdout.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(clean(lines))
        sys.stderr.flush()
