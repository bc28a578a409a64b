"""One request to an address that was judged, with the name it was judged under.

The HTTP library is given the address, never the name, so it has nothing to look up. Every request
has a connection of its own: a kept one belongs to an address, and a second name at that address
would be answered on the strength of the first one's certificate.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from itertools import zip_longest
from typing import Any

import httpx

from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.url import IPAddress, OutgoingRequest, ParsedUrl
from dirge_py.types.errors import ToolFailed

_MAX_TRIED = 4
_SILENCE_S = 10.0
_ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=0)


class GuardedTransport:
    """Sends requests to what `reach` lets through.

    `proxy` is for what is not on the person's own network; proxies of the environment are not
    used. It is told names, looks them up itself, and so decides which addresses they lead to.
    No read takes longer than `_SILENCE_S`; whoever sends has its own clock for the whole.
    """

    def __init__(
        self,
        reach: DnsGuard,
        *,
        proxy: str | None = None,
        connect_s: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.reach = reach
        self._proxy = proxy
        self._timeout = httpx.Timeout(_SILENCE_S, connect=connect_s)
        self._given_tls = tls

    @asynccontextmanager
    async def send(
        self, target: ParsedUrl, outgoing: OutgoingRequest | None = None
    ) -> AsyncIterator[httpx.Response]:
        """The response, its head read and its body not, closed at the end of the block.

        Redirects are not followed, no cookie is kept.

        Raises:
            ToolFailed: the target may not be reached, cannot be, or the way to it broke.
        """
        addresses = await self.reach.addresses(target)
        proxy = None if self.reach.is_private(target) else self._proxy
        # A proxy knows names, and looks them up itself; certificates are checked for what it is
        # told, so it cannot be told the address.
        hosts = [target.host] if proxy else _to_try(addresses)
        try:
            async with self._connection(target, proxy) as connection:
                response = await self._first(
                    connection, target, outgoing or OutgoingRequest(), hosts
                )
                try:
                    yield response
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise _failure(target, error, is_proxied=proxy is not None) from error

    async def _first(
        self,
        connection: httpx.AsyncHTTPTransport,
        target: ParsedUrl,
        outgoing: OutgoingRequest,
        hosts: Sequence[str],
    ) -> httpx.Response:
        """The response from the first of `hosts` that can be connected to."""
        *others, last = hosts
        for host in others:
            try:
                return await connection.handle_async_request(self._request(target, outgoing, host))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await connection.handle_async_request(self._request(target, outgoing, last))

    def _request(self, target: ParsedUrl, outgoing: OutgoingRequest, host: str) -> httpx.Request:
        """A request for `target` that is sent to `host`: an address, or the name for a proxy."""
        url = httpx.URL(
            scheme=target.scheme, host=host, port=target.port, raw_path=target.path.encode("ascii")
        )
        extensions: dict[str, Any] = {"timeout": self._timeout.as_dict()}
        if host != target.host:
            # What the certificate must be for, and which one the server is asked to show.
            extensions["sni_hostname"] = target.host
        return httpx.Request(
            outgoing.method,
            url,
            headers={"Host": target.authority, **outgoing.headers},
            content=outgoing.body or None,
            extensions=extensions,
        )

    def _connection(self, target: ParsedUrl, proxy: str | None) -> httpx.AsyncHTTPTransport:
        # The library's client is left out: it keeps cookies, and reads where redirects lead even
        # when it does not follow them. The certificates take 30 ms to load, so only https pays.
        needs_tls = target.scheme == "https" or (proxy or "").startswith("https")
        return httpx.AsyncHTTPTransport(
            verify=self._tls if needs_tls else False,
            trust_env=False,
            limits=_ONE_CONNECTION,
            proxy=proxy,
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx.create_ssl_context()


def _to_try(addresses: Sequence[IPAddress]) -> Sequence[str]:
    """A few of `addresses`, both families in turn: one of them may lead nowhere from here."""
    first = [address for address in addresses if address.version == addresses[0].version]
    others = [address for address in addresses if address.version != addresses[0].version]
    pairs = zip_longest(first, others)
    return [str(address) for pair in pairs for address in pair if address][:_MAX_TRIED]


def _failure(target: ParsedUrl, error: Exception, *, is_proxied: bool) -> ToolFailed:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ToolFailed(f"{target.host} shows no valid certificate: {cause.verify_message}.")
    if cause is not None:
        return ToolFailed(f"There is no secure connection to {target.host}: {cause}.")
    if isinstance(error, httpx.ProxyError) or (
        is_proxied and isinstance(error, httpx.ConnectError)
    ):
        return ToolFailed(f"The proxy of `[web]` did not lead to {target.host}: {error}.")
    if isinstance(error, httpx.TimeoutException):
        return ToolFailed(f"{target.host} did not answer in time.", outcome="timeout")
    if isinstance(error, httpx.ConnectError):
        return ToolFailed(f"There is no connection to {target.authority}: {error}.")
    return ToolFailed(f"The connection to {target.host} broke off: {error or 'no answer'}.")
