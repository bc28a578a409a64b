"""HTTP to model services: the client of a process, whole responses, and streamed answers.

Only this module uses httpx, loaded with the first request, as the import takes a tenth of a second.
A task reads a streamed answer and queues its events, so that a slow reader never looks like a
silent service. An abort cancels the task, which closes the connection.
"""

import asyncio
import contextlib
import importlib
import json
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from dirge_py.config.services import is_local
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import errors
from dirge_py.providers.settings import ProviderSettings, StreamTimeouts
from dirge_py.providers.stream_parser import (
    EventTooLong,
    NdjsonDecoder,
    ServerEvent,
    ServiceError,
    SseDecoder,
    StreamParser,
    join_deltas,
)
from dirge_py.types.abort import AbortSignal, call_in_loop
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import StreamError, StreamEvent

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
    """The request did not arrive, or its response broke off; `kind` says why."""

    def __init__(self, kind: TransportErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind: TransportErrorKind = kind


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
    is_whole: bool = False
    """Whether the response is not streamed, which recordings note."""


class HttpResponse(Protocol):
    """A response whose body is still arriving. Always close it."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, in the pieces it arrives in. Raises TransportError."""

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedResponse:
    """A whole response."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """The headers; look names up in lower case."""
    body: bytes
    """The body, decompressed."""


def bearer_header(key: str | None) -> Mapping[str, str]:
    """The key as most services take it; no header without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def request_headers(*layers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of all layers; later ones win, in any case. Raises ProviderError: odd values."""
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

    Connections are kept and shared. Those to loopback bypass every proxy, because a proxy's
    loopback is another machine. Callers have their own read timeouts. Finished streams are kept for
    a moment (`linger`), so that their connections can be reused.
    """

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._lingering: set[asyncio.Task[None]] = set()

    def of(self, settings: ProviderSettings) -> "HttpClient":
        """The client for one configured service."""
        return self

    async def send(
        self, request: HttpRequest, *, connect_s: float | None, is_late: Callable[[], bool]
    ) -> HttpResponse:
        """Send `request`, return once the head of the response is here. Raises TransportError.

        Recordings need to know whether the time is up (`is_late`) when the response is given up.
        """
        httpx = _httpx()
        try:
            client = self._httpx_client(request.url)
            built = client.build_request(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body,
                timeout=httpx.Timeout(None, connect=connect_s),
            )
            return _HttpxResponse(await client.send(built, stream=True))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as error:
            raise _transport_error(error) from error

    async def fetch(
        self, request: HttpRequest, *, timeout_s: float, max_bytes: int = MAX_BODY_BYTES
    ) -> FetchedResponse:
        """The whole response. Raises TimeoutError, and TransportError, also above `max_bytes`."""
        request = replace(request, is_whole=True)
        async with asyncio.timeout(timeout_s) as limit:
            got = await self.send(request, connect_s=None, is_late=limit.expired)
            async with contextlib.aclosing(got):
                body = bytearray()
                await _collect(got.chunks(), body, max_bytes + 1)
        if len(body) > max_bytes:
            raise TransportError("unusable", f"longer than {max_bytes} bytes")
        return FetchedResponse(status=got.status, headers=got.headers, body=bytes(body))

    async def warm_up(self) -> None:
        """Load the HTTP library in a thread, for callers that expect a request soon."""
        await asyncio.to_thread(_httpx)

    def linger(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task that will soon end."""
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def aclose(self) -> None:
        """Close every connection and wait until they are closed."""
        for timeout_s in (_LINGER_S, 1.0):
            if self._lingering:
                await asyncio.wait(set(self._lingering), timeout=timeout_s)
            for task in self._lingering:
                task.cancel()
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()
        if clients:
            # The event loop closes sockets one round later.
            await asyncio.sleep(0)

    def _httpx_client(self, url: str) -> "httpx.AsyncClient":
        httpx, route = _httpx(), "tls"
        if urlsplit(url).scheme == "http":
            route = "loopback" if is_local(url) else "plain"
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
    """The module `httpx` without its command line, which loads rich and pygments (40 ms, 5 MB)."""
    try:
        importlib.import_module("sniffio")
    except ImportError:
        # httpcore tries this for each request, which searches the whole path each time.
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    if "httpx" in sys.modules:
        return sys.modules["httpx"]
    # None in sys.modules makes an import raise ModuleNotFoundError.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("httpx")
    finally:
        del sys.modules["httpx._main"]


def _transport_error(error: BaseException) -> TransportError:
    """`error` as a `TransportError`, with the kind and text of its most specific cause."""
    httpx = _httpx()
    kinds: tuple[tuple[Any, TransportErrorKind], ...] = (
        (ssl.SSLError, "tls"),
        (socket.gaierror, "unknown_host"),
        (ConnectionRefusedError, "refused"),
        (httpx.ProxyError, "proxy"),
        (httpx.TimeoutException, "timeout"),
        ((httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError), "unusable"),
        ((ImportError, ValueError), "unusable"),
        (httpx.ConnectError, "refused"),
    )
    causes = _causes(error)
    # Some exceptions have no text, and the operating system's error behind them has.
    texts = (cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror)
    detail = str(error) or next(texts, type(error).__name__)
    for exception_type, kind in kinds:
        cause_of_kind = next((cause for cause in causes if isinstance(cause, exception_type)), None)
        if cause_of_kind is not None:
            return TransportError(kind, str(cause_of_kind) or detail)
    return TransportError("dropped", detail)


def _causes(error: BaseException) -> Sequence[BaseException]:
    """`error` and everything that caused it, also the errors of several connection attempts."""
    causes, pending = list[BaseException](), [error]
    while pending:
        cause = pending.pop()
        if cause not in causes:
            causes.append(cause)
            pending += filter(None, (cause.__cause__, cause.__context__))
            pending += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
    return causes


_MAX_ERROR_BODY_BYTES = 64 * 1024
_ERROR_BODY_S = 5.0
_EVENTS_AHEAD = 8192
# The limits after the end of an answer, for a service that keeps the connection open.
_SETTLE_S = 5.0
_DRAIN_S = 1.0
_BLANK = b" \t\r\n\xef\xbb\xbf"
# `json.loads` without its check for blanks, which is a third of the cost of a small event.
_read_json = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """A request, and how its answer is read."""

    endpoint: errors.Endpoint
    """The address of the service."""
    http: HttpRequest
    """The request."""
    timeouts: StreamTimeouts
    """How long each silence may last."""
    decoder: type[NdjsonDecoder] = SseDecoder
    """Separates the events of the answer."""
    total_s: float | None = None
    """The limit for the whole answer; None for none."""


async def stream_response(
    http: HttpClient, request: StreamRequest, parser: StreamParser, signal: AbortSignal
) -> AsyncIterator[StreamEvent]:
    """The events of one answer; the last is a `StreamDone` or a `StreamError`. Never raises."""
    if signal.aborted:
        yield StreamError(errors.aborted_error("establish"))
        return
    call = _StreamingCall(http, request, parser)
    task = asyncio.create_task(call.run())

    def cut() -> None:
        # Once only: a second cancellation would interrupt the closing of the connection.
        if not task.cancelling():
            task.cancel()
        call.wake()

    forget = signal.on_abort(partial(call_in_loop, asyncio.get_running_loop(), cut))
    try:
        while not call.is_over:
            for event in await call.next_batch():
                if signal.aborted:
                    break
                yield event
            if signal.aborted:
                yield StreamError(errors.aborted_error())
                return
    finally:
        forget()
        if parser.is_done:
            http.linger(task)
        else:
            cut()
            # The task closes the connection when it ends.
            await asyncio.wait({task}, timeout=0.05)


class _StreamingCall:
    """One answer: `run` is the task's side, everything else public the generator's side."""

    def __init__(self, http: HttpClient, request: StreamRequest, parser: StreamParser) -> None:
        self._http = http
        self._request = request
        self._endpoint = request.endpoint
        self._parser = parser
        self._queue: list[StreamEvent] = []
        self._has_news = asyncio.Event()
        self._was_read = asyncio.Event()
        self._time_out = asyncio.timeout(None)
        self._now = asyncio.get_running_loop().time
        self._deadline = None if request.total_s is None else self._now() + request.total_s
        self._has_begun = False
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether `next_batch` has returned the last batch."""
        return self._is_closed and not self._queue

    def wake(self) -> None:
        """Make a waiting `next_batch` return, without events if there are none."""
        self._has_news.set()

    async def next_batch(self) -> Sequence[StreamEvent]:
        """The events that have arrived since the last batch, neighboring deltas joined."""
        await self._has_news.wait()
        self._has_news.clear()
        self._was_read.set()
        batch, self._queue = self._queue, []
        return join_deltas(batch)

    async def run(self) -> None:
        """Make the request and queue its events; errors become events."""
        last: Sequence[StreamEvent] = [StreamError(errors.aborted_error())]
        try:
            async with self._time_out:
                self._allow(self._request.timeouts.establish_s)
                last = await self._post_and_read()
        except TimeoutError:
            last = self._finish_if_settled() or [StreamError(self._timeout_error())]
        except Exception as error:
            last = self._finish_if_settled() or [StreamError(self._as_provider_error(error))]
        finally:
            self._close(last)

    async def _post_and_read(self) -> Sequence[StreamEvent]:
        """Queue all events but the last ones, which are returned."""
        connect_s = self._request.timeouts.connect_s
        answer = await self._http.send(
            self._request.http, connect_s=connect_s, is_late=self._time_out.expired
        )
        async with contextlib.aclosing(answer), contextlib.aclosing(answer.chunks()) as chunks:
            if answer.status == 200:
                return await self._read(chunks)
            # The status says the most, so an incomplete body will do.
            body = bytearray()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_ERROR_BODY_S):
                    await _collect(chunks, body, _MAX_ERROR_BODY_BYTES)
            text = body.decode(errors="replace")
            raise errors.status_error(self._endpoint, answer.status, answer.headers, text)

    async def _read(self, chunks: AsyncIterator[bytes]) -> Sequence[StreamEvent]:
        head = b""
        async for chunk in chunks:
            head += chunk
            if head.strip(_BLANK):
                break
        self._has_begun = bool(head)
        decoder = self._request.decoder()
        if head.lstrip(_BLANK)[:1] in decoder.no_stream:
            body = bytearray(head)
            await _collect(chunks, body, MAX_BODY_BYTES)
            return self._parse_whole(bytes(body[:MAX_BODY_BYTES]))
        await self._parse_events(decoder.feed(head))
        async for chunk in chunks:
            # After the last event only the body's end follows; reading it frees the connection.
            if not self._is_closed:
                await self._parse_events(decoder.feed(chunk))
        if self._is_closed:
            return ()
        # The rest may be half an event; the error is that the stream broke off.
        with contextlib.suppress(ProviderError):
            await self._parse_events(decoder.close())
        return self._finish_if_settled() or [StreamError(self._cut_short(head))]

    async def _parse_events(self, events: Sequence[ServerEvent]) -> None:
        batch: list[StreamEvent] = []
        try:
            for name, text in events:
                batch += self._parse_event(name, text)
        finally:
            # Also before an error: earlier events are shown first.
            self._put(batch)
        if self._parser.is_done:
            self._close(())
        elif len(self._queue) > _EVENTS_AHEAD:
            # The reader is slower than the service.
            self._time_out.reschedule(self._deadline)
            self._was_read.clear()
            await self._was_read.wait()
        self._allow(self._max_silence_s())

    def _parse_event(self, name: str, text: str) -> Sequence[StreamEvent]:
        if text == "[DONE]":
            return self._parser.finish()
        try:
            payload, _ = _read_json(text)
        except (ValueError, RecursionError):
            payload = None
        if not isinstance(payload, dict):
            why = "an event holds no JSON object"
            raise errors.unreadable_error(self._endpoint, why, text[:500], self._phase)
        return self._parser.event(name, payload)

    def _parse_whole(self, body: bytes) -> Sequence[StreamEvent]:
        text = body.decode("utf-8-sig", errors="replace")
        if text.lstrip().startswith("<"):
            raise errors.web_page_error(self._endpoint, text)
        payload, events = json.loads(text), list[StreamEvent]()
        if isinstance(payload, list) and payload:
            # Gemini's stream, if a proxy drops the query that asks for server-sent events.
            *pieces, payload = payload
            for piece in pieces:
                events += self._parser.event("", piece)
        if not isinstance(payload, dict):
            raise TypeError("it is JSON, but no object")
        return [*events, *self._parser.whole(payload), *self._parser.finish()]

    def _put(self, events: Sequence[StreamEvent]) -> None:
        self._queue += events
        self._has_news.set()

    def _close(self, last: Sequence[StreamEvent]) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._put(last)

    def _finish_if_settled(self) -> Sequence[StreamEvent]:
        return self._parser.finish() if self._parser.is_settled else ()

    def _allow(self, seconds: float) -> None:
        """Allow a silence of `seconds` from now on, within the limit for the whole answer.

        It may last 1 % longer: a new timer for each piece would cost more than reading the piece.
        """
        soonest, latest = self._now() + seconds, self._now() + 1.01 * seconds
        if self._deadline is not None:
            soonest, latest = min(soonest, self._deadline), min(latest, self._deadline)
        if not soonest <= (self._time_out.when() or 0.0) <= latest:
            self._time_out.reschedule(latest)

    def _max_silence_s(self) -> float:
        limits = self._request.timeouts
        if self._is_closed:
            return _DRAIN_S
        if self._parser.is_settled:
            return _SETTLE_S
        if self._parser.call_is_open:
            return min(limits.tool_call_gap_s, limits.chunk_s)
        return limits.chunk_s

    def _timeout_error(self) -> ProviderError:
        limits = self._request.timeouts
        if self._deadline is not None and self._now() >= self._deadline:
            what = f"the whole answer took more than {self._request.total_s:g} s"
        elif not self._has_begun:
            what = f"establishing the stream took more than {limits.establish_s:g} s"
        elif self._parser.call_is_open:
            what = f"a tool call was half-written for {self._max_silence_s():g} s"
        else:
            what = f"nothing came for {self._max_silence_s():g} s"
        return errors.timeout_error(self._endpoint, what, self._phase)

    @property
    def _phase(self) -> errors.Phase:
        return "stream" if self._parser.has_content else "establish"

    def _as_provider_error(self, error: Exception) -> ProviderError:
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, ServiceError):
            return errors.body_error(self._endpoint, error.body, self._phase)
        if isinstance(error, TransportError):
            return errors.connection_error(self._endpoint, error.kind, str(error), self._phase)
        why = "an event does not end" if isinstance(error, EventTooLong) else str(error)
        return errors.unreadable_error(self._endpoint, why, repr(error), self._phase)

    def _cut_short(self, head: bytes) -> ProviderError:
        if self._parser.has_content:
            why = "the answer stops in the middle"
            return errors.connection_error(self._endpoint, "dropped", why, "stream")
        raw = head[:500].decode(errors="replace")
        why = "it holds no event" if head else "it is empty"
        return errors.unreadable_error(self._endpoint, why, raw, "establish")


async def _collect(chunks: AsyncIterator[bytes], body: bytearray, limit: int) -> None:
    """Append `chunks` to `body` until it holds `limit` bytes."""
    async for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            break
