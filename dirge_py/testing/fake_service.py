"""A model service on loopback, for tests over HTTP: real sockets, and every way to break them.

    replies = [ModelReply(text="Hello."), ModelReply(calls=[("read", {"path": "a"})])]
    with FakeService(replies) as service:
        run_something(base_url=service.openai_url)      # or service.anthropic_url
    assert service.requests[0].json["model"] == "m"

It runs in a thread with its own event loop, so that synchronous tests and subprocesses can use it.
Replies are given out in order, to whichever protocol asks; beyond the last one it answers 500.
"""

import asyncio
import contextlib
import itertools
import json
import random
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.testing.wire_formats import WIRE_FORMATS, BreakKind, ModelReply, wire_at


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """Any HTTP answer."""

    body: bytes | str = b""
    """The body."""
    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "text/event-stream"}
    )
    """The headers."""
    then: BreakKind | None = None
    """How the connection breaks after the body; None: the answer ends properly."""
    pieces: Sequence[bytes] = ()
    """The body in pieces, instead of `body`."""
    gap_s: float = 0.0
    """Seconds between them."""


@dataclass(frozen=True, kw_only=True)
class NoReply:
    """No answer to a request."""

    then: BreakKind = "stall"
    """How the connection breaks."""


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A request that the service received."""

    method: str
    """The HTTP method."""
    path: str
    """The path with its query."""
    headers: Mapping[str, str]
    """The headers, their names in lower case."""
    body: bytes
    """The body."""
    connection: int
    """The number of its TCP connection, from 1."""

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


ServiceReply = ModelReply | RawReply | NoReply


class FakeService:
    """The service, a context manager: it listens on a free port of 127.0.0.1.

    `requests` are those received; `closed_early` counts answers that the client did not read to the
    end, and `hangup` is set at the first. `replies` may grow while it runs. With `tls` it speaks
    https.
    """

    def __init__(
        self, replies: Sequence[ServiceReply] = (), *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls
        self.replies = list(replies)
        self.requests: list[ReceivedRequest] = []
        self.closed_early = 0
        self.hangup = threading.Event()
        self._given = itertools.count()
        self._connections = itertools.count(1)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.port = 0

    def url(self, kind: str) -> str:
        """Return the base URL for the settings of a provider of that type."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}{WIRE_FORMATS[kind].base_path}"

    @property
    def openai_url(self) -> str:
        return self.url("openai")

    @property
    def anthropic_url(self) -> str:
        return self.url("anthropic")

    def __enter__(self) -> "FakeService":
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number = next(self._connections)
        try:
            while (request := await _read_request(reader, number)) is not None:
                self.requests.append(request)
                turn = next(self._given)
                reply = self.replies[turn] if turn < len(self.replies) else _EXHAUSTED
                if not await self._answer(reply, request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    async def _answer(
        self,
        reply: ServiceReply,
        request: ReceivedRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Send it; return whether the connection can be used again."""
        if isinstance(reply, NoReply):
            return await self._break(reply.then, reader, writer)
        raw = reply if isinstance(reply, RawReply) else _as_raw(reply, request)
        lines = [f"HTTP/1.1 {raw.status} Whatever", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in raw.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        body = raw.body.encode() if isinstance(raw.body, str) else raw.body
        for piece in raw.pieces or filter(None, [body]):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            is_slow = raw.gap_s or len(raw.pieces) > 1
            if is_slow and await self._pause(raw.gap_s, reader):
                return False
        if raw.then is not None:
            return await self._break(raw.then, reader, writer)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _pause(self, gap_s: float, reader: asyncio.StreamReader) -> bool:
        """Wait `gap_s`; True if the client closed the connection meanwhile."""
        if gap_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(gap_s):
                    await self._gone(reader)
                    return True
        else:
            await asyncio.sleep(0)
        return False

    async def _gone(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(1)
        self.closed_early += 1
        self.hangup.set()

    async def _break(
        self, how: BreakKind, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if how == "stall":
            await self._gone(reader)
        elif how == "reset":
            sock = writer.get_extra_info("socket")
            # Closing with this set sends RST instead of FIN.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False


_EXHAUSTED = RawReply(
    status=500,
    body='{"error":{"message":"the fake service has no more replies"}}',
    headers={"content-type": "application/json"},
)


_TLS_HANDSHAKE = b"\x16"


async def _read_request(reader: asyncio.StreamReader, connection: int) -> ReceivedRequest | None:
    try:
        start = await reader.readexactly(1)
        if start == _TLS_HANDSHAKE:
            return None
        head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(
        method=method, path=path, headers=headers, body=body, connection=connection
    )


def _as_raw(say: ModelReply, request: ReceivedRequest) -> RawReply:
    wire = wire_at(request.path)
    events = [event.replace("\n", say.line_end).encode() for event in wire.stream(say)]
    stream, then = b"".join(events)[: say.after_bytes], None
    if say.after_bytes is not None:
        events, then = [stream], say.then
    if say.chunk_bytes:
        starts = range(0, len(stream), say.chunk_bytes)
        events = [stream[at : at + say.chunk_bytes] for at in starts]
    elif say.cut_seed is not None:
        events = list(cut(stream, random.Random(say.cut_seed)))
    headers = {"content-type": wire.content_type}
    return RawReply(pieces=events, gap_s=say.gap_s, then=then, headers=headers)


def cut(stream: bytes, chance: random.Random, most: int = 40) -> Iterator[bytes]:
    """Yield the stream in pieces of random length."""
    at = 0
    while at < len(stream):
        length = chance.randint(1, most)
        yield stream[at : at + length]
        at += length
