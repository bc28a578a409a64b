"""The HTTP proxy through which a sandbox without network reaches the listed hosts, and no others.

It runs outside, in its own thread, and listens on a Unix socket that is visible inside.
"""

import asyncio
import ipaddress
import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.temporary_folder import TemporaryFolder

_LABEL = late_pattern(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = late_pattern(r"[0-9]+|0x[0-9a-f]*")
_WEB_PORTS = frozenset((80, 443))
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostRefused(Exception):
    """A host, port or address that may not be reached; the message says which."""


class HostList:
    """A list of hosts: `example.org`, `*.example.org` for all hosts below it, or an address.

    They are allowed at ports 80 and 443, or at a listed port: `example.org:8443`.
    """

    def __init__(self, listed: Iterable[str]) -> None:
        """Raises `ValueError` if one of them is invalid."""
        self._entries = [_entry(each) for each in listed]
        self._addresses = {name for name, _port in self._entries}

    def check_host(self, host: str, port: int) -> str:
        """Return the host in the form for its lookup. Raises HostRefused if it is not listed."""
        try:
            name = normalize_host(host)
        except ValueError:
            raise HostRefused(f"{host[:80]!r} is not a host") from None
        for listed, listed_port in self._entries:
            is_below = listed.startswith("*.") and name.endswith(listed[1:])
            is_port = port in ((listed_port,) if listed_port else _WEB_PORTS)
            if is_port and (name == listed or is_below):
                return name
        raise HostRefused(f"{name}:{port} is not listed in `[sandbox] hosts`")

    def check_address(self, text: str) -> None:
        """Raise HostRefused for an address in a network of the user that is not listed."""
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_global_address(address) and str(address) not in self._addresses:
            raise HostRefused(f"{address} is in a network of your own and not listed")


def normalize_host(host: str) -> str:
    """Return the host in lower-case ASCII; addresses in their usual form. Raises ValueError."""
    host = host.strip("[]") if host.startswith("[") else host
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    name = host.removesuffix(".")
    if not name.isascii():
        name = name.encode("idna").decode("ascii")
    labels = name.lower().split(".")
    if not all(_LABEL.fullmatch(label) for label in labels) or len(name) > 253:
        raise ValueError(host)
    # The system's resolver reads a name that ends in a number as an address.
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(host)
    return ".".join(labels)


def is_global_address(address: Address) -> bool:
    """Whether the address is public, also if it contains another address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_global_address(inner)
    return address.is_global and not address.is_multicast


def _entry(listed: str) -> tuple[str, int]:
    host, port = listed.strip(), 0
    name, colon, digits = host.rpartition(":")
    if colon and digits.isdecimal() and (":" not in name or name.endswith("]")):
        host, port = name, int(digits)
    below = "*." if host.startswith("*.") else ""
    return below + normalize_host(host.removeprefix("*.")), port


_HEAD_BYTES = 64 * 1024
_HEAD_LIMIT_S = 15.0
_CONNECT_LIMIT_S = 15.0
_CHUNK_BYTES = 64 * 1024
_AT_ONCE = 128
_START_LIMIT_S = 5.0
_OF_ONE_HOP = frozenset(
    (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"host", b"upgrade")
)


class HostProxy:
    """A running proxy. `folder` contains only its socket, `path`. Close it at the end."""

    def __init__(self, hosts: HostList) -> None:
        """Raises `OSError` if it cannot be started."""
        self._hosts = hosts
        self._temporary = TemporaryFolder("proxy")
        self.folder = self._temporary.path
        self.path = os.path.join(self.folder, "socket")
        self._loop = asyncio.new_event_loop()
        self._free = asyncio.Semaphore(_AT_ONCE)
        run = self._loop.run_forever
        self._thread = threading.Thread(target=run, name="sandbox proxy", daemon=True)
        self._thread.start()
        listening = asyncio.start_unix_server(self._serve, self.path, limit=_HEAD_BYTES)
        serving = asyncio.run_coroutine_threadsafe(listening, self._loop)
        try:
            self._server = serving.result(_START_LIMIT_S)
        except Exception:
            self._stop()
            raise

    def close(self) -> None:
        """End every connection."""
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_START_LIMIT_S)
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_LIMIT_S)
        if not self._loop.is_running():
            self._loop.close()
        self._temporary.remove()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._free:
                await self._answer(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # one side closed the connection
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_LIMIT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            host, port, first = _parse_request(head)
            there_reader, there_writer = await self._connect(host, port)
        except HostRefused as refused:
            return await _respond(writer, 403, str(refused))
        except (OSError, UnicodeError) as error:
            return await _respond(writer, 502, str(error) or "there was no answer in time")
        try:
            if first:
                there_writer.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        finally:
            there_writer.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a checked address, without looking the name up again."""
        name = self._hosts.check_host(host, port)
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            infos = await self._loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
            for address in addresses:
                self._hosts.check_address(address)
            problem = OSError(f"{name} has no address")
            for address in addresses:
                try:
                    return await asyncio.open_connection(address, port, limit=_HEAD_BYTES)
                except OSError as error:
                    problem = error
            raise problem


def _parse_request(head: bytes) -> tuple[str, int, bytes]:
    """Return host, port, and data to forward, empty for CONNECT. Raises HostRefused."""
    line, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise HostRefused("this is not a proxy request") from None
    if method == "CONNECT" and host and port and not parts.path:
        return host, port, b""
    if parts.scheme != "http" or not host or not version.startswith("HTTP/1."):
        raise HostRefused("only http:// and CONNECT are passed on")
    kept = [each for each in headers if each.partition(b":")[0].strip().lower() not in _OF_ONE_HOP]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    first = f"{method} {path} {version}\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n".encode()
    return host, port or 80, first + b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _respond(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = f"dirge's sandbox: {text}.\n".encode()
    reason = {403: "Forbidden", 502: "Bad Gateway"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
