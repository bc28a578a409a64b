"""Output of the user's own commands enters the history and starts no run."""

import asyncio

import pytest

from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, ToolExecutionStart
from dirge_py.types.messages import UserMessage, user_text
from tests.support.project import ScriptedProject, on_first

RAN = user_text("The person ran `make` (exit 1):\nno rule", "shell")


async def test_insert_is_stored_immediately_and_sent_with_the_next_request(
    project: ScriptedProject,
) -> None:
    project.model.will_say("hello").will_say("There is no rule.")

    async with project.open() as conversation:
        await conversation.send("hi")
        await conversation.inserts.add(RAN)
        assert not conversation.is_running
        assert conversation.messages[-1] == RAN
        assert "no rule" in project.journal.read_text()
        await conversation.send("why?")

    assert project.prompts_of_call() == ["hi", RAN.text, "why?"]
    assert len(project.model.seen) == 2


async def test_insert_is_kept_on_resume_and_is_not_an_undo_point(
    project: ScriptedProject,
) -> None:
    project.model.will_say("hello")
    async with project.open() as conversation:
        await conversation.send("hi")
        await conversation.inserts.add(RAN)

    async with project.open("newest") as conversation:
        assert conversation.messages[-1] == RAN
        assert [point.text for point in conversation.timeline.prompts()] == ["hi"]
        moved = await conversation.timeline.undo()
        assert (moved.text, list(conversation.messages)) == ("hi", [])


async def test_undo_of_a_later_prompt_keeps_the_insert(project: ScriptedProject) -> None:
    project.model.will_say("hello").will_say("I see.")
    async with project.open() as conversation:
        await conversation.send("hi")
        await conversation.inserts.add(RAN)
        await conversation.send("why?")
        await conversation.timeline.undo()

        assert conversation.messages[-1] == RAN


async def test_insert_during_a_run_enters_before_the_next_turn(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".").will_say("I saw it.")
    putting: list[asyncio.Task[None]] = []

    async with project.open() as conversation:
        insert = conversation.inserts.add(RAN)
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: putting.append(asyncio.ensure_future(insert)))
        )
        await conversation.send("start")

        roles = [message.role for message in conversation.messages]
        assert roles == ["user", "assistant", "toolResult", "user", "assistant"]
        assert conversation.messages[3] == RAN
    assert project.prompts_of_call() == ["start", RAN.text]


async def test_insert_during_the_last_answer_is_stored_without_another_turn(
    project: ScriptedProject,
) -> None:
    from_model: list[LoopEvent] = []
    project.model.will_say("done")

    async with project.open() as conversation:
        conversation.subscribe(from_model.append)
        run = conversation.send("start")
        async for event in run.events():
            if event.type == "turn_start":
                await conversation.inserts.add(RAN)
        await run

        assert [message.role for message in conversation.messages] == ["user", "assistant", "user"]
    assert len(project.model.seen) == 1
    assert [event.type for event in from_model][-3:] == [
        "agent_end",
        "message_start",
        "message_end",
    ]


async def test_insert_waits_until_open_calls_have_results(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".").will_say("I saw it.")

    async with project.open() as conversation:
        await conversation.send("start", single_turn=True)
        await conversation.inserts.add(RAN)
        await conversation.continue_run()

        sent = project.model.seen[-1].messages
        assert next(m for m in sent if isinstance(m, UserMessage)).text == "start"
        assert RAN in conversation.messages


async def test_read_only_session_refuses_inserts(project: ScriptedProject) -> None:
    project.model.will_say("hello")
    async with project.open() as conversation:
        await conversation.send("hi")
        looking = project.build(
            project.user, SessionChoice(kind="view", id=str(conversation.session_id))
        )
        with pytest.raises(DirgeError, match="read-only"):
            await looking.inserts.add(RAN)
        await looking.close()

        assert "no rule" not in project.journal.read_text()
