"""The engine there always is: this process, and the journal of its session."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Protocol

from dirge_py.conversation.durable.activity import Sleep, run_activity
from dirge_py.conversation.durable.base import (
    UNBOUNDED,
    ActivityOptions,
    LlmRequest,
    Replay,
    StartStream,
)
from dirge_py.conversation.durable.signals import Signal, SignalBox
from dirge_py.types.errors import RETRYABLE_KINDS, ProviderError
from dirge_py.types.llm import StreamError, StreamEvent, closing
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall

_LOOK_EVERY_S = 0.2


class DurableLog(Protocol):
    """Where it is written what happened: the recorder of a session."""

    def note(self, type_name: str, data: Mapping[str, Any], *, sync: bool = False) -> None: ...
    def note_setting(self, name: str, value: Any) -> None: ...


async def _straight(call: ToolCall, proceed: Proceed) -> LoopToolResult:
    return await proceed()


class LocalDurable:
    """A `DurableContext` in one process.

    Tool calls are written ahead (`write_ahead`), signals are recorded before they are handed over.
    Without `log` and `signals` (a session that is not kept) nothing outlives the process. `taken`
    are the ids of the signals that the journal knows already.
    """

    def __init__(
        self,
        *,
        log: DurableLog | None = None,
        signals: SignalBox | None = None,
        taken: Callable[[], Iterable[str]] = tuple,
        write_ahead: Interceptor = _straight,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._log = log
        self._signals = signals
        self._read_taken = taken
        self._taken: set[str] | None = None
        self._write_ahead = write_ahead
        self._clock = clock
        self._sleep = sleep

    def execute_llm_call(
        self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
    ) -> AsyncIterator[StreamEvent]:
        """The events of the answer; begun again only while nothing of it was seen."""
        # Nothing stands between the loop and its model where nothing is asked for.
        return start() if options is UNBOUNDED else self._bounded(start, options)

    async def execute_tool(
        self,
        call: ToolCall,
        proceed: Proceed,
        *,
        replay: Replay,
        options: ActivityOptions = UNBOUNDED,
    ) -> LoopToolResult:
        async def bounded() -> LoopToolResult:
            if options is UNBOUNDED:
                return await proceed()
            return await run_activity(proceed, options, replay=replay, sleep=self._sleep)

        return await self._write_ahead(call, bounded)

    async def wait_for_signal(self, name: str, timeout_s: float | None = None) -> Any | None:
        if self._signals is None:
            if timeout_s is not None:
                await self._sleep(timeout_s)
            return None
        waited_s = 0.0
        while True:
            for signal in self._signals.waiting(name):
                if self._take(signal):
                    return signal.payload
            left_s = _LOOK_EVERY_S if timeout_s is None else timeout_s - waited_s
            if left_s <= 0:
                return None
            step_s = min(left_s, _LOOK_EVERY_S)
            await self._sleep(step_s)
            waited_s += step_s

    def should_continue_as_new(self) -> bool:
        """Never: a journal that grows long goes on in its next segment by itself."""
        return False

    async def continue_as_new(self, state: Mapping[str, Any]) -> None:
        """Record the state; the session goes on under the same id."""
        if self._log is not None:
            self._log.note_setting("state", dict(state))

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)

    def now(self) -> float:
        return self._clock()

    async def _bounded(
        self, start: StartStream, options: ActivityOptions
    ) -> AsyncIterator[StreamEvent]:
        failures = 0
        while True:
            failure: StreamError | None = None
            is_fresh = True
            async for event in _within(start(), options):
                if is_fresh and isinstance(event, StreamError):
                    failure = event
                    break
                is_fresh = False
                yield event
            if failure is None:
                return
            failures += 1
            retry = options.retry
            kind = failure.error.kind
            may_retry = kind in RETRYABLE_KINDS and retry is not None
            if not may_retry or retry is None or failures >= retry.max_attempts:
                yield failure
                return
            if kind in retry.non_retryable:
                yield failure
                return
            await self._sleep(retry.wait_s(failures))

    def _take(self, signal: Signal) -> bool:
        """Record and remove it; False if that was done before a crash and only half."""
        assert self._signals is not None
        if self._taken is None:
            self._taken = set(self._read_taken())
        is_new = signal.id not in self._taken
        if is_new and self._log is not None:
            told = {"id": signal.id, "name": signal.name, "payload": signal.payload}
            self._log.note("signal", told, sync=True)
        self._taken.add(signal.id)
        self._signals.remove(signal)
        return is_new


async def _within(
    events: AsyncIterator[StreamEvent], options: ActivityOptions
) -> AsyncIterator[StreamEvent]:
    """The events, ended by an error where the next one, or the whole, takes too long."""
    loop = asyncio.get_running_loop()
    whole = options.start_to_close_s
    ends_at = None if whole is None else loop.time() + whole
    async with closing(events):
        while True:
            limits = [limit for limit in (options.heartbeat_s,) if limit is not None]
            if ends_at is not None:
                limits.append(max(0.0, ends_at - loop.time()))
            try:
                async with asyncio.timeout(min(limits, default=None)):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                yield StreamError(ProviderError("The answer took too long.", kind="network"))
                return
            yield event
