"""One run at a time: start, events, end."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.testing import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import AgentEnd, AgentStart, LoopEvent, MessageUpdate, ToolExecutionStart
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import Message, ToolResultMessage, Usage
from dirge_py.types.outcomes import Cancelled, Done, Failed, LimitExceeded
from tests.support.project import ScriptedProject, on_first


async def test_outcome_contains_response_messages_usage_and_turns(
    project: ScriptedProject,
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt")
    project.model.will_say("It is one.", usage=Usage(input=100, output=10))

    async with project.open() as conversation:
        outcome = await conversation.send("What is in a.txt?")

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == "It is one."
    assert outcome.result.turns == 2
    assert outcome.result.usage == Usage(input=100, output=10)
    assert list(outcome.result.messages) == list(conversation.messages)
    assert_balanced(conversation.messages)


async def test_late_reader_of_a_finished_run_gets_every_event_in_order(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        run = conversation.send("look")
        await run
        events = [event async for event in run.events()]

    assert events == recorder.events
    assert_event_grammar(events)


async def test_second_concurrent_run_is_refused(project: ScriptedProject) -> None:
    gate = asyncio.Event()
    project.model.will_say("one", hold=gate.wait)

    async with project.open() as conversation:
        run = conversation.send("first")
        with pytest.raises(DirgeError, match="a run is active"):
            conversation.send("second")
        gate.set()
        assert isinstance(await run, Done)
        assert not conversation.is_running


async def test_event_sink_that_raises_is_removed_and_the_run_continues(
    project: ScriptedProject,
) -> None:
    project.model.will_say("pong")
    calls: list[LoopEvent] = []

    def broken(event: LoopEvent) -> None:
        calls.append(event)
        raise RuntimeError("broken")

    async with project.open() as conversation:
        conversation.subscribe(broken)
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        assert isinstance(await conversation.send("ping"), Done)

    assert len(calls) == 1
    assert recorder.types[-1] == "agent_end"


async def test_removed_event_sink_gets_no_events(project: ScriptedProject) -> None:
    project.model.will_say("pong")
    recorder = EventRecorder()

    async with project.open() as conversation:
        conversation.subscribe(recorder)()
        await conversation.send("ping")

    assert recorder.events == []


async def test_abort_during_a_command_records_a_tool_result(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="sleep 600")
    project.configure('[permission]\nmode = "yolo"\n')

    async with project.open() as conversation:
        conversation.subscribe(on_first(ToolExecutionStart, conversation.abort))
        outcome = await conversation.send("wait")

        assert outcome == Cancelled(reason="user")
        assert_balanced(conversation.messages)
        assert isinstance(conversation.messages[-1], ToolResultMessage)


async def test_interject_stops_the_run_after_the_current_turn(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".").will_say("never")

    async with project.open() as conversation:
        conversation.subscribe(on_first(ToolExecutionStart, conversation.interject))
        outcome = await conversation.send("look")

        assert outcome == Cancelled(reason="interject")
        assert isinstance(conversation.messages[-1], ToolResultMessage)
        assert not conversation.messages[-1].is_error


async def test_abort_and_interject_without_a_run_have_no_effect(project: ScriptedProject) -> None:
    project.model.will_say("pong")

    async with project.open() as conversation:
        conversation.abort()
        conversation.interject()
        assert isinstance(await conversation.send("ping"), Done)


async def test_close_during_a_run_cancels_the_run_first(project: ScriptedProject) -> None:
    project.model.will_say("half", hold=asyncio.Event().wait)

    async with project.open() as conversation:
        run = conversation.send("ping")
        conversation.subscribe(on_first(MessageUpdate, lambda: closing.set()))
        closing = asyncio.Event()
        await closing.wait()
        await conversation.close()

        assert await run == Cancelled(reason="closed")
        with pytest.raises(DirgeError, match="closed"):
            conversation.send("again")

    assert "half" in project.journal.read_text()


async def test_concurrent_close_calls_all_return(project: ScriptedProject) -> None:
    project.model.will_say("pong")
    async with project.open() as conversation:
        await conversation.send("ping")
        await asyncio.gather(conversation.close(), conversation.close())


async def test_continue_after_a_complete_answer_is_refused(project: ScriptedProject) -> None:
    project.model.will_say("pong")

    async with project.open() as conversation:
        with pytest.raises(DirgeError, match="nothing to continue"):
            conversation.continue_run()
        await conversation.send("ping")
        with pytest.raises(DirgeError, match="nothing to continue"):
            conversation.continue_run()


async def test_interrupted_run_can_be_continued(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        conversation.subscribe(on_first(ToolExecutionStart, conversation.interject))
        await conversation.send("look")
        done = await conversation.continue_run()

    assert isinstance(done, Done) and done.result is not None
    assert done.result.response == "Empty."
    assert project.prompts_of_call() == ["look"]


async def test_prompt_after_a_failed_run_continues_the_history(project: ScriptedProject) -> None:
    project.model.will_fail("no", kind="auth", text="half").will_say("pong")

    async with project.open() as conversation:
        failed = await conversation.send("ping")
        await conversation.send("again")

    assert isinstance(failed, Failed) and failed.kind == "auth"
    assert project.prompts_of_call() == ["ping", "again"]


async def test_run_that_fails_before_the_loop_emits_start_and_end(
    project: ScriptedProject,
) -> None:
    project.model.will_say("never")
    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        conversation._deps = replace(
            conversation._deps, environment=replace(conversation.environment, system_prompt=_broken)
        )

        outcome = await conversation.send("ping")

    assert isinstance(outcome, Failed) and outcome.kind == "bug"
    assert [type(event) for event in recorder.events] == [AgentStart, AgentEnd]


def _broken(names: object) -> str:
    raise RuntimeError("no prompt")


async def test_time_limit_ends_the_run(project: ScriptedProject) -> None:
    project.configure("[limits]\ntime_s = 0.05\n")
    project.model.will_say("half", hold=asyncio.Event().wait)

    async with project.open() as conversation:
        outcome = await conversation.send("ping")

    assert isinstance(outcome, LimitExceeded)
    assert (outcome.name, outcome.max) == ("time", 0.05)


async def test_time_limit_timer_is_cancelled_with_the_run(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure("[limits]\ntime_s = 1234.5\n")
    project.model.will_say("one")
    loop = asyncio.get_running_loop()
    call_later, clocks = loop.call_later, []

    def watched(delay: float, *call: Any, **more: Any) -> asyncio.TimerHandle:
        handle = call_later(delay, *call, **more)
        if delay == 1234.5:
            clocks.append(handle)
        return handle

    monkeypatch.setattr(loop, "call_later", watched)
    async with project.open() as conversation:
        assert isinstance(await conversation.send("first"), Done)

    assert [clock.cancelled() for clock in clocks] == [True]


async def test_abort_during_a_judge_cancels_the_run_and_keeps_the_answer(
    project: ScriptedProject,
) -> None:
    project.model.will_say("The report.")

    async def forever(_info: object, _so_far: object) -> list[Message]:
        conversation.abort("SIGINT")
        await asyncio.Event().wait()
        return []

    async with project.open() as conversation:
        judge = Hooks(name="judge", get_followup_messages=forever)
        outcome = await conversation.send("go", bundles=[judge])

        assert outcome == Cancelled(reason="SIGINT")
        assert conversation.messages[-1].text == "The report."


async def test_abort_during_system_prompt_build_takes_effect_immediately(
    project: ScriptedProject,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write(_names: object) -> str:
        begun.set()
        go_on.wait(20)
        return "never sent"

    async with project.open() as conversation:
        conversation._deps = replace(
            conversation._deps, environment=replace(conversation.environment, system_prompt=write)
        )
        run = conversation.send("go")
        await asyncio.to_thread(begun.wait, 20)
        conversation.abort()
        assert isinstance(await run, Cancelled)
        go_on.set()
        assert [message.text for message in run.unsent] == ["go"]
    assert project.model.seen == []
