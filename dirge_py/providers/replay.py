"""A model service that answers from a recording: for bug reports and tests, without a network.

Every model call gets the next recorded exchange through the adapter of the recorded wire format:
the same status, headers and pieces, and the same end. There are no pauses, but an answer that
stopped arriving stops again, until the call is given up.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, NoReturn, cast, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import registry
from dirge_py.providers.client import (
    HttpClient,
    HttpRequest,
    HttpResponse,
    TransportError,
    TransportErrorKind,
)
from dirge_py.providers.recording import VERSION
from dirge_py.providers.registry import Provider
from dirge_py.providers.settings import ProviderSettings, Quirks
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    closing,
)

COMPLETE, CLOSED, TIMED_OUT, CUT = "complete", "closed", "timed out", "cut"
"""How an exchange ended, besides connection errors. `cut`: the recording ends before it."""
_ENDS = frozenset({COMPLETE, CLOSED, TIMED_OUT, *get_args(TransportErrorKind)})


@dataclass(slots=True, kw_only=True, eq=False)
class RecordedExchange:
    """One recorded request and its response, which is an `HttpResponse`."""

    method: str
    """The HTTP method."""
    url: str
    """The address, without keys."""
    service: Mapping[str, Any]
    """The service: `alias`, `type`, `wire`, `base_url` and `dialect`."""
    is_whole: bool = False
    """Whether the response was not streamed."""
    status: int = 0
    """The HTTP status; 0 if no head arrived."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of the response."""
    pieces: list[bytes] = field(default_factory=list)
    """The pieces of the body."""
    end: str = CUT
    """How it ended."""
    detail: str = "the recording ends before the answer does"
    """The text of a connection error."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            yield piece
            # Pieces arrive one by one, as they did.
            await asyncio.sleep(0)
        if self.end != COMPLETE:
            await self.fail()

    async def fail(self) -> NoReturn:
        """End as the exchange did; if dirge gave it up, wait until it does so again."""
        if self.end in (CLOSED, TIMED_OUT):
            await asyncio.Event().wait()
        trouble = "dropped" if self.end in (CUT, COMPLETE) else self.end
        raise TransportError(cast(TransportErrorKind, trouble), self.detail)

    async def aclose(self) -> None:
        pass


def read_recording(path: str) -> Sequence[RecordedExchange]:
    """All exchanges of the file, without an incomplete last line. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"recording {path} cannot be read: {why}.") from error
    exchanges: dict[int, RecordedExchange] = {}
    for number, line in _lines(path, content):
        try:
            _add_line(exchanges, line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _refuse(path, number, f"it is not a line of a recording ({error!r})")
    return list(exchanges.values())


def _lines(path: str, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line but the first, with its number from 1."""
    *lines, _torn = content.split(b"\n")
    if not lines:
        _refuse(path, 1, "it is not a recording")
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            _refuse(path, number, "it is not JSON")
        if not isinstance(line, dict) or (number == 1 and "dirge_recording" not in line):
            _refuse(path, number, "it is not a line of a recording")
        elif number > 1:
            yield number, line
        elif line["dirge_recording"] != VERSION:
            _refuse(path, number, f"it has the version {line['dirge_recording']!r}, not {VERSION}")


def _add_line(exchanges: dict[int, RecordedExchange], line: Mapping[str, Any]) -> None:
    number = line["exchange"]
    if "method" in line:
        exchanges[number] = RecordedExchange(
            method=str(line["method"]),
            url=str(line["url"]),
            service=dict(line["service"]),
            is_whole=bool(line.get("whole")),
        )
        return
    exchange = exchanges[number]
    if "status" in line:
        exchange.status = int(line["status"])
        headers = dict(line["headers"])
        exchange.headers = {str(name).lower(): str(value) for name, value in headers.items()}
    elif "text" in line:
        exchange.pieces.append(line["text"].encode())
    elif "base64" in line:
        exchange.pieces.append(base64.b64decode(line["base64"], validate=True))
    elif line["end"] in _ENDS:
        exchange.end = line["end"]
        exchange.detail = str(line.get("detail", ""))
    else:
        raise ValueError(line["end"])


def _refuse(path: str, line: int, why: str) -> NoReturn:
    hint = "`dirge --record FILE` writes recordings; a newer dirge may write others."
    raise ConfigError(f"recording {path}, line {line}: {why}.", hint=hint)


class Cassette:
    """The exchanges of a recording that were not replayed yet."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError."""
        exchanges = read_recording(path)
        self.streamed = deque(exchange for exchange in exchanges if not exchange.is_whole)
        self.whole = [exchange for exchange in exchanges if exchange.is_whole]
        self.total = len(self.streamed)

    def whole_exchange(self, request: HttpRequest) -> RecordedExchange:
        """Remove and return the next response that wasn't streamed, of the same address."""
        wanted = request.method, request.url.partition("?")[0]
        for exchange in self.whole:
            if (exchange.method, exchange.url.partition("?")[0]) == wanted:
                self.whole.remove(exchange)
                return exchange
        raise TransportError("unusable", f"the recording has no {' '.join(wanted)}")

    def exhausted_error(self) -> ProviderError:
        return ProviderError(
            f"The recording has {self.total} answers of models, but one more was requested.",
            kind="invalid_request",
            hint="The recording ended there, or this run differs from it.",
        )


class ReplayClient(HttpClient):
    """Answers the adapter of one service from a recording; `client` keeps finished streams."""

    def __init__(self, cassette: Cassette, client: HttpClient) -> None:
        super().__init__()
        self._cassette = cassette
        self._client = client
        self.put: deque[RecordedExchange] = deque()
        """The exchanges for the calls under way."""

    async def send(
        self, request: HttpRequest, *, connect_s: float | None, is_late: Callable[[], bool]
    ) -> HttpResponse:
        """The next streamed response, or the next whole one from the same address."""
        if request.is_whole:
            exchange = self._cassette.whole_exchange(request)
        elif pending := self.put or self._cassette.streamed:
            exchange = pending.popleft()
        else:
            raise self._cassette.exhausted_error()
        if not exchange.status:
            await exchange.fail()
        return exchange

    def linger(self, task: asyncio.Task[None]) -> None:
        self._client.linger(task)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    # `ProviderEntry` requires a recording.
    cassette = Cassette(settings.script or "")
    adapters: dict[str, tuple[ReplayClient, StreamFn]] = {}

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if not cassette.streamed:
            yield StreamError(cassette.exhausted_error())
            return
        exchange = cassette.streamed.popleft()
        name = repr(exchange.service)
        try:
            if name not in adapters:
                client = ReplayClient(cassette, http)
                adapters[name] = client, _adapter(settings, exchange.service, client)
        except ConfigError as error:
            yield StreamError(ProviderError(error.message, kind="invalid_request"))
            return
        client, adapted = adapters[name]
        client.put.append(exchange)
        try:
            async with closing(adapted(context, options, signal)) as events:
                async for event in events:
                    yield event
        finally:
            if exchange in client.put:
                # No request was made: the call was aborted, or couldn't be encoded.
                client.put.remove(exchange)
                cassette.streamed.appendleft(exchange)

    return stream


def _adapter(
    settings: ProviderSettings, service: Mapping[str, Any], client: ReplayClient
) -> StreamFn:
    """The adapter of a recorded service. Raises ConfigError."""
    known = {field.name for field in fields(Quirks)}
    quirks = {name: v for name, v in service.get("dialect", {}).items() if name in known}
    recorded = replace(
        settings,
        type=str(service.get("type", "")),
        base_url=str(service.get("base_url", "")),
        # It is sent nowhere, but without one there would be no request.
        api_key="replay",
        allow_insecure=True,
        quirks=Quirks(**quirks),
    )
    return registry.find_provider(str(service.get("wire", ""))).make(recorded, client)


PROVIDER = Provider(name="replay", make=_make)
