"""The durable engine of a conversation, and the signals that reach it from other terminals.

All side effects of a run go through a `DurableContext`: model calls, tool calls, signals, sleeping,
the time. An adapter to another engine makes each of them an activity of that engine.

Signals are files in a folder of the session, read once, in the order they were sent, whether or not
a process waits for them.
"""

import asyncio
import contextlib
import json
import math
import os
import secrets
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from dirge_py.files.atomic import atomic_write
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import make_folders
from dirge_py.session.store import Store
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import (
    RETRYABLE_KINDS,
    ActivityFailed,
    ModelRetry,
    ProviderError,
    ToolFailed,
    UsageError,
)
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    closing,
)
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall

MOST_BYTES = 64 * 1024
_NAME = late_pattern(r"[A-Za-z0-9_-]{1,64}")
_FILE = late_pattern(r"(?P<id>\d{20}-[0-9a-f]{8})-(?P<name>[A-Za-z0-9_-]{1,64})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A message to a session, sent from outside of its process."""

    id: str
    """Sorts by the time of sending."""
    name: str
    """Selects who receives it."""
    payload: Any
    """A JSON value."""


class SignalBox:
    """The folder `<session>/signals`, which the first signal creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, name: str, payload: Any) -> Signal:
        """Write a signal, atomically. Raises UsageError if the name or the payload is invalid."""
        if not _NAME.fullmatch(name):
            hint = "Use 1 to 64 letters, digits, hyphens or underscores."
            raise UsageError(f"{name!r} isn't a valid name of a signal.", hint=hint)
        content = json.dumps(payload).encode()
        if len(content) > MOST_BYTES:
            raise UsageError(
                f"The payload of a signal may have {MOST_BYTES} bytes; this has {len(content)}."
            )
        signal_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        make_folders(self._folder)
        atomic_write(self._folder / f"{signal_id}-{name}.json", content, mode=0o600)
        return Signal(id=signal_id, name=name, payload=payload)

    def waiting(self, name: str | None = None) -> Iterator[Signal]:
        """Yield the signals that were not received yet, oldest first; other files are skipped."""
        try:
            entries = sorted(os.listdir(self._folder))
        except OSError:
            return
        for entry in entries:
            match = _FILE.fullmatch(entry)
            if match is None or name not in (None, match["name"]):
                continue
            try:
                path = self._folder / entry
                content = read_regular(path, MOST_BYTES + 1, follow=False, is_own=True)
                if len(content) <= MOST_BYTES:
                    yield Signal(id=match["id"], name=match["name"], payload=json.loads(content))
            except (OSError, ValueError, RecursionError):
                continue

    def remove(self, signal: Signal) -> None:
        """Delete the file of a recorded signal."""
        with contextlib.suppress(OSError):
            (self._folder / f"{signal.id}-{signal.name}.json").unlink()


Replay = Literal["safe", "unsafe"]
"""Whether repeating the activity has no further effect; an unsafe one is never retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an activity is tried, and how long the waits between the tries are."""

    initial_s: float = 1.0
    """The first wait, in seconds."""
    backoff: float = 2.0
    """The factor between two waits."""
    max_attempts: int = 3
    """The most tries."""
    max_interval_s: float = 30.0
    """The longest wait, in seconds."""
    non_retryable: tuple[str, ...] = ("auth",)
    """Kinds of failures (`errors.ErrorKind`, or names of exception classes) that end the tries."""

    def wait_s(self, failures: int) -> float:
        """Return the seconds to wait after this many failures (1 or more)."""
        return min(self.initial_s * self.backoff ** (failures - 1), self.max_interval_s)

    def allows(self, failures: int, kind: str) -> bool:
        """Whether there is another try after this many failures, the last of this kind."""
        return failures < self.max_attempts and kind not in self.non_retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """The limits of one activity; None is no limit."""

    start_to_close_s: float | None = None
    """The time of one try."""
    heartbeat_s: float | None = None
    """The time between two events of a model's answer: long is fine, silent isn't."""
    retry: RetryPolicy | None = None
    """How it is retried; None: not at all."""


UNBOUNDED = ActivityOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """One model call, as an engine passes it to a worker."""

    context: LlmContext
    """What the model gets."""
    options: StreamOptions
    """The model, and how it is called."""


StartStream: TypeAlias = Callable[[], AsyncIterator[StreamEvent]]
"""Starts the model call in this process, each time anew."""


class DurableContext(Protocol):
    """The effects of a run. Errors keep their types, except those that become `ActivityFailed`."""

    def execute_llm_call(
        self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
    ) -> AsyncIterator[StreamEvent]:
        """Return the events of the answer; they end with `StreamDone` or `StreamError`."""

    async def execute_tool(
        self,
        call: ToolCall,
        proceed: Proceed,
        *,
        replay: Replay,
        options: ActivityOptions = UNBOUNDED,
    ) -> LoopToolResult:
        """Return the call's result; raises ActivityFailed if it exceeds a limit or fails."""

    async def wait_for_signal(self, name: str, timeout_s: float | None = None) -> Any | None:
        """Return the payload of the oldest unreceived signal of this name; None: none in time."""

    def should_continue_as_new(self) -> bool:
        """Whether the history is too long to continue with."""

    async def continue_as_new(self, state: Mapping[str, Any]) -> None:
        """Continue with this state instead of the history."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Return the seconds since 1970."""


Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]


