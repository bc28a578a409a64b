"""The HTTP client of a process: requests, streamed responses, and errors with their kind.

This is the only module that uses httpx, and loads it with the first request: the import takes a
tenth of a second.
"""

import asyncio
import importlib
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from dirge_py.config.services import is_loopback
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ProviderError

if TYPE_CHECKING:
    import httpx

TransportErrorKind = Literal[
    "refused", "unknown_host", "tls", "timeout", "proxy", "dropped", "unusable"
]
MAX_BODY_BYTES = 32 * 1024 * 1024
# Most lingering streams end within a millisecond; cancelling one in the middle of giving back its
# connection could leave the socket open.
_LINGER_S = 0.05
_LIST_HEADERS = frozenset({"anthropic-beta"})
"""Headers to which each layer adds; of all others the last layer counts."""


class TransportError(Exception):
    """The request did not arrive, or its response broke off; `kind` says in what way."""

    def __init__(self, kind: TransportErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind: TransportErrorKind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request."""

    method: str
    """The HTTP method."""
    url: str
    """The whole address."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers, with the key."""
    body: bytes | None = field(default=None, repr=False)
    """The body; None for none."""


class HttpResponse(Protocol):
    """A response whose head has arrived and whose body is still arriving. Always close it."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, in the pieces it arrives in.

        Raises:
            TransportError: it broke off, or is compressed in a way that is not supported.
        """
        ...

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedResponse:
    """A whole response."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """The headers; names are in lower case, or found in any case."""
    body: bytes
    """The body, decompressed."""


def bearer_header(key: str | None) -> Mapping[str, str]:
    """The key as most services take it; no header without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def request_headers(*layers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of all layers; later layers win, in whatever case names are written.

    Raises:
        ProviderError: a value holds a character that HTTP cannot carry.
    """
    headers = {"user-agent": "dirge"}
    for layer in layers:
        for written, value in layer.items():
            name = written.lower()
            before = headers.get(name) if name in _LIST_HEADERS else None
            headers[name] = f"{before},{value}" if before else value
    for name, value in headers.items():
        # httpx would complain as well, but quote the value.
        if not (value.isascii() and value.isprintable()):
            raise ProviderError(
                f"The header `{name}` holds a character that HTTP cannot carry.",
                kind="invalid_request",
                hint="Was the API key copied whole, without a line break?",
            )
    return headers


class HttpClient:
    """The HTTP client of a process. It costs nothing until the first request; close it at the end.

    Connections are kept and shared. Those to loopback go past every proxy, because a proxy's
    loopback is another machine. There is no read timeout: the callers have their own. The client
    also keeps finished streams for a moment (`linger`), so that their connections can be reused.
    """

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._lingering: set[asyncio.Task[None]] = set()

    def of(self, settings: ProviderSettings, wire: str) -> "HttpClient":
        """The client for one configured service, which speaks `wire`."""
        return self

    async def post(
        self, request: HttpRequest, *, connect_s: float, is_late: Callable[[], bool]
    ) -> HttpResponse:
        """Send `request` and return when the head of the response has arrived.

        `is_late` tells a recording whether a response is given up because time ran out.

        Raises:
            TransportError: there is no connection, or it broke.
        """
        return await self._send(request, _httpx().Timeout(None, connect=connect_s))

    async def fetch(
        self, request: HttpRequest, *, timeout_s: float, max_bytes: int = MAX_BODY_BYTES
    ) -> FetchedResponse:
        """The whole response to `request`.

        Raises:
            TransportError: there is no connection, it broke, or the body exceeds `max_bytes`.
            TimeoutError: it took longer than `timeout_s`.
        """
        async with asyncio.timeout(timeout_s):
            response = await self._send(request, None)
            try:
                parts, size = [], 0
                async for chunk in response.chunks():
                    parts.append(chunk)
                    size += len(chunk)
                    if size > max_bytes:
                        raise TransportError("unusable", f"longer than {max_bytes} bytes")
            finally:
                await response.aclose()
        whole = b"".join(parts)
        return FetchedResponse(status=response.status, headers=response.headers, body=whole)

    async def warm_up(self) -> None:
        """Load the HTTP library in a thread, for callers that expect a request soon."""
        await asyncio.to_thread(_httpx)

    def linger(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task that will soon end."""
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def aclose(self) -> None:
        """Close every connection and wait until they are closed."""
        await self._wait_for_lingering(_LINGER_S)
        for task in self._lingering:
            task.cancel()
        await self._wait_for_lingering(1.0)
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()
        if clients:
            # The event loop closes sockets one round later.
            await asyncio.sleep(0)

    async def _wait_for_lingering(self, seconds: float) -> None:
        if self._lingering:
            await asyncio.wait(set(self._lingering), timeout=seconds)

    async def _send(self, request: HttpRequest, timeout: Any) -> "_HttpxResponse":
        httpx = _httpx()
        try:
            client = self._httpx_client(request.url)
            built = client.build_request(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body,
                timeout=timeout,
            )
            return _HttpxResponse(await client.send(built, stream=True))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
            raise _transport_error(error) from error

    def _httpx_client(self, url: str) -> "httpx.AsyncClient":
        httpx, parts = _httpx(), urlsplit(url)
        route = "tls"
        if parts.scheme.lower() == "http":
            route = "loopback" if is_loopback(parts.hostname or "") else "plain"
        if route not in self._clients:
            self._clients[route] = httpx.AsyncClient(
                # The certificates take 30 ms to load, so only https pays for them. A client
                # without them is only used for http URLs, where there is nothing to verify.
                verify=httpx.create_ssl_context() if route == "tls" else False,
                trust_env=route != "loopback",
                # Enough for sixteen sub-agents that stream at once, and their parents; idle
                # connections close before the usual five-minute limit of load balancers.
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=32, keepalive_expiry=120
                ),
                follow_redirects=False,
            )
        return self._clients[route]


class _HttpxResponse:
    """An `HttpResponse` from the network."""

    def __init__(self, response: "httpx.Response") -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        # Each layer may multiply the size by a thousand, and no service needs two.
        if "," in self.headers.get("content-encoding", ""):
            raise TransportError("unusable", "the answer is compressed more than once")
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except (_httpx().HTTPError, OSError) as error:
            raise _transport_error(error) from error

    async def aclose(self) -> None:
        await self._response.aclose()


@cache
def _httpx() -> Any:
    """The module `httpx`, loaded without its command line.

    `import httpx` loads that program as well where click is installed, and with it rich and
    pygments: 40 ms and 5 MB. httpx works without it, so the import is made to fail.
    """
    if "httpx" in sys.modules:
        return sys.modules["httpx"]
    # None in sys.modules makes an import raise ModuleNotFoundError.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("httpx")
    finally:
        del sys.modules["httpx._main"]


def _transport_error(error: BaseException) -> TransportError:
    """`error` as a `TransportError`, with the kind and the words of its most telling cause."""
    httpx = _httpx()
    kinds: tuple[tuple[type[BaseException], TransportErrorKind], ...] = (
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
    causes = list(_causes(error))
    # Some exceptions have no text, and the operating system's error behind them has.
    texts = (cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror)
    detail = str(error) or next(texts, type(error).__name__)
    for exception_type, kind in kinds:
        cause_of_kind = next((cause for cause in causes if isinstance(cause, exception_type)), None)
        if cause_of_kind is not None:
            return TransportError(kind, str(cause_of_kind) or detail)
    return TransportError("dropped", detail)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and everything behind it, also the errors of several connection attempts."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        pending += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            pending += cause.exceptions
