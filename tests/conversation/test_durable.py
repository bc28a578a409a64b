"""The local engine: retries, signals delivered once, calls never repeated."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.conversation.durable import (
    MOST_BYTES,
    UNBOUNDED,
    ActivityOptions,
    LlmRequest,
    LocalDurable,
    Replay,
    RetryPolicy,
    SignalBox,
    StartStream,
    durable_interceptor,
    durable_stream,
)
from dirge_py.testing import FakeClock
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ActivityFailed, ProviderError, ToolFailed, UsageError
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    TextDelta,
)
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall, text_result

RETRIES = ActivityOptions(retry=RetryPolicy(initial_s=1, backoff=2.0, max_attempts=3))
CALL = ToolCall(id="c1", name="read", arguments={})
REQUEST = LlmRequest(
    context=LlmContext(system_prompt="", messages=(), tools=()), options=StreamOptions(model="m/x")
)


class Log:
    def __init__(self) -> None:
        self.records: list[tuple[str, Any]] = []

    def note(self, type_name: str, data: Any, *, sync: bool = False) -> None:
        self.records.append((type_name, data))

    def note_setting(self, name: str, value: Any) -> None:
        self.records.append((name, value))


def failing(error: Exception, times: int = 99) -> tuple[Proceed, list[int]]:
    tries: list[int] = []

    async def proceed() -> LoopToolResult:
        tries.append(len(tries) + 1)
        if len(tries) <= times:
            raise error
        return text_result("done")

    return proceed, tries


def answers(
    *attempts: list[StreamEvent],
) -> tuple[Callable[[], AsyncIterator[StreamEvent]], list[int]]:
    begun: list[int] = []

    async def events() -> AsyncIterator[StreamEvent]:
        begun.append(1)
        for event in attempts[min(len(begun), len(attempts)) - 1]:
            yield event

    return events, begun


async def heard(stream: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [event async for event in stream]


async def test_a83_activity_is_tried_three_times_with_backoff() -> None:
    clock = FakeClock(is_eager=True)
    proceed, tries = failing(ProviderError("down", kind="server"))

    with pytest.raises(ActivityFailed) as failed:
        await LocalDurable(sleep=clock.sleep).execute_tool(
            CALL, proceed, replay="safe", options=RETRIES
        )

    assert (failed.value.kind, failed.value.attempts, len(tries)) == ("server", 3, 3)
    assert clock.slept == [1, 2]


async def test_a83_failure_that_is_not_retryable_is_not_retried() -> None:
    clock = FakeClock(is_eager=True)
    proceed, tries = failing(ProviderError("who are you", kind="auth"))

    with pytest.raises(ActivityFailed):
        await LocalDurable(sleep=clock.sleep).execute_tool(
            CALL, proceed, replay="safe", options=RETRIES
        )

    assert (len(tries), clock.slept) == (1, [])


async def test_unsafe_tool_call_is_never_retried() -> None:
    proceed, tries = failing(ProviderError("down", kind="server"), times=1)

    with pytest.raises(ActivityFailed):
        await LocalDurable().execute_tool(CALL, proceed, replay="unsafe", options=RETRIES)

    assert len(tries) == 1


async def test_tool_failed_error_keeps_its_type() -> None:
    proceed, _ = failing(ToolFailed("read it first"))

    with pytest.raises(ToolFailed, match="read it first"):
        await LocalDurable().execute_tool(CALL, proceed, replay="safe", options=RETRIES)


async def test_activity_over_its_time_limit_fails_as_timeout() -> None:
    async def forever() -> LoopToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ActivityFailed) as failed:
        await LocalDurable().execute_tool(
            CALL, forever, replay="safe", options=ActivityOptions(start_to_close_s=0.01)
        )

    assert failed.value.kind == "timeout"


@given(st.integers(1, 40))
def test_retry_wait_never_exceeds_max_interval(failures: int) -> None:
    waits = [RetryPolicy(max_interval_s=30).wait_s(count) for count in range(1, failures + 1)]
    assert waits == sorted(waits)
    assert max(waits) <= 30


async def test_model_call_is_retried_only_before_its_first_event() -> None:
    clock = FakeClock(is_eager=True)
    down = StreamError(ProviderError("down", kind="server"))
    durable = LocalDurable(sleep=clock.sleep)

    start, begun = answers([down], [TextDelta("hello"), StreamDone()])
    assert await heard(durable.execute_llm_call(REQUEST, start, RETRIES)) == [
        TextDelta("hello"),
        StreamDone(),
    ]
    assert (len(begun), clock.slept) == (2, [1])

    start, begun = answers([TextDelta("hel"), down], [StreamDone()])
    assert (await heard(durable.execute_llm_call(REQUEST, start, RETRIES)))[-1] is down
    assert len(begun) == 1


async def test_silent_stream_ends_with_an_error_after_the_heartbeat_limit() -> None:
    closed = []

    async def silent() -> AsyncIterator[StreamEvent]:
        try:
            yield TextDelta("one")
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    found = await heard(
        LocalDurable().execute_llm_call(REQUEST, silent, ActivityOptions(heartbeat_s=0.01))
    )

    assert found[0] == TextDelta("one")
    assert isinstance(found[1], StreamError)
    assert closed == [True]


async def test_a81_wait_for_signal_returns_none_after_its_timeout(tmp_path: Path) -> None:
    clock = FakeClock(is_eager=True)
    durable = LocalDurable(signals=SignalBox(tmp_path / "signals"), sleep=clock.sleep)

    assert await durable.wait_for_signal("x", 5) is None
    assert sum(clock.slept) == pytest.approx(5)


async def test_a81_signal_from_another_process_arrives_once(tmp_path: Path) -> None:
    box = SignalBox(tmp_path / "signals")
    log = Log()
    durable = LocalDurable(log=log, signals=box)
    waiting = asyncio.ensure_future(durable.wait_for_signal("go", 30))
    script = (
        "import sys; from pathlib import Path;"
        "from dirge_py.conversation.durable import SignalBox;"
        "SignalBox(Path(sys.argv[1])).send('go', {'n': 1})"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "signals")]
    await asyncio.to_thread(subprocess.run, command, check=True)

    assert await waiting == {"n": 1}
    assert await durable.wait_for_signal("go", 0) is None
    assert [kind for kind, _ in log.records] == ["signal"]
    assert os.listdir(tmp_path / "signals") == []


async def test_recorded_signal_is_not_delivered_again_after_a_crash(tmp_path: Path) -> None:
    box = SignalBox(tmp_path / "signals")
    first, second = box.send("go", 1), box.send("go", 2)
    durable = LocalDurable(signals=box, received=lambda: [first.id])

    assert await durable.wait_for_signal("go", 0) == 2
    assert list(box.waiting()) == []
    assert second.id > first.id


def test_signal_with_invalid_name_or_too_large_payload_is_refused(tmp_path: Path) -> None:
    box = SignalBox(tmp_path / "signals")
    for name in ("", "../x", "a b", "x" * 65):
        with pytest.raises(UsageError):
            box.send(name, {})
    with pytest.raises(UsageError):
        box.send("x", "y" * MOST_BYTES)
    assert not (tmp_path / "signals").exists()


def test_files_that_are_not_signals_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "signals"
    box = SignalBox(folder)
    box.send("x", 1)
    name = f"{0:020d}-00000000-x.json"
    (folder / name).write_text("{")
    (folder / "notes.txt").write_text("hello")
    (folder / name.replace("0000-x", "0001-x")).symlink_to("/etc/hostname")
    os.mkfifo(folder / name.replace("0000-x", "0002-x"))

    assert [signal.payload for signal in box.waiting()] == [1]


async def test_model_and_tool_calls_go_through_the_durable_engine() -> None:
    received: list[str] = []

    class Engine(LocalDurable):
        def execute_llm_call(
            self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
        ) -> AsyncIterator[StreamEvent]:
            received.append(f"model {request.options.model}")
            return super().execute_llm_call(request, start, options)

        async def execute_tool(
            self,
            call: ToolCall,
            proceed: Proceed,
            *,
            replay: Replay,
            options: ActivityOptions = UNBOUNDED,
        ) -> LoopToolResult:
            received.append(f"{replay} {call.name}")
            return await super().execute_tool(call, proceed, replay=replay, options=options)

    async def stream_fn(*_: Any) -> AsyncIterator[StreamEvent]:
        yield StreamDone()

    engine = Engine()
    stream = durable_stream(engine, stream_fn)
    await heard(stream(REQUEST.context, REQUEST.options, AbortSignal()))
    proceed, _ = failing(ToolFailed("never"), times=0)
    around = durable_interceptor(engine, is_mutating=lambda call: call.name != "read")
    result = await around(CALL, proceed)

    assert received == ["model m/x", "safe read"]
    assert result.content == text_result("done").content