async def run_activity(
    start: Callable[[], Awaitable[Result]],
    options: ActivityOptions,
    *,
    replay: Replay,
    sleep: Sleep = asyncio.sleep,
) -> Result:
    """Return what `start()` returns; it is retried as the options say, if that is safe.

    Raises ActivityFailed if the last try failed (its exception is the cause) or took too long.
    """
    retry = options.retry if replay == "safe" else None
    for failures in count(1):
        try:
            async with asyncio.timeout(options.start_to_close_s):
                return await start()
        except (ToolFailed, ModelRetry):
            # A message to the model, not a failure of the activity.
            raise
        except Exception as error:
            kind = kind_of(error)
            if retry is None or not retry.allows(failures, kind):
                reason = str(error) or f"it took longer than {options.start_to_close_s:g} s."
                raise ActivityFailed(reason, kind=kind, attempts=failures) from error
            await sleep(retry.wait_s(failures))
    raise AssertionError


def kind_of(error: Exception) -> str:
    """Return the name of the error in `RetryPolicy.non_retryable`."""
    if isinstance(error, ActivityFailed | ProviderError):
        return error.kind
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__


_POLL_INTERVAL_S = 0.2


class LocalDurable:
    """A `DurableContext` in one process.

    Tool calls are written ahead (`write_ahead`), signals are recorded before they are returned.
    Without `log` and `signals` (a session without a journal) nothing is stored. `received` returns
    the ids of the signals in the journal.
    """

    def __init__(
        self,
        *,
        log: Recorder | None = None,
        signals: SignalBox | None = None,
        received: Callable[[], Iterable[str]] = tuple,
        write_ahead: Interceptor = lambda call, proceed: proceed(),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._log = log
        self._signals = signals
        self._read_received = received
        self._received: set[str] | None = None
        self._write_ahead = write_ahead
        self._sleep = sleep

    def execute_llm_call(
        self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
    ) -> AsyncIterator[StreamEvent]:
        """Return the events of the answer; retried only while no event was returned."""
        return start() if options is UNBOUNDED else self._bounded(start, options)

    async def execute_tool(
        self,
        call: ToolCall,
        proceed: Proceed,
        *,
        replay: Replay,
        options: ActivityOptions = UNBOUNDED,
    ) -> LoopToolResult:
        if options is not UNBOUNDED:
            proceed = partial(run_activity, proceed, options, replay=replay, sleep=self._sleep)
        return await self._write_ahead(call, proceed)

    async def wait_for_signal(self, name: str, timeout_s: float | None = None) -> Any | None:
        if self._signals is None:
            if timeout_s is not None:
                await self._sleep(timeout_s)
            return None
        left_s = math.inf if timeout_s is None else timeout_s
        while True:
            for signal in self._signals.waiting(name):
                if self._receive(signal):
                    return signal.payload
            if left_s <= 0:
                return None
            await self._sleep(min(left_s, _POLL_INTERVAL_S))
            left_s -= _POLL_INTERVAL_S

    def should_continue_as_new(self) -> bool:
        """Return False: a long journal continues in its next segment by itself."""
        return False

    async def continue_as_new(self, state: Mapping[str, Any]) -> None:
        """Record the state; the session continues under the same id."""
        if self._log is not None:
            self._log.note_setting("state", dict(state))

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)

    def now(self) -> float:
        return time.time()

    async def _bounded(
        self, start: StartStream, options: ActivityOptions
    ) -> AsyncIterator[StreamEvent]:
        retry = options.retry
        for failures in count(1):
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
            kind = failure.error.kind
            if retry is None or kind not in RETRYABLE_KINDS or not retry.allows(failures, kind):
                yield failure
                return
            await self._sleep(retry.wait_s(failures))

    def _receive(self, signal: Signal) -> bool:
        """Record and remove the signal; False if it was recorded before a crash."""
        assert self._signals is not None
        if self._received is None:
            self._received = set(self._read_received())
        is_new = signal.id not in self._received
        if is_new and self._log is not None:
            data = {"id": signal.id, "name": signal.name, "payload": signal.payload}
            self._log.note("signal", data, sync=True)
        self._received.add(signal.id)
        self._signals.remove(signal)
        return is_new


