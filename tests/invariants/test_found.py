"""What random stories found out once, each as the shortest example of it."""

import asyncio

from dirge_py.sdk.options import SessionChoice
from dirge_py.testing import EventRecorder, assert_event_grammar
from dirge_py.types.events import AgentEnd, LoopEvent, MessageUpdate, SystemNotice
from dirge_py.types.messages import Usage
from tests.conversation.room import Room, when

USED = Usage(input=50, output=5)


async def test_a_price_that_is_unknown_stays_so_in_the_journal(room: Room) -> None:
    room.model.will_say("with tokens", usage=USED).will_say("without")

    async with room.open() as talk:
        await talk.send("one")
        assert talk.cost_usd is not None
        await talk.send("two")
        assert talk.cost_usd is None

    async with room.open("newest") as again:
        assert again.cost_usd is None


async def test_a_request_that_was_too_long_is_a_turn_nowhere(room: Room) -> None:
    room.model.will_fail("prompt is too long", kind="context_length").will_say("one")

    async with room.open() as talk:
        first = talk.send("go")
        await first
        second = talk.send("again")
        await second
        assert (first.turns, second.turns) == (0, 1)
        recorder = talk.session.recorder
        assert recorder is not None
        assert recorder.load().turns == 1


async def test_what_a_plugin_says_at_last_comes_before_the_end(room: Room) -> None:
    room.model.will_say("one")

    async with room.open() as talk:
        heard = EventRecorder()

        def plugin(event: LoopEvent) -> None:
            heard(event)
            if event.type == "turn_end":
                # Told when somebody next has the word, which is at the end of the run.
                asyncio.get_running_loop().call_soon(talk._deps.late_notices.append, "odd")

        talk.subscribe(plugin)
        run = talk.send("go")
        stream = run.events()
        await run
        assert_event_grammar([event async for event in stream])

    assert [event.content for event in heard.of(SystemNotice)] == ["odd"]
    assert_event_grammar(heard.events)


async def test_a_notice_about_the_end_of_a_run_is_no_part_of_the_run(room: Room) -> None:
    room.model.will_say("one")

    async with room.open() as talk:
        heard = EventRecorder()
        talk.subscribe(heard)
        late = talk._deps.late_notices
        talk.subscribe(when(AgentEnd, lambda: late.append("the disk is full")))
        run = talk.send("go")
        stream = run.events()
        await run
        assert_event_grammar([event async for event in stream])

    assert heard.types[-2:] == ["agent_end", "system_notice"]


async def test_who_closes_again_waits_until_all_is_let_go(room: Room) -> None:
    room.model.will_say("one", hold=asyncio.Event().wait)
    has_begun = asyncio.Event()
    talk = room.build(room.person, SessionChoice(kind="new"))
    talk.subscribe(when(MessageUpdate, has_begun.set))
    talk.send("go")
    await has_begun.wait()

    first = asyncio.ensure_future(talk.close())
    await asyncio.sleep(0)
    await talk.close()

    # The journal is free for the next one.
    async with room.open("newest") as again:
        assert again.session_id == talk.session_id
    await first
