"""Readers of events: each reads at its own pace and delays neither the run nor the others."""

import asyncio
import gc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.conversation.broadcaster import (
    CAPACITY,
    MAX_ENTRIES,
    BackpressurePolicy,
    Detached,
    EventBroadcaster,
    EventStream,
)
from dirge_py.conversation.conversation import Conversation
from dirge_py.providers.scripted import Reply
from dirge_py.testing import EventRecorder, FakeClock, assert_event_grammar
from dirge_py.types.events import (
    AgentEnd,
    LoopEvent,
    MessageEnd,
    MessageUpdate,
    SystemNotice,
    ToolExecutionUpdate,
    TurnStart,
)
from dirge_py.types.messages import AssistantMessage
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.types.tools import text_result
from tests.security.sizes import size
from tests.support.project import ScriptedProject

TEXT = "".join(f"{number} " for number in range(2000))


def use_clock(conversation: Conversation, clock: FakeClock) -> None:
    """Make the conversation use this clock."""
    patience = BackpressurePolicy(clock=clock, sleep=clock.sleep)
    conversation._deps = replace(
        conversation._deps, run=replace(conversation._deps.run, backpressure=patience)
    )


def script_reads(project: ScriptedProject, times: int) -> None:
    """Script a model that reads repeatedly, and allow it."""
    project.configure("[loop.storm]\nenabled = false\n")
    for _ in range(times):
        project.model.will_call("list_dir", path=".")


def text_of(events: list[LoopEvent]) -> str:
    updates = [event for event in events if isinstance(event, MessageUpdate)]
    return "".join(event.delta for event in updates if event.phase == "text_delta")


async def all_of(stream: EventStream) -> list[LoopEvent]:
    return [event async for event in stream]


async def until_detached(stream: EventStream) -> tuple[list[LoopEvent], Detached]:
    """The remaining events, and how the reader ends."""
    got: list[LoopEvent] = []
    with pytest.raises(Detached) as caught:
        while True:
            got.append(await anext(stream))
    return got, caught.value


async def until_run_waits(clock: FakeClock) -> None:
    async with asyncio.timeout(30):
        while not clock.sleepers:  # noqa: ASYNC110 - the loop under test sets no event for it
            await asyncio.sleep(0)


def script_long_run(project: ScriptedProject) -> None:
    """6,000 or more deltas, then 75 calls: 300 events."""
    project.configure("[loop.storm]\nenabled = false\n")
    project.model.will(Reply(text=TEXT, chunk_chars=1, calls=[("list_dir", {"path": "."})] * 75))
    project.model.will_say("done")


async def test_a64_stalled_reader_delays_the_run_once_and_others_get_every_event(
    project: ScriptedProject, caplog: Any
) -> None:
    script_long_run(project)
    clock = FakeClock(is_eager=True)
    assert len(TEXT) > 6000

    async with project.open() as conversation:
        use_clock(conversation, clock)
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        run = conversation.send("go")
        stuck, reader = run.events(), asyncio.ensure_future(all_of(run.events()))
        outcome = await run
        read = await reader

    assert isinstance(outcome, Done)
    assert [delay for delay in clock.slept if delay == 30.0] == clock.slept[:1] == [30.0]
    assert text_of(read) == text_of(recorder.events) == TEXT + "done"
    assert [e for e in read if not isinstance(e, MessageUpdate)] == [
        e for e in recorder.events if not isinstance(e, MessageUpdate)
    ]
    assert len(caplog.records) == 1
    [notice] = recorder.of(SystemNotice)
    assert "detached" in notice.content
    await _read_until_detached(stuck, recorder.events)


async def _read_until_detached(stuck: EventStream, events: list[LoopEvent]) -> None:
    got, end = await until_detached(stuck)
    told = [event for event in events if not isinstance(event, MessageUpdate)]
    kept = [event for event in got if not isinstance(event, MessageUpdate)]
    assert kept == told[: len(kept)]
    assert CAPACITY <= len(got) == end.seq < MAX_ENTRIES
    assert end.after_seq is not None
    assert f"records after {end.after_seq}" in end.hint


async def test_detached_reader_gets_the_seq_of_its_last_journal_record(
    project: ScriptedProject,
) -> None:
    script_reads(project, 60)
    project.model.will_say("done")

    async with project.open() as conversation:
        use_clock(conversation, FakeClock(is_eager=True))
        stored: list[int] = []
        conversation.subscribe(lambda event: stored.append(conversation.journal_seq or 0))
        run = conversation.send("go")
        stuck = run.events()
        await run
        got, end = await until_detached(stuck)

    assert end.after_seq == max(stored[: len(got)])


async def test_a105_reader_that_starts_after_the_run_gets_every_event(
    project: ScriptedProject,
) -> None:
    project.model.will(Reply(text="x" * 500, chunk_chars=1))

    async with project.open() as conversation:
        run = conversation.send("go")
        assert isinstance(await run.outcome, Done)
        events = await all_of(run.events())

    assert text_of(events) == "x" * 500
    assert_event_grammar(events)


async def test_a63_run_is_complete_without_readers(project: ScriptedProject) -> None:
    script_long_run(project)
    clock = FakeClock()

    async with project.open() as conversation:
        use_clock(conversation, clock)
        run = conversation.send("go")
        readers = [run.events() for _ in range(3)]
        assert await anext(readers[0])
        await readers[0].aclose()
        del readers
        gc.collect()
        assert isinstance(await run, Done)
        history = list(conversation.messages)

    assert clock.slept == []
    async with project.open("newest") as conversation:
        assert list(conversation.messages) == history