async def _within(
    events: AsyncIterator[StreamEvent], options: ActivityOptions
) -> AsyncIterator[StreamEvent]:
    """Return the events, ended by an error if the next one, or all of them, take too long."""
    loop = asyncio.get_running_loop()
    silence_s = math.inf if options.heartbeat_s is None else options.heartbeat_s
    total_s = math.inf if options.start_to_close_s is None else options.start_to_close_s
    ends_at = loop.time() + total_s
    async with closing(events):
        while True:
            try:
                async with asyncio.timeout_at(min(ends_at, loop.time() + silence_s)):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                yield StreamError(ProviderError("The answer took too long.", kind="network"))
                return
            yield event


Engine: TypeAlias = Callable[[DurableContext], DurableContext]
"""Makes another engine around the local one, which writes ahead and receives signals."""


def open_durable(store: Store, recorder: Recorder | None, engine: Engine | None) -> DurableContext:
    """Return the engine of one conversation; without a `recorder` it stores nothing."""
    local = LocalDurable()
    if recorder is not None:
        local = LocalDurable(
            log=recorder,
            signals=SignalBox(store.folder / recorder.session_id / "signals"),
            received=lambda: [
                str(record.data.get("id"))
                for record in recorder.records()
                if record.type == "signal" and isinstance(record.data, dict)
            ],
            write_ahead=recorder.interceptor,
        )
    return engine(local) if engine is not None else local


def durable_stream(durable: DurableContext, stream_fn: StreamFn) -> StreamFn:
    """Return `stream_fn` with every call made an activity."""

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        request = LlmRequest(context=context, options=options)
        return durable.execute_llm_call(request, lambda: stream_fn(context, options, signal))

    return stream


def durable_interceptor(
    durable: DurableContext, *, is_mutating: Callable[[ToolCall], bool]
) -> Interceptor:
    """Return an interceptor that makes every tool call an activity. It must be the outermost."""

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        replay: Replay = "unsafe" if is_mutating(call) else "safe"
        return await durable.execute_tool(call, proceed, replay=replay)

    return around


SIGNAL = "answer"
"""The name of the signal; its payload: {"call_id", "effect": "allow" | "deny", "comment"}."""
Note = Callable[[str, Mapping[str, Any]], None]


class RemotelyAnswered:
    """An asker whose questions can also be answered by signals.

    The first answer counts: the wrapped asker answers all calls of a question, a signal one call,
    which it can only allow once. `note` records the questions, so that other terminals show them.
    """

    def __init__(self, asker: Asker, durable: DurableContext, note: Note) -> None:
        self._asker = asker
        self._durable = durable
        self._note = note

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """Return one answer per request, in order."""
        while await self._durable.wait_for_signal(SIGNAL, 0) is not None:
            pass  # an answer that was sent before the question answers something else
        calls = [
            {
                "call_id": request.call_id,
                "tool": request.tool_name,
                "claims": [
                    {"op": claim.op, "resource": claim.resource} for claim in request.claims
                ],
            }
            for request in requests
        ]
        self._note("asked", {"calls": calls})
        sent: dict[str, PermissionAnswer] = {}
        here = asyncio.ensure_future(self._asker.permission(requests))
        elsewhere = asyncio.ensure_future(self._from_elsewhere(requests, sent))
        try:
            await asyncio.wait({here, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            is_remote = not here.done()
            call_ids = [request.call_id for request in requests]
            answers = [sent[call_id] for call_id in call_ids] if is_remote else [*here.result()]
            for index, call_id in enumerate(call_ids):
                # A remote denial of one of several calls counts, whoever answers the others.
                if call_id in sent and sent[call_id].effect == "deny":
                    answers[index] = sent[call_id]
        finally:
            for task in (here, elsewhere):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(here, elsewhere, return_exceptions=True)
        self._note("answered", {"calls": call_ids, "remotely": is_remote})
        return answers

    async def _from_elsewhere(
        self, requests: Sequence[PermissionRequest], sent: dict[str, PermissionAnswer]
    ) -> None:
        """Wait until signals have answered each call."""
        wanted = {request.call_id for request in requests}
        while not wanted <= sent.keys():
            payload = await self._durable.wait_for_signal(SIGNAL)
            match payload:
                case {"call_id": str(call_id), "effect": "allow" | "deny" as effect, **rest}:
                    comment = text if isinstance(text := rest.get("comment"), str) else ""
                    sent[call_id] = PermissionAnswer(effect=effect, comment=comment)
