"""Web servers on loopback in the test's event loop."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """A request as it arrived; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`chunks` times `body` is sent. With `stalls`, the connection then stays open."""

    body: bytes | str = b""
    status: int = 200
    type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: int = 1
    stalls: bool = False


def moved(to: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": to})


class Site:
    """Pages by path; others are 404. `connections` counts connections."""

    def __init__(self, pages: Mapping[str, Reply | str]) -> None:
        self.pages = dict(pages)
        self.requests: list[SiteRequest] = []
        self.connections = 0
        self.port = 0
        self.open: set[asyncio.Task[None]] = set()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._answer(reader, writer))
        self.open.add(task)
        task.add_done_callback(self.open.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen = await _read(reader)
            self.requests.append(seen)
            page = self.pages.get(seen.path) or self.pages.get(seen.path.partition("?")[0])
            reply = Reply(body=page) if isinstance(page, str) else page or Reply(status=404)
            await _write(writer, reply)
            if reply.stalls:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked has gone
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(
    pages: Mapping[str, Reply | str], *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    site = Site(pages)
    server = await asyncio.start_server(site.connected, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in site.open:
            task.cancel()
        await asyncio.gather(*site.open, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> SiteRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return SiteRequest(method=method, path=path, headers=headers, body=body)


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    length = len(body) * reply.chunks + (1 if reply.stalls else 0)
    headers = {"Content-Length": str(length), "Connection": "close", **reply.headers}
    if reply.type:
        headers["Content-Type"] = reply.type
    lines = [f"HTTP/1.1 {reply.status} x", *(f"{name}: {text}" for name, text in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for _ in range(reply.chunks):
        writer.write(body)
        await writer.drain()
