"""One request and its streamed answer: time limits, abort, and all errors.

A task (`_StreamingCall.run`) does all the waiting: it connects, reads, parses, and puts batches of
events into a queue. The generator that the loop reads only empties the queue, so that a slow reader
never looks like a silent service. An abort ends the generator and cancels the task, which closes
the connection.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import errors
from dirge_py.providers.client import MAX_BODY_BYTES, HttpClient, HttpRequest, TransportError
from dirge_py.providers.errors import Endpoint
from dirge_py.providers.settings import StreamTimeouts
from dirge_py.providers.sse import EventTooLong, NdjsonDecoder, ServerEvent, SseDecoder
from dirge_py.providers.stream_parser import ServiceError, StreamParser
from dirge_py.types.abort import AbortSignal, call_in_loop
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import StreamError, StreamEvent

Framing = Literal["events", "lines"]
"""Server-sent events, or one JSON object per line."""
_MAX_ERROR_BODY_BYTES = 64 * 1024
_ERROR_BODY_S = 5.0
_BATCHES_AHEAD = 256
_BATCH_SIZE = 32
# The limits after the end of an answer, for a service that keeps the connection open.
_SETTLE_S = 5.0
_DRAIN_S = 1.0
_NO_STREAM: Mapping[Framing, frozenset[bytes]] = {
    "events": frozenset({b"{", b"[", b"<"}),
    "lines": frozenset({b"[", b"<"}),
}
"""What web pages and whole answers begin with, but no stream does."""
_BLANK = b" \t\r\n\xef\xbb\xbf"
# `json.loads` without its check for blanks, which is a third of the cost of a small event.
_read_json = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """A request, and how its answer is read."""

    endpoint: Endpoint
    """The address of the service."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers, with the key."""
    body: bytes = field(repr=False)
    """The encoded JSON."""
    timeouts: StreamTimeouts
    """How long each silence may last."""
    framing: Framing = "events"
    """How the events of the answer are separated."""
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
    loop = asyncio.get_running_loop()

    def cut() -> None:
        # Once only: a second cancellation would interrupt the closing of the connection.
        if not task.cancelling():
            task.cancel()
        call.wake()

    forget = signal.on_abort(lambda: call_in_loop(loop, cut))
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
            # The end of the task closes the connection.
            await asyncio.wait({task}, timeout=0.05)


