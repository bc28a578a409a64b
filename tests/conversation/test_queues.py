"""Input during a run: steering and follow-ups, none of them lost."""

import asyncio

import pytest

from dirge_py.types.events import AgentEnd, LoopEvent, MessageUpdate, ToolExecutionStart
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Cancelled, Done, Failed
from tests.support.project import ScriptedProject, on_first, user_texts


async def test_steering_enters_after_tool_results_and_before_the_next_answer(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("I look at CI.")

    async with project.open() as conversation:
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: conversation.steer("look at CI"))
        )
        await conversation.send("start")

        prompts = [message for message in conversation.messages if isinstance(message, UserMessage)]
        assert [(message.text, message.origin) for message in prompts] == [
            ("start", "user"),
            ("look at CI", "steering"),
        ]
        assert [message.role for message in conversation.messages] == [
            "user",
            "assistant",
            "toolResult",
            "user",
            "assistant",
        ]
    assert project.prompts_of_call()[-1].endswith("look at CI")
    assert len(project.prompts_of_call(0)) == 1


async def test_follow_up_waits_until_the_agent_would_stop(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".").will_say("done").will_say("tested")

    async with project.open() as conversation:
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: conversation.follow_up("write a test"))
        )
        outcome = await conversation.send("start")

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == "tested"
    assert [len(user_texts(context)) for context in project.model.seen] == [1, 1, 2]


async def test_steering_while_idle_waits_for_the_next_run(project: ScriptedProject) -> None:
    project.model.will_say("ok")

    async with project.open() as conversation:
        conversation.steer("be brief")
        assert [item.message.text for item in conversation.queued()] == ["be brief"]
        await conversation.send("start")
        assert list(conversation.queued()) == []

    heard = project.prompts_of_call()
    assert heard[0] == "start"
    assert heard[1].endswith("be brief")


async def test_take_back_returns_queued_messages_in_typing_order(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        conversation.follow_up("a")
        conversation.steer("b")
        conversation.follow_up("c")

        taken = conversation.take_back()

        assert [(item.kind, item.message.text) for item in taken] == [
            ("follow_up", "a"),
            ("steering", "b"),
            ("follow_up", "c"),
        ]
        assert list(conversation.queued()) == []


@pytest.mark.parametrize("stop", ["abort", "interject"])
async def test_messages_not_delivered_before_a_stop_stay_queued(
    project: ScriptedProject, stop: str
) -> None:
    project.model.will_call("list_dir", path=".").will_say("both answered")

    async with project.open() as conversation:

        def type_and_stop() -> None:
            conversation.steer("first")
            conversation.follow_up("second")
            getattr(conversation, stop)()

        conversation.subscribe(on_first(ToolExecutionStart, type_and_stop))
        outcome = await conversation.send("start")
        assert isinstance(outcome, Cancelled)
        assert [item.message.text for item in conversation.queued()] == ["first", "second"]

        run = conversation.resume_queued()
        assert run is not None
        await run
        assert list(conversation.queued()) == []

    assert any("first" in text and "second" in text for text in project.prompts_of_call())


async def test_messages_not_delivered_before_a_failure_stay_queued(
    project: ScriptedProject,
) -> None:
    gate = asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    project.model.will_say("half", hold=hold)
    project.model.will_fail("no", kind="auth")
    async with project.open() as conversation:
        await _sent_and_failed(project, conversation, gate)

        assert [item.message.text for item in conversation.queued()] == ["later"]


async def _sent_and_failed(
    project: ScriptedProject, conversation: object, gate: asyncio.Event
) -> None:
    from dirge_py.conversation.conversation import Conversation

    assert isinstance(conversation, Conversation)
    gate.set()
    await conversation.send("works")
    run = conversation.send("fails")
    conversation.follow_up("later")
    assert isinstance(await run, Failed)


async def test_resume_with_an_empty_queue_starts_no_run(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        assert conversation.resume_queued() is None


async def test_message_queued_at_agent_end_is_delivered_by_the_next_run(
    project: ScriptedProject,
) -> None:
    project.model.will_say("one").will_say("two")

    async with project.open() as conversation:
        conversation.subscribe(on_first(AgentEnd, lambda: conversation.steer("wait, and this")))
        await conversation.send("start")

        run = conversation.resume_queued()
        assert run is not None
        await run

    assert "wait, and this" in project.prompts_of_call()[-1]


async def test_every_queued_message_reaches_the_model_exactly_once(
    project: ScriptedProject,
) -> None:
    for _ in range(20):
        project.model.will_call("list_dir", path=".")
    for _ in range(30):
        project.model.will_say("ok")
    typed: list[str] = []

    async with project.open() as conversation:

        def type_on(event: LoopEvent) -> None:
            if event.type in ("turn_start", "turn_end", "message_end") and len(typed) < 40:
                typed.append(f"<{len(typed)}>")
                (conversation.steer if len(typed) % 3 else conversation.follow_up)(typed[-1])

        remove = conversation.subscribe(type_on)
        await conversation.send("start")
        remove()
        while run := conversation.resume_queued():
            await run
        said = "".join(m.text for m in conversation.messages if isinstance(m, UserMessage))

    assert len(typed) == 40
    assert all(said.count(text) == 1 for text in typed)


async def test_steering_mode_one_at_a_time_delivers_one_message_per_turn(
    project: ScriptedProject,
) -> None:
    project.configure('[loop]\nsteering = "one-at-a-time"\n')
    project.model.will_say("a").will_say("b").will_say("c")

    async with project.open() as conversation:
        conversation.steer("first")
        conversation.steer("second")
        await conversation.send("start")

    assert [len(user_texts(context)) for context in project.model.seen] == [2, 3]


async def test_case_50_steering_during_the_last_answer_gets_another_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_say("a").will_say("b")

    async with project.open() as conversation:
        conversation.subscribe(on_first(MessageUpdate, lambda: conversation.steer("and this")))
        await conversation.send("start")

    assert len(project.model.seen) == 2
    assert "and this" in project.prompts_of_call()[-1]
