"""What a person ran themselves enters the history beside the prompts, and opens no run."""

import asyncio

import pytest

from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, ToolExecutionStart
from dirge_py.types.messages import UserMessage, user_text
from tests.conversation.room import Room, when

RAN = user_text("The person ran `make` (exit 1):\nno rule", "shell")


async def test_an_insert_is_stored_at_once_and_in_the_next_request(room: Room) -> None:
    room.model.will_say("hello").will_say("There is no rule.")

    async with room.open() as talk:
        await talk.send("hi")
        await talk.inserts.add(RAN)
        assert not talk.is_running
        assert talk.messages[-1] == RAN
        assert "no rule" in room.journal.read_text()
        await talk.send("why?")

    assert room.heard() == ["hi", RAN.text, "why?"]
    assert len(room.model.seen) == 2


async def test_an_insert_survives_a_resume_and_is_no_prompt_to_go_back_to(room: Room) -> None:
    room.model.will_say("hello")
    async with room.open() as talk:
        await talk.send("hi")
        await talk.inserts.add(RAN)

    async with room.open("newest") as talk:
        assert talk.messages[-1] == RAN
        assert [point.text for point in talk.timeline.prompts()] == ["hi"]
        moved = await talk.timeline.undo()
        assert (moved.text, list(talk.messages)) == ("hi", [])


async def test_going_back_before_a_later_prompt_keeps_the_insert(room: Room) -> None:
    room.model.will_say("hello").will_say("I see.")
    async with room.open() as talk:
        await talk.send("hi")
        await talk.inserts.add(RAN)
        await talk.send("why?")
        await talk.timeline.undo()

        assert talk.messages[-1] == RAN


async def test_during_a_run_an_insert_enters_at_the_next_boundary(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("I saw it.")
    putting: list[asyncio.Task[None]] = []

    async with room.open() as talk:
        insert = talk.inserts.add(RAN)
        talk.subscribe(
            when(ToolExecutionStart, lambda: putting.append(asyncio.ensure_future(insert)))
        )
        await talk.send("start")

        roles = [message.role for message in talk.messages]
        assert roles == ["user", "assistant", "toolResult", "user", "assistant"]
        assert talk.messages[3] == RAN
    assert room.heard() == ["start", RAN.text]


async def test_what_comes_with_the_last_answer_is_stored_and_makes_no_further_turn(
    room: Room,
) -> None:
    from_model: list[LoopEvent] = []
    room.model.will_say("done")

    async with room.open() as talk:
        talk.subscribe(from_model.append)
        run = talk.send("start")
        async for event in run.events():
            if event.type == "turn_start":
                await talk.inserts.add(RAN)
        await run

        assert [message.role for message in talk.messages] == ["user", "assistant", "user"]
    assert len(room.model.seen) == 1
    assert [event.type for event in from_model][-3:] == [
        "agent_end",
        "message_start",
        "message_end",
    ]


async def test_while_a_call_is_open_an_insert_waits(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("I saw it.")

    async with room.open() as talk:
        await talk.send("start", single_turn=True)
        await talk.inserts.add(RAN)
        await talk.continue_run()

        sent = room.model.seen[-1].messages
        assert next(m for m in sent if isinstance(m, UserMessage)).text == "start"
        assert RAN in talk.messages


async def test_a_session_that_is_only_looked_at_takes_no_insert(room: Room) -> None:
    room.model.will_say("hello")
    async with room.open() as talk:
        await talk.send("hi")
        looking = room.build(room.person, SessionChoice(kind="view", id=str(talk.session_id)))
        with pytest.raises(DirgeError, match="read-only"):
            await looking.inserts.add(RAN)
        await looking.close()

        assert "no rule" not in room.journal.read_text()