class _StreamingCall:
    """The task's side (`run`) and the generator's side (the rest) of one answer."""

    def __init__(self, http: HttpClient, request: StreamRequest, parser: StreamParser) -> None:
        self._http = http
        self._request = request
        self._endpoint = request.endpoint
        self._parser = parser
        self._queue: asyncio.Queue[Sequence[StreamEvent]] = asyncio.Queue()
        self._free_slots = asyncio.Semaphore(_BATCHES_AHEAD)
        self._open_batch: list[StreamEvent] = []
        """The newest batch while it is in the queue, where it may grow."""
        self._time_out = asyncio.timeout(None)
        self._idle_timeout = IdleTimeout(self._give_up, request.total_s)
        self._has_begun = False
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether `next_batch` has returned the last batch."""
        return self._is_closed and self._queue.empty()

    def wake(self) -> None:
        """Make a waiting `next_batch` return without events."""
        self._queue.put_nowait(())

    async def next_batch(self) -> Sequence[StreamEvent]:
        """The next events."""
        batch = await self._queue.get()
        if batch:
            self._free_slots.release()
        if batch is self._open_batch:
            self._open_batch = []
        return batch

    async def run(self) -> None:
        """Make the request and queue its events; errors become events."""
        last: Sequence[StreamEvent] = [StreamError(errors.aborted_error())]
        try:
            async with self._time_out:
                self._idle_timeout.allow(self._request.timeouts.establish_s)
                last = await self._post_and_read()
        except TimeoutError:
            last = self._finish_if_settled() or [StreamError(self._timeout_error())]
        except Exception as error:
            last = self._finish_if_settled() or [StreamError(self._as_provider_error(error))]
        finally:
            self._idle_timeout.stop()
            self._close(last)

    async def _post_and_read(self) -> Sequence[StreamEvent]:
        """Queue every batch but the last, which is returned."""
        answer = await self._http.post(
            HttpRequest("POST", self._endpoint.url, self._request.headers, self._request.body),
            connect_s=self._request.timeouts.connect_s,
            is_late=self._time_out.expired,
        )
        try:
            async with contextlib.aclosing(answer.chunks()) as chunks:
                if answer.status == 200:
                    return await self._read(chunks)
                # The status says the most, so an incomplete body will do.
                body = bytearray()
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_ERROR_BODY_S):
                        await _collect(chunks, body, _MAX_ERROR_BODY_BYTES)
                text = body.decode(errors="replace")
                raise errors.status_error(self._endpoint, answer.status, answer.headers, text)
        finally:
            await answer.aclose()

    async def _read(self, chunks: AsyncIterator[bytes]) -> Sequence[StreamEvent]:
        head = b""
        async for chunk in chunks:
            head += chunk
            if head.strip(_BLANK):
                break
        self._has_begun = bool(head)
        if head.lstrip(_BLANK)[:1] in _NO_STREAM[self._request.framing]:
            body = bytearray(head)
            await _collect(chunks, body, MAX_BODY_BYTES)
            return self._parse_whole(bytes(body[:MAX_BODY_BYTES]))
        return await self._read_events(chunks, head)

    async def _read_events(
        self, chunks: AsyncIterator[bytes], head: bytes
    ) -> Sequence[StreamEvent]:
        decoder = SseDecoder() if self._request.framing == "events" else NdjsonDecoder()
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
            if batch:
                await self._put_batch(batch)
        if self._parser.is_done:
            self._close(())
        self._idle_timeout.allow(self._max_silence_s())

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

    async def _put_batch(self, batch: list[StreamEvent]) -> None:
        if 0 < len(self._open_batch) < _BATCH_SIZE:
            # Small pieces that arrive together share a batch, which costs less.
            self._open_batch += batch
            return
        if self._free_slots.locked():
            # The reader is slower than the service.
            self._idle_timeout.pause()
        await self._free_slots.acquire()
        self._open_batch = batch
        self._queue.put_nowait(batch)

    def _close(self, last: Sequence[StreamEvent]) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._queue.put_nowait(last)

    def _finish_if_settled(self) -> Sequence[StreamEvent]:
        """The last events, if only bookkeeping is missing."""
        return self._parser.finish() if self._parser.is_settled else ()

    def _max_silence_s(self) -> float:
        """Seconds that the service may be silent now."""
        limits = self._request.timeouts
        if self._is_closed:
            return _DRAIN_S
        if self._parser.is_settled:
            return _SETTLE_S
        if self._parser.call_is_open:
            return min(limits.tool_call_gap_s, limits.chunk_s)
        return limits.chunk_s

    def _give_up(self) -> None:
        self._time_out.reschedule(asyncio.get_running_loop().time())

    def _timeout_error(self) -> ProviderError:
        total_s = self._request.total_s
        limits = self._request.timeouts
        if self._idle_timeout.total_is_over:
            what = f"the whole answer took more than {total_s:g} s"
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


_CHECK_EVERY_S = 30.0


class IdleTimeout:
    """Calls `give_up` once the allowed silence has passed, or `total_s` in all.

    `allow` only stores a time, and one timer checks it now and then. A timer for each of the
    thousand pieces of an answer would cost more than reading them.
    """

    def __init__(self, give_up: Callable[[], None], total_s: float | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._deadline = math.inf if total_s is None else self._loop.time() + total_s
        self._ends_at = self._deadline
        self._timer: asyncio.TimerHandle | None = None

    @property
    def total_is_over(self) -> bool:
        """Whether `total_s` has passed."""
        return self._loop.time() >= self._deadline

    def allow(self, seconds: float) -> None:
        """Allow a silence of `seconds` from now on."""
        self._ends_at = min(self._deadline, self._loop.time() + seconds)
        if self._timer is None or self._ends_at < self._timer.when():
            self._check()

    def pause(self) -> None:
        """Allow any silence until the next `allow`."""
        self._ends_at = self._deadline

    def stop(self) -> None:
        """Stop for good."""
        self._ends_at = math.inf
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        if now >= self._ends_at:
            self._give_up()
        else:
            next_look = min(self._ends_at, now + _CHECK_EVERY_S)
            self._timer = self._loop.call_at(next_look, self._check)
