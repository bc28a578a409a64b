"""A model service that answers as in a recording: bug reports and tests, without a network.

Every model call gets the next exchange that was recorded, whatever it asks, read by the adapter of
the wire format that was spoken then: the same status, headers and pieces, and the same end. Nothing
is waited for; only an answer that stopped coming stands still again, until the call is given up.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import fields, replace
from typing import Any, NoReturn, cast

from dirge_py.providers import registry
from dirge_py.providers.client import HttpClient, never_late
from dirge_py.providers.http_types import (
    FetchedResponse,
    HttpResponse,
    TransportError,
    TransportErrorKind,
)
from dirge_py.providers.recording.file import (
    CLOSED,
    COMPLETE,
    CUT,
    TIMED_OUT,
    RecordedExchange,
    read_recording,
)
from dirge_py.providers.settings import Provider, ProviderSettings, Quirks
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import LlmContext, StreamError, StreamEvent, StreamFn, StreamOptions


class Cassette:
    """The exchanges of a recording that were not played yet."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError."""
        exchanges = read_recording(path)
        self.streamed = deque(each for each in exchanges if not each.is_whole)
        self.whole = [each for each in exchanges if each.is_whole]
        self.total = len(self.streamed)

    def spent(self) -> ProviderError:
        return ProviderError(
            f"The recording holds {self.total} answers of models and was asked for one more.",
            kind="invalid_request",
            hint="It was recorded no further, or this run goes another way.",
        )


class ReplayClient(HttpClient):
    """Answers one service's adapter from a recording instead of the network.

    `client` keeps the last moments of finished streams, as it does of any others.
    """

    def __init__(self, tape: Cassette, client: HttpClient) -> None:
        super().__init__()
        self._tape = tape
        self._client = client
        self.put: deque[RecordedExchange] = deque()
        """What the calls that go on were given."""

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        connect_s: float = 30.0,
        is_late: Callable[[], bool] = never_late,
    ) -> HttpResponse:
        """The stream that is next. Raises TransportFailed where that came to none."""
        waiting = self.put or self._tape.streamed
        if not waiting:
            raise self._tape.spent()
        exchange = waiting.popleft()
        if exchange.status is None:
            await _end(exchange)
        return _ReplayedResponse(exchange)

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> FetchedResponse:
        """The next answer that was no stream, to the same question."""
        path = url.partition("?")[0]
        for exchange in self._tape.whole:
            if (exchange.method, exchange.url.partition("?")[0]) == (method, path):
                break
        else:
            raise TransportError("unusable", f"the recording has no {method} {path}")
        self._tape.whole.remove(exchange)
        if exchange.end != COMPLETE:
            async with asyncio.timeout(timeout_s):
                await _end(exchange)
        status, whole = exchange.status or 0, b"".join(exchange.pieces)
        return FetchedResponse(status=status, headers=exchange.headers, body=whole)

    def linger(self, task: asyncio.Task[None]) -> None:
        self._client.linger(task)


class _ReplayedResponse:
    def __init__(self, exchange: RecordedExchange) -> None:
        self._exchange = exchange
        self.status = exchange.status or 0
        self.headers: Mapping[str, str] = exchange.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for piece in self._exchange.pieces:
            yield piece
            # Each arrives by itself, as it did.
            await asyncio.sleep(0)
        if self._exchange.end != COMPLETE:
            await _end(self._exchange)

    async def aclose(self) -> None:
        pass


async def _end(exchange: RecordedExchange) -> NoReturn:
    """End as the exchange did; what was given up stands still until it is given up again."""
    if exchange.end in (CLOSED, TIMED_OUT):
        await asyncio.Event().wait()
    trouble = "dropped" if exchange.end in (CUT, COMPLETE) else exchange.end
    raise TransportError(cast(TransportErrorKind, trouble), exchange.detail)


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    if settings.script is None:
        raise ConfigError(
            f"provider `{settings.alias}` replays, but names no recording.",
            hint='Set `script = "run.jsonl"`.',
        )
    tape = Cassette(settings.script)
    adapters: dict[str, tuple[ReplayClient, StreamFn]] = {}

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if not tape.streamed:
            yield StreamError(tape.spent())
            return
        exchange = tape.streamed.popleft()
        name = repr(exchange.service)
        try:
            if name not in adapters:
                client = ReplayClient(tape, http)
                adapters[name] = client, _adapter(settings, exchange.service, client)
        except ConfigError as error:
            yield StreamError(ProviderError(error.message, kind="invalid_request"))
            return
        client, adapted = adapters[name]
        client.put.append(exchange)
        events = cast(AsyncGenerator[StreamEvent, None], adapted(context, options, signal))
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            if exchange in client.put:
                # Nothing was asked: the call was stopped, or could not be written down.
                client.put.remove(exchange)
                tape.streamed.appendleft(exchange)

    return stream


def _adapter(
    settings: ProviderSettings, service: Mapping[str, Any], client: ReplayClient
) -> StreamFn:
    """What reads the answers of a service that was recorded. Raises ConfigError."""
    known = {each.name for each in fields(Quirks)}
    departures = {name: v for name, v in service.get("dialect", {}).items() if name in known}
    recorded = replace(
        settings,
        type=str(service.get("type", "")),
        base_url=str(service.get("base_url", "")),
        # It goes nowhere; without one nothing would be asked.
        api_key="replay",
        allow_insecure=True,
        dialect=Quirks(**departures),
    )
    return registry.find_provider(str(service.get("wire", ""))).make(recorded, client)


PROVIDER = Provider(name="replay", make=_make, needs_key=False)
