"""What comes in on stdin: a prompt, or a stream of messages. Nothing here waits for ever."""

import asyncio
import contextlib
import json
import os
import select
import signal
import stat
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from types import FrameType
from typing import Any

from dirge_py.types.errors import UsageError
from dirge_py.types.messages import TextBlock, UserMessage

FIRST_BYTE_S = 3.0
ALONE_FIRST_BYTE_S = 30.0
NEXT_PIECE_S = 30.0
MOST_BYTES = 16 * 1024 * 1024
_CHUNK = 65536


def read_prompt(fd: int = 0, *, have_words: bool) -> tuple[str, str]:
    """The text on stdin, and a notice for stderr (either may be empty).

    A terminal is not read. A pipe that stays silent is given up after 3 s when the prompt has words
    already, else after 30 s. Once something came, it is read to its end, or until nothing more came
    for 30 s. SIGTERM ends the program meanwhile.

    Raises:
        UsageError: more than 16 MiB came.
        SystemExit: SIGTERM came.
    """
    with _ended_by_sigterm():
        return _read_prompt(fd, FIRST_BYTE_S if have_words else ALONE_FIRST_BYTE_S)


def _read_prompt(fd: int, patience_s: float) -> tuple[str, str]:
    try:
        if os.isatty(fd):
            return "", ""
        kind = os.fstat(fd).st_mode
    except OSError:
        return "", ""
    if not stat.S_ISREG(kind) and not _wait_readable(fd, patience_s):
        return "", f"nothing came on stdin for {patience_s:g} s; going on without it."
    content, is_whole = _read_pieces(fd)
    notice = (
        ""
        if is_whole
        else f"nothing more came on stdin for {NEXT_PIECE_S:g} s, though it was not closed; "
        "going on with what came."
    )
    return content.decode("utf-8", "replace").strip("\n"), notice


def _read_pieces(fd: int) -> tuple[bytes, bool]:
    """What comes until the end (True), or until nothing came for too long (False)."""
    content = bytearray()
    while _wait_readable(fd, NEXT_PIECE_S):
        try:
            piece = os.read(fd, _CHUNK)
        except BlockingIOError:
            # Somebody who shares this pipe was quicker.
            continue
        if not piece:
            return bytes(content), True
        content += piece
        if len(content) > MOST_BYTES:
            raise UsageError(
                "stdin holds more than 16 MiB.", hint="Put it into a file and name it with @path."
            )
    return bytes(content), False


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program with 143 by way of its usual end, which says so and cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _wait_readable(fd: int, patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while (left := until - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            return True
    return False


class InvalidLine(Exception):
    """A line of `--input-format stream-json` that is no user message."""


async def user_lines(fd: int = 0) -> AsyncGenerator[UserMessage | InvalidLine, None]:
    """User messages from JSON lines, as they come, until end of file."""
    pipe = os.fdopen(os.dup(fd), "rb", buffering=0)
    if not _can_be_waited_on(fd):
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


def _can_be_waited_on(fd: int) -> bool:
    """Whether the event loop can tell when there is more: not for files, nor for /dev/null."""
    kind = os.fstat(fd).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(fd)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): its limit would end the stream at the first long line.
    rest = b""
    while chunk := await reader.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


def read_line(line: bytes) -> UserMessage | InvalidLine:
    """`{"type":"user","message":{"role":"user","content":str|blocks}}` as a message."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return InvalidLine(f"not JSON: {error}")
    if not isinstance(value, dict) or value.get("type") != "user":
        return InvalidLine('`type` is not "user"')
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return InvalidLine('`message` is no object with the role "user"')
    texts = _texts(message.get("content"))
    if texts is None:
        return InvalidLine("`content` is neither text nor a list of text blocks")
    if not any(text.strip() for text in texts):
        return InvalidLine("`content` is empty")
    return UserMessage(content=tuple(TextBlock(text) for text in texts))


def _texts(content: Any) -> list[str] | None:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return None
    texts = []
    for block in content:
        if not isinstance(block, dict) or block.get("type") != "text":
            return None
        if not isinstance(block.get("text"), str):
            return None
        texts.append(block["text"])
    return texts
