"""Failures that random scenarios found, each as its shortest example."""

import asyncio

from dirge_py.sdk.options import SessionChoice
from dirge_py.testing import EventRecorder, assert_event_grammar
from dirge_py.types.events import AgentEnd, LoopEvent, MessageUpdate, SystemNotice
from dirge_py.types.messages import Usage
from tests.support.project import ScriptedProject, on_first

USED = Usage(input=50, output=5)


async def test_unknown_price_is_journaled_as_unknown(project: ScriptedProject) -> None:
    project.model.will_say("with tokens", usage=USED).will_say("without")

    async with project.open() as conversation:
        await conversation.send("one")
        assert conversation.cost_usd is not None
        await conversation.send("two")
        assert conversation.cost_usd is None

    async with project.open("newest") as again:
        assert again.cost_usd is None


async def test_request_that_was_too_long_counts_as_no_turn(project: ScriptedProject) -> None:
    project.model.will_fail("prompt is too long", kind="context_length").will_say("one")

    async with project.open() as conversation:
        first = conversation.send("go")
        await first
        second = conversation.send("again")
        await second
        assert (first.turns, second.turns) == (0, 1)
        recorder = conversation.session.recorder
        assert recorder is not None
        assert recorder.load().turns == 1


async def test_last_message_of_a_plugin_comes_before_agent_end(project: ScriptedProject) -> None:
    project.model.will_say("one")

    async with project.open() as conversation:
        heard = EventRecorder()

        def plugin(event: LoopEvent) -> None:
            heard(event)
            if event.type == "turn_end":
                # Told when somebody next has the word, which is at the end of the run.
                asyncio.get_running_loop().call_soon(conversation._deps.late_notices.append, "odd")

        conversation.subscribe(plugin)
        run = conversation.send("go")
        stream = run.events()
        await run
        assert_event_grammar([event async for event in stream])

    assert [event.content for event in heard.of(SystemNotice)] == ["odd"]
    assert_event_grammar(heard.events)


async def test_notice_after_the_end_does_not_belong_to_the_run(
    project: ScriptedProject,
) -> None:
    project.model.will_say("one")

    async with project.open() as conversation:
        heard = EventRecorder()
        conversation.subscribe(heard)
        late = conversation._deps.late_notices
        conversation.subscribe(on_first(AgentEnd, lambda: late.append("the disk is full")))
        run = conversation.send("go")
        stream = run.events()
        await run
        assert_event_grammar([event async for event in stream])

    assert heard.types[-2:] == ["agent_end", "system_notice"]


async def test_second_close_waits_until_everything_is_released(project: ScriptedProject) -> None:
    project.model.will_say("one", hold=asyncio.Event().wait)
    has_begun = asyncio.Event()
    conversation = project.build(project.user, SessionChoice(kind="new"))
    conversation.subscribe(on_first(MessageUpdate, has_begun.set))
    conversation.send("go")
    await has_begun.wait()

    first = asyncio.ensure_future(conversation.close())
    await asyncio.sleep(0)
    await conversation.close()

    # The journal is free for the next one.
    async with project.open("newest") as again:
        assert again.session_id == conversation.session_id
    await first
