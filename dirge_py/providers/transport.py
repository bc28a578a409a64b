"""POST a request, read the answer as it comes. The only module that knows the HTTP library.

Importing it costs a tenth of a second; `client.py` does so on the first request.

httpx is loaded without its command line: `import httpx` loads that program as well when click is
installed, and with it rich and pygments: 40 ms and 5 MB for every headless run. httpx is prepared
to be without it, so it is told that it is, for the moment of the import only.
"""

import importlib
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from dirge_py.config.services import is_loopback
from dirge_py.providers.http_types import FetchedResponse, TransportError, TransportErrorKind

if TYPE_CHECKING:
    import httpx as httpx
else:

    def _imported() -> Any:
        if "httpx" in sys.modules:
            return sys.modules["httpx"]
        # None in sys.modules makes an import raise ModuleNotFoundError.
        sys.modules["httpx._main"] = None
        try:
            return importlib.import_module("httpx")
        finally:
            del sys.modules["httpx._main"]

    httpx = _imported()

Route = Literal["tls", "plain", "loopback"]

# Enough for sixteen children streaming at once and their parents; idle ones go after two minutes,
# before the usual five-minute cut of load balancers makes the next request fail.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=120)


class HttpxResponse:
    """An `Answer` from the network."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, in the pieces it arrives in.

        Raises:
            TransportError: it broke off, or is compressed in a way we do not read.
        """
        # Each layer may multiply the size by a thousand: nobody needs two.
        if "," in self.headers.get("content-encoding", ""):
            raise TransportError("unusable", "the answer is compressed more than once")
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except (httpx.HTTPError, OSError) as error:
            raise as_transport_error(error) from error

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else cut it."""
        await self._response.aclose()


class HttpxTransport:
    """Connections, kept and shared, by the way they go.

    Loopback goes past every proxy: a proxy's loopback is another machine. No client has a read
    timeout; whoever reads has its own clock.
    """

    def __init__(self) -> None:
        self._clients: dict[Route, httpx.AsyncClient] = {}

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, connect_s: float
    ) -> HttpxResponse:
        """Send `body` and return when the head of the answer is here.

        Raises:
            TransportError: there is no connection, or none that lasts.
        """
        try:
            client = self._client(url)
            request = client.build_request(
                "POST",
                url,
                headers=dict(headers),
                content=body,
                timeout=httpx.Timeout(None, connect=connect_s),
            )
            return HttpxResponse(await client.send(request, stream=True))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
            raise as_transport_error(error) from error

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
    ) -> FetchedResponse:
        """The whole answer to one request; the caller has the clock.

        Raises:
            TransportError: there is no connection, it broke, or the answer is too long.
        """
        try:
            client = self._client(url)
            request = client.build_request(
                method, url, headers=dict(headers), content=body, timeout=None
            )
            answer = HttpxResponse(await client.send(request, stream=True))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
            raise as_transport_error(error) from error
        try:
            parts, size = [], 0
            async for chunk in answer.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > max_bytes:
                    raise TransportError("unusable", f"longer than {max_bytes} bytes")
        finally:
            await answer.aclose()
        return FetchedResponse(status=answer.status, headers=answer.headers, body=b"".join(parts))

    async def aclose(self) -> None:
        """Cut every connection."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _client(self, url: str) -> httpx.AsyncClient:
        way = _route(url)
        if way not in self._clients:
            # The certificates take 30 ms to load, so only https pays for them; what is built
            # without them is only ever given http URLs (`_route`): there is nothing to verify.
            verify = httpx.create_ssl_context() if way == "tls" else False
            self._clients[way] = httpx.AsyncClient(
                verify=verify, trust_env=way != "loopback", limits=_LIMITS, follow_redirects=False
            )
        return self._clients[way]


def _route(url: str) -> Route:
    parts = urlsplit(url)
    if parts.scheme.lower() != "http":
        return "tls"
    return "loopback" if is_loopback(parts.hostname or "") else "plain"


def as_transport_error(error: BaseException) -> TransportError:
    """What `error` means for the person at the other end of the cable."""
    causes = list(_causes(error))
    # Some say nothing, and the system does.
    said = (each.strerror for each in causes if isinstance(each, OSError) and each.strerror)
    detail = str(error) or next(said, type(error).__name__)
    for kind, trouble in _ERROR_KINDS:
        found = next((cause for cause in causes if isinstance(cause, kind)), None)
        if found is not None:
            return TransportError(trouble, str(found) or detail)
    return TransportError("dropped", detail)


_ERROR_KINDS: tuple[tuple[type[BaseException], TransportErrorKind], ...] = (
    (ssl.SSLError, "tls"),
    (socket.gaierror, "unknown_host"),
    (ConnectionRefusedError, "refused"),
    (httpx.ProxyError, "proxy"),
    (httpx.TimeoutException, "timeout"),
    (httpx.UnsupportedProtocol, "unusable"),
    (httpx.InvalidURL, "unusable"),
    (httpx.LocalProtocolError, "unusable"),
    (ImportError, "unusable"),
    (ValueError, "unusable"),
    (httpx.ConnectError, "refused"),
)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and everything behind it, also what several connection attempts died of."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
