"""The durable engine of a conversation, and the signals that reach it from other terminals.

Everything a run does to the world goes through a `DurableContext`: model calls, tool calls, waiting
for a signal, sleeping, the time. `LocalDurable` does it in this process and writes it ahead in the
journal; the adapter of another engine would hand each of them to that engine as an activity.

Signals are one file each in a folder of the session, read once, in the order they were sent. They
may be sent before anybody waits, or runs at all. `RemotelyAnswered` lets a signal answer a
question.
"""

import asyncio
import contextlib
import json
import os
import re
import secrets
import stat
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
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.recorder import Recorder
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
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE = re.compile(r"(\d{20})-([0-9a-f]{8})-([A-Za-z0-9_-]{1,64})\.json")
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """`id` sorts by the time of sending. `payload` is what JSON can hold."""

    id: str
    name: str
    payload: Any


class SignalBox:
    """The folder `<session>/signals`. It is made by the first signal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, name: str, payload: Any) -> Signal:
        """Leave a signal. It is there whole or not at all.

        Raises:
            UsageError: the name cannot be one, or the payload is too long.
            OSError: it cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a signal.",
                hint="Use 1 to 64 letters, digits, hyphens or underscores.",
            )
        content = json.dumps(payload).encode()
        if len(content) > MOST_BYTES:
            raise UsageError(
                f"The payload of a signal may have {MOST_BYTES} bytes; this has {len(content)}."
            )
        signal_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        for folder in (self._folder.parent, self._folder):
            # Each by itself: what `parents` makes is open to others.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{signal_id}-{name}.json"
        draft = path.with_suffix(".new")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(fd)
            os.rename(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return Signal(id=signal_id, name=name, payload=payload)

    def waiting(self, name: str | None = None) -> Iterator[Signal]:
        """Those that nobody took yet, oldest first. What is no signal is passed over."""
        try:
            entries = sorted(os.listdir(self._folder))
        except OSError:
            return
        for entry in entries:
            match = _FILE.fullmatch(entry)
            if match and name in (None, match.group(3)):
                signal = self._read(entry, f"{match.group(1)}-{match.group(2)}", match.group(3))
                if signal is not None:
                    yield signal

    def remove(self, signal: Signal) -> None:
        """Take it away, once it is recorded."""
        with contextlib.suppress(OSError):
            (self._folder / f"{signal.id}-{signal.name}.json").unlink()

    def _read(self, entry: str, signal_id: str, name: str) -> Signal | None:
        try:
            fd = os.open(self._folder / entry, _READ_FLAGS)
        except OSError:
            return None
        with open(fd, "rb") as stream:
            status = os.fstat(fd)
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or status.st_size > MOST_BYTES:
                return None
            try:
                return Signal(id=signal_id, name=name, payload=json.loads(stream.read()))
            except (ValueError, RecursionError):
                return None


Replay = Literal["safe", "unsafe"]
"""Whether doing it twice is the same as doing it once. What is unsafe is never tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an activity is tried, and how long is waited between.

    The wait before try n+1 is `initial_s * backoff ** (n - 1)`, at most `max_interval_s`. A failure
    whose kind (`errors.ErrorKind`, or the name of an exception's class) is in `non_retryable` is
    the last one.
    """

    initial_s: float = 1.0
    backoff: float = 2.0
    max_attempts: int = 3
    max_interval_s: float = 30.0
    non_retryable: tuple[str, ...] = ("auth",)

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after so many failures (1 or more)."""
        return min(self.initial_s * self.backoff ** (failures - 1), self.max_interval_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """The bounds of one activity; None is no bound.

    `start_to_close_s` is for one try as a whole. `heartbeat_s` is for the silence between two
    events of a model's answer: a long answer is no reason to give up, a silent one is.
    """

    start_to_close_s: float | None = None
    heartbeat_s: float | None = None
    retry: RetryPolicy | None = None


UNBOUNDED = ActivityOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """One model call, as an engine would hand it to a worker."""

    context: LlmContext
    options: StreamOptions


StartStream: TypeAlias = Callable[[], AsyncIterator[StreamEvent]]
"""Begins the model call in this process; each call begins it anew."""


class DurableContext(Protocol):
    """What a run may ask of the world. Errors keep their types: `ActivityFailed` wraps nothing."""

    def execute_llm_call(
        self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
    ) -> AsyncIterator[StreamEvent]:
        """The events of the answer. Like every stream it ends with `StreamDone` or `StreamError`,
        and never raises."""

    async def execute_tool(
        self,
        call: ToolCall,
        proceed: Proceed,
        *,
        replay: Replay,
        options: ActivityOptions = UNBOUNDED,
    ) -> LoopToolResult:
        """The call's result.

        Raises:
            ActivityFailed: it did not end within its bounds, or failed as often as it may.
        """

    async def wait_for_signal(self, name: str, timeout_s: float | None = None) -> Any | None:
        """The payload of the oldest signal of this name that nobody has had; None: none in time."""

    def should_continue_as_new(self) -> bool:
        """Whether the history is too long to go on with."""

    async def continue_as_new(self, state: Mapping[str, Any]) -> None:
        """Go on with this state instead of the history."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Seconds since 1970."""


Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]