async def test_reader_that_stops_reading_does_not_delay_the_run(project: ScriptedProject) -> None:
    script_long_run(project)
    clock = FakeClock()

    async with project.open() as conversation:
        use_clock(conversation, clock)
        run = conversation.send("go")
        async for event in run.events():
            if isinstance(event, TurnStart):
                break
        assert isinstance(await run, Done)

    assert clock.slept == []


async def test_slow_reader_pauses_the_run_and_gets_every_event(
    project: ScriptedProject,
) -> None:
    script_reads(project, 60)
    project.model.will_say("done")
    clock = FakeClock()

    async with project.open() as conversation:
        use_clock(conversation, clock)
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        run = conversation.send("go")
        stream = run.events()
        await until_run_waits(clock)
        held_at = len(recorder.events)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(recorder.events) == held_at < 2 * CAPACITY

        assert await all_of(stream) == recorder.events
        assert isinstance(await run, Done)


async def test_abort_does_not_wait_for_a_reader(project: ScriptedProject) -> None:
    script_long_run(project)
    clock = FakeClock()

    async with project.open() as conversation:
        use_clock(conversation, clock)
        run = conversation.send("go")
        stuck = run.events()
        await until_run_waits(clock)
        run.abort()
        assert await run == Cancelled(reason="user")

    assert await anext(stuck)


async def test_late_reader_gets_only_later_events(project: ScriptedProject) -> None:
    script_reads(project, 40)
    project.model.will_say("done")
    late: list[EventStream] = []

    async with project.open() as conversation:
        run = conversation.send("go")

        def join(event: LoopEvent) -> None:
            if isinstance(event, TurnStart) and event.turn == 41:
                late.append(run.events())

        conversation.subscribe(join)
        await run
        events = await all_of(late[0])

    assert not late[0].is_whole
    assert isinstance(events[0], MessageEnd | MessageUpdate) or events[0].type == "message_start"
    assert isinstance(events[-1], AgentEnd)
    assert text_of(events) == "done"


async def test_failing_event_sink_is_removed_with_one_log_line(
    project: ScriptedProject, caplog: Any
) -> None:
    """A68 for sinks, which are never awaited."""
    project.model.will_say("pong")

    def broken(event: LoopEvent) -> None:
        if isinstance(event, AgentEnd):
            raise RuntimeError("broken")

    async with project.open() as conversation:
        fine = EventRecorder()
        conversation.subscribe(broken)
        conversation.subscribe(fine)
        assert isinstance(await conversation.send("ping"), Done)

    assert fine.types[-1] == "agent_end"
    assert [record.getMessage() for record in caplog.records] == [
        "a sink failed on agent_end and gets no more events"
    ]


async def test_progress_updates_of_one_call_are_merged_to_the_last() -> None:
    boxes = EventBroadcaster()
    stream = boxes.subscribe()
    for number in range(3 * CAPACITY):
        boxes.put(
            ToolExecutionUpdate(
                tool_call_id="a", tool_name="bash", args={}, partial_result=text_result(f"{number}")
            )
        )
    boxes.close()

    [event] = await all_of(stream)
    assert isinstance(event, ToolExecutionUpdate)
    assert event.partial_result.text == f"{3 * CAPACITY - 1}"


async def test_event_queue_is_limited_to_its_maximum() -> None:
    boxes = EventBroadcaster()
    stream = boxes.subscribe()
    for number in range(3 * MAX_ENTRIES):
        boxes.put(TurnStart(turn=number))

    got, _ = await until_detached(stream)
    assert got == [TurnStart(turn=number) for number in range(MAX_ENTRIES)]


async def test_several_stalled_readers_delay_the_run_only_once() -> None:
    clock = FakeClock()
    boxes = EventBroadcaster(BackpressurePolicy(clock=clock, sleep=clock.sleep))
    stuck = [boxes.subscribe(), boxes.subscribe()]
    for number in range(CAPACITY):
        boxes.put(TurnStart(turn=number))
    waits = [asyncio.ensure_future(boxes.wait_for_capacity()) for _ in range(5)]
    await until_run_waits(clock)
    clock.advance(30.0)
    await asyncio.gather(*waits)

    assert clock.slept == [30.0]
    assert all(stream._subscription.is_detached for stream in stuck)


UPDATES = st.lists(
    st.one_of(
        st.builds(
            MessageUpdate,
            phase=st.sampled_from(["text_delta", "thinking_delta", "toolcall_delta", "text_end"]),
            index=st.integers(0, 1),
            delta=st.text(max_size=3),
        ),
        st.builds(MessageEnd, st.just(AssistantMessage())),
    ),
    max_size=60,
)


@settings(max_examples=size(25, 60), deadline=None)
@given(UPDATES, st.lists(st.booleans(), max_size=60))
async def test_merging_updates_keeps_order_and_text(events: list[Any], reads: list[bool]) -> None:
    boxes = EventBroadcaster()
    stream = boxes.subscribe()
    got: list[Any] = []
    for number, event in enumerate(events):
        boxes.put(event)
        if number < len(reads) and reads[number]:
            got.append(await anext(stream))
    boxes.close()
    got += await all_of(stream)

    assert _as_runs(got) == _as_runs(events)
    assert stream.seq == len(got)


def _as_runs(events: list[Any]) -> list[Any]:
    """The events, with adjacent deltas of one block merged."""
    runs: list[Any] = []
    for event in events:
        if isinstance(event, MessageUpdate) and event.phase.endswith("_delta"):
            last = runs[-1] if runs else None
            if isinstance(last, list) and last[:2] == [event.phase, event.index]:
                last[2] += event.delta
            else:
                runs.append([event.phase, event.index, event.delta])
        else:
            runs.append(event)
    return runs
