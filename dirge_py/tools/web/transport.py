"""HTTP requests to checked addresses, with limits on the decompressed size of their bodies.

The HTTP library gets the checked address, never the name, so it does no lookup. Every request has
its own connection: a reused one belongs to an address, and a second name at that address would
be accepted with the certificate of the first one.
"""

import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from itertools import zip_longest
from typing import Any

import httpx

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.url import IPAddress, OutgoingRequest, ParsedUrl
from dirge_py.types.errors import ToolFailed

_MAX_TRIED = 4
_SILENCE_S = 10.0
MAX_RATIO = 100
"""The largest factor by which a compressed body may grow."""
_HARMLESS_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_GZIP_BEGINS = b"\x1f\x8b"
_ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=0)


@dataclass(slots=True)
class GuardedTransport:
    """Sends requests to targets that `reach` allows.

    `proxy` is used for targets outside of the user's own network; proxies of the environment are
    not used. It gets names and looks them up itself. No read takes longer than `_SILENCE_S`; the
    caller limits the total time.
    """

    reach: DnsGuard
    proxy: str | None = field(default=None, repr=False)
    connect_s: float = 5.0
    tls: ssl.SSLContext | None = None
    """The certificates; loaded for the first target that needs them."""

    @asynccontextmanager
    async def send(
        self, target: ParsedUrl, outgoing: OutgoingRequest | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Yield the response with its headers read. Follow no redirects, and keep no cookies."""
        addresses = await self.reach.addresses(target)
        proxy = None if self.reach.is_private(target) else self.proxy
        # A proxy can't get the address: certificates are checked for the name that it gets.
        hosts = [target.host] if proxy else _to_try(addresses)
        needs_tls = target.scheme == "https" or (proxy or "").startswith("https")
        try:
            # The certificates take 30 ms to load, so only https loads them.
            if needs_tls and self.tls is None:
                self.tls = httpx.create_ssl_context()
            # The library's client is not used: it keeps cookies, and parses redirects even when it
            # does not follow them.
            async with httpx.AsyncHTTPTransport(
                verify=self.tls or False, trust_env=False, limits=_ONE_CONNECTION, proxy=proxy
            ) as connection:
                outgoing = outgoing or OutgoingRequest()
                *others, last = [self._request(target, outgoing, host) for host in hosts]
                for each in others:
                    with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                        response = await connection.handle_async_request(each)
                        break
                else:
                    response = await connection.handle_async_request(last)
                try:
                    yield response
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise _failure(target, error, is_proxied=proxy is not None) from error

    def _request(self, target: ParsedUrl, outgoing: OutgoingRequest, host: str) -> httpx.Request:
        """Return a request for `target` sent to `host`: an address, or a name for a proxy."""
        url = httpx.URL(
            scheme=target.scheme, host=host, port=target.port, raw_path=target.path.encode("ascii")
        )
        timeout = httpx.Timeout(_SILENCE_S, connect=self.connect_s)
        extensions: dict[str, Any] = {"timeout": timeout.as_dict()}
        if host != target.host:
            # The name that the certificate must be valid for, and that the server gets.
            extensions["sni_hostname"] = target.host
        return httpx.Request(
            outgoing.method,
            url,
            headers={"Host": target.authority, **outgoing.headers},
            content=outgoing.body or None,
            extensions=extensions,
        )


def _to_try(addresses: Sequence[IPAddress]) -> Sequence[str]:
    """Return a few of `addresses`, alternating families: one of them may not work from here."""
    version = addresses[0].version
    first = [address for address in addresses if address.version == version]
    pairs = zip_longest(first, (address for address in addresses if address.version != version))
    return [str(address) for pair in pairs for address in pair if address][:_MAX_TRIED]


def _failure(target: ParsedUrl, error: Exception, *, is_proxied: bool) -> ToolFailed:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ToolFailed(f"{target.host} has no valid certificate: {cause.verify_message}.")
    if cause is not None:
        return ToolFailed(f"There is no secure connection to {target.host}: {cause}.")
    if isinstance(error, httpx.ProxyError) or (
        is_proxied and isinstance(error, httpx.ConnectError)
    ):
        return ToolFailed(f"The proxy of `[web]` did not reach {target.host}: {error}.")
    if isinstance(error, httpx.TimeoutException):
        return ToolFailed(f"{target.host} did not answer in time.", outcome="timeout")
    if isinstance(error, httpx.ConnectError):
        return ToolFailed(f"There is no connection to {target.authority}: {error}.")
    return ToolFailed(f"The connection to {target.host} broke off: {error or 'no answer'}.")


async def read_body(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return at most `max_bytes` of the decompressed body, and whether that is all."""
    unpacker = Decompressor(response.headers.get("content-encoding", ""))
    body = bytearray()
    async for chunk in response.aiter_raw():
        for piece in unpacker.feed(chunk):
            body += piece[: max_bytes + 1 - len(body)]
            if len(body) > max_bytes:
                return bytes(body[:max_bytes]), False
    return bytes(body), True


class Decompressor:
    """Decompresses gzip or deflate, a piece at a time; rejects other encodings."""

    def __init__(self, encoding: str) -> None:
        kind = encoding.strip().lower().removeprefix("x-")
        if kind not in ("", "identity", "gzip", "deflate"):
            raise ToolFailed(
                f"The answer is compressed as {encoding[:40]!r}, which cannot be read."
            )
        self._kind = kind
        self._stream = zlib.decompressobj(_GZIP if kind == "gzip" else _ZLIB)
        self._is_over = False
        self._bytes_read = 0
        self._bytes_written = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed `chunk`, in pieces of at most 64 KiB."""
        if self._kind in ("", "identity"):
            yield chunk
            return
        while not self._is_over:
            piece, rest = self._step(chunk)
            # Input that is not yet decompressed does not count: it would raise the limit for the
            # output.
            self._bytes_read += len(chunk) - len(rest)
            self._bytes_written += len(piece)
            chunk = rest
            if not piece and not chunk:
                return
            if self._bytes_written > max(_HARMLESS_BYTES, MAX_RATIO * self._bytes_read):
                raise ToolFailed(
                    f"The answer unpacks to more than {MAX_RATIO} times its size; it was not read."
                )
            yield piece

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        """Return (a piece, the remaining input). Both are empty when more input is needed."""
        try:
            piece = self._stream.decompress(packed, _PIECE_BYTES)
        except zlib.error:
            # `deflate` comes with or without a zlib header; the first bytes show which.
            if self._kind != "deflate" or self._bytes_written:
                raise ToolFailed("The answer is compressed, and damaged.") from None
            self._kind = "deflate without a frame"
            self._stream = zlib.decompressobj(_BARE)
            return self._step(packed)
        if not self._stream.eof:
            return piece, self._stream.unconsumed_tail
        more = self._stream.unused_data
        if self._kind == "gzip" and more.startswith(_GZIP_BEGINS):
            self._stream = zlib.decompressobj(_GZIP)
            return piece, more
        self._is_over = True
        return piece, b""


async def request(
    target: ParsedUrl,
    outgoing: OutgoingRequest,
    reach: DnsGuard,
    *,
    proxy: str | None,
    max_bytes: int,
) -> tuple[int, bytes, bool]:
    """Send one request; return status, at most `max_bytes` of the body, and if that is all."""
    async with GuardedTransport(reach, proxy=proxy).send(target, outgoing) as response:
        return response.status_code, *await read_body(response, max_bytes)