async def run_activity(
    start: Callable[[], Awaitable[Result]],
    options: ActivityOptions,
    *,
    replay: Replay,
    sleep: Sleep = asyncio.sleep,
) -> Result:
    """What `start()` returns, tried again as the options say if that is safe.

    Raises:
        ActivityFailed: the last try failed, its exception being the cause, or took too long.
    """
    failures = 0
    while True:
        try:
            async with asyncio.timeout(options.start_to_close_s):
                return await start()
        except (ToolFailed, ModelRetry):
            # Words for the model, and no failure of the activity.
            raise
        except Exception as error:
            failures += 1
            kind = kind_of(error)
            retry = options.retry if replay == "safe" else None
            is_last = retry is None or failures >= retry.max_attempts
            if retry is None or is_last or kind in retry.non_retryable:
                raise ActivityFailed(
                    str(error) or f"it took longer than {options.start_to_close_s:g} s.",
                    kind=kind,
                    attempts=failures,
                ) from error
            await sleep(retry.wait_s(failures))


def kind_of(error: Exception) -> str:
    """What `RetryPolicy.non_retryable` may name it by."""
    if isinstance(error, ActivityFailed | ProviderError):
        return error.kind
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__


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


Engine: TypeAlias = Callable[[DurableContext], DurableContext]
"""Makes another engine around the local one, which writes ahead and takes signals."""


def open_durable(store: Store, recorder: Recorder | None, engine: Engine | None) -> DurableContext:
    """The engine of one conversation; without a `recorder` nothing of it outlives the process."""
    if recorder is None:
        local = LocalDurable()
    else:
        local = LocalDurable(
            log=recorder,
            signals=SignalBox(store.folder / recorder.session_id / "signals"),
            taken=lambda: _taken(recorder),
            write_ahead=recorder.interceptor,
        )
    return engine(local) if engine is not None else local


def _taken(recorder: Recorder) -> Iterator[str]:
    for record in recorder.records():
        if record.type == "signal" and isinstance(record.data, dict):
            yield str(record.data.get("id"))


def durable_stream(
    durable: DurableContext, stream_fn: StreamFn, activity: ActivityOptions = UNBOUNDED
) -> StreamFn:
    """`stream_fn`, each call of it an activity."""

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        request = LlmRequest(context=context, options=options)
        return durable.execute_llm_call(
            request, lambda: stream_fn(context, options, signal), activity
        )

    return stream


def durable_interceptor(
    durable: DurableContext,
    *,
    is_mutating: Callable[[ToolCall], bool],
    activity: ActivityOptions = UNBOUNDED,
) -> Interceptor:
    """Around every tool call; it stands outermost, so that nothing happens before it is told."""

    async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        return await durable.execute_tool(
            call, proceed, replay="unsafe" if is_mutating(call) else "safe", options=activity
        )

    return around


SIGNAL = "answer"
"""The name of the signal; its payload: {"call_id", "effect": "allow" | "deny", "comment"}."""
Note = Callable[[str, Mapping[str, Any]], None]


class RemotelyAnswered:
    """An asker beside which signals are heard, while something is asked and at no other time.

    Whoever answers first is heard: the person before the screen for all calls of a question, or
    signals for one after the other. A signal allows a call once, never for longer. `note` records
    what is asked, so that another terminal can tell what waits.
    """

    def __init__(self, asker: Asker, durable: DurableContext, note: Note) -> None:
        self._asker = asker
        self._durable = durable
        self._note = note

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order."""
        await self._forget_early_answers()
        self._note("asked", {"calls": [_as_asked(request) for request in requests]})
        sent: dict[str, PermissionAnswer] = {}
        here = asyncio.ensure_future(self._asker.permission(requests))
        elsewhere = asyncio.ensure_future(self._from_elsewhere(requests, sent))
        try:
            await asyncio.wait({here, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            given = here.result() if here.done() else [sent[one.call_id] for one in requests]
            # A no that came for one of several calls counts, whoever answers the others.
            answers = [
                _refused(sent.get(request.call_id)) or answer
                for request, answer in zip(requests, given, strict=True)
            ]
        finally:
            for task in (here, elsewhere):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(here, elsewhere, return_exceptions=True)
        self._note(
            "answered",
            {"calls": [request.call_id for request in requests], "remotely": not _won(here)},
        )
        return answers

    async def _forget_early_answers(self) -> None:
        """An answer sent before the question was asked is an answer to something else."""
        while await self._durable.wait_for_signal(SIGNAL, 0) is not None:
            pass

    async def _from_elsewhere(
        self, requests: Sequence[PermissionRequest], sent: dict[str, PermissionAnswer]
    ) -> None:
        """Take answers until each call has one."""
        wanted = {request.call_id for request in requests}
        while not wanted <= sent.keys():
            payload = await self._durable.wait_for_signal(SIGNAL)
            match payload:
                case {"call_id": str(call_id), "effect": "allow" | "deny" as effect, **rest}:
                    comment = rest.get("comment", "")
                    sent[call_id] = PermissionAnswer(
                        effect=effect, comment=comment if isinstance(comment, str) else ""
                    )


def _refused(answer: PermissionAnswer | None) -> PermissionAnswer | None:
    return answer if answer is not None and answer.effect == "deny" else None


def _won(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled()


def _as_asked(request: PermissionRequest) -> dict[str, Any]:
    return {
        "call_id": request.call_id,
        "tool": request.tool_name,
        "claims": [{"op": claim.op, "resource": claim.resource} for claim in request.claims],
    }
