"""What is typed during a run: steering, follow-ups, and that nothing of it is lost."""

import asyncio

import pytest

from dirge_py.types.events import AgentEnd, LoopEvent, MessageUpdate, ToolExecutionStart
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Cancelled, Done, Failed
from tests.conversation.room import Room, users, when


async def test_steering_enters_after_the_calls_and_before_the_next_answer(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("I look at CI.")

    async with room.open() as talk:
        talk.subscribe(when(ToolExecutionStart, lambda: talk.steer("look at CI")))
        await talk.send("start")

        said = [message for message in talk.messages if isinstance(message, UserMessage)]
        assert [(message.text, message.origin) for message in said] == [
            ("start", "user"),
            ("look at CI", "steering"),
        ]
        assert [message.role for message in talk.messages] == [
            "user",
            "assistant",
            "toolResult",
            "user",
            "assistant",
        ]
    assert room.heard()[-1].endswith("look at CI")
    assert len(room.heard(0)) == 1


async def test_a_follow_up_waits_until_the_agent_would_rest(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("done").will_say("tested")

    async with room.open() as talk:
        talk.subscribe(when(ToolExecutionStart, lambda: talk.follow_up("write a test")))
        outcome = await talk.send("start")

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == "tested"
    assert [len(users(context)) for context in room.model.seen] == [1, 1, 2]


async def test_steering_while_idle_waits_for_the_next_run(room: Room) -> None:
    room.model.will_say("ok")

    async with room.open() as talk:
        talk.steer("be brief")
        assert [item.message.text for item in talk.queued()] == ["be brief"]
        await talk.send("start")
        assert list(talk.queued()) == []

    heard = room.heard()
    assert heard[0] == "start"
    assert heard[1].endswith("be brief")


async def test_what_is_queued_can_be_taken_back_in_the_order_it_was_typed(room: Room) -> None:
    async with room.open() as talk:
        talk.follow_up("a")
        talk.steer("b")
        talk.follow_up("c")

        taken = talk.take_back()

        assert [(item.kind, item.message.text) for item in taken] == [
            ("follow_up", "a"),
            ("steering", "b"),
            ("follow_up", "c"),
        ]
        assert list(talk.queued()) == []


@pytest.mark.parametrize("stop", ["abort", "interject"])
async def test_what_a_stopped_run_did_not_take_is_still_queued(room: Room, stop: str) -> None:
    room.model.will_call("list_dir", path=".").will_say("both answered")

    async with room.open() as talk:

        def type_and_stop() -> None:
            talk.steer("first")
            talk.follow_up("second")
            getattr(talk, stop)()

        talk.subscribe(when(ToolExecutionStart, type_and_stop))
        outcome = await talk.send("start")
        assert isinstance(outcome, Cancelled)
        assert [item.message.text for item in talk.queued()] == ["first", "second"]

        run = talk.resume_queued()
        assert run is not None
        await run
        assert list(talk.queued()) == []

    assert any("first" in text and "second" in text for text in room.heard())


async def test_what_a_failed_run_did_not_take_is_still_queued(room: Room) -> None:
    gate = asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    room.model.will_say("half", hold=hold)
    room.model.will_fail("no", kind="auth")
    async with room.open() as talk:
        await _sent_and_failed(room, talk, gate)

        assert [item.message.text for item in talk.queued()] == ["later"]


async def _sent_and_failed(room: Room, talk: object, gate: asyncio.Event) -> None:
    from dirge_py.conversation.conversation import Conversation

    assert isinstance(talk, Conversation)
    gate.set()
    await talk.send("works")
    run = talk.send("fails")
    talk.follow_up("later")
    assert isinstance(await run, Failed)


async def test_nothing_queued_starts_no_run(room: Room) -> None:
    async with room.open() as talk:
        assert talk.resume_queued() is None


async def test_what_comes_in_the_very_last_moment_is_not_lost(room: Room) -> None:
    room.model.will_say("one").will_say("two")

    async with room.open() as talk:
        talk.subscribe(when(AgentEnd, lambda: talk.steer("wait, and this")))
        await talk.send("start")

        run = talk.resume_queued()
        assert run is not None
        await run

    assert "wait, and this" in room.heard()[-1]


async def test_everything_typed_reaches_the_model_exactly_once(room: Room) -> None:
    for _ in range(20):
        room.model.will_call("list_dir", path=".")
    for _ in range(30):
        room.model.will_say("ok")
    typed: list[str] = []

    async with room.open() as talk:

        def type_on(event: LoopEvent) -> None:
            if event.type in ("turn_start", "turn_end", "message_end") and len(typed) < 40:
                typed.append(f"<{len(typed)}>")
                (talk.steer if len(typed) % 3 else talk.follow_up)(typed[-1])

        remove = talk.subscribe(type_on)
        await talk.send("start")
        remove()
        while run := talk.resume_queued():
            await run
        said = "".join(m.text for m in talk.messages if isinstance(m, UserMessage))

    assert len(typed) == 40
    assert all(said.count(text) == 1 for text in typed)


async def test_one_at_a_time_delivers_one_at_a_time(room: Room) -> None:
    room.configure('[loop]\nsteering = "one-at-a-time"\n')
    room.model.will_say("a").will_say("b").will_say("c")

    async with room.open() as talk:
        talk.steer("first")
        talk.steer("second")
        await talk.send("start")

    assert [len(users(context)) for context in room.model.seen] == [2, 3]


async def test_case_50_what_comes_during_a_last_answer_is_answered_too(room: Room) -> None:
    room.model.will_say("a").will_say("b")

    async with room.open() as talk:
        talk.subscribe(when(MessageUpdate, lambda: talk.steer("and this")))
        await talk.send("start")

    assert len(room.model.seen) == 2
    assert "and this" in room.heard()[-1]
