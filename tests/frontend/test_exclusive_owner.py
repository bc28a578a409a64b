"""Input while a plan or another owner has the conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dirge_py.conversation.conversation import Conversation
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.events import AgentStart
from dirge_py.types.outcomes import Cancelled
from tests.support.exclusive_owner import PROMPT, RecordingView, ScriptedOwner
from tests.support.project import ScriptedProject, on_first


async def until(holds: Callable[[], object]) -> None:
    never = asyncio.get_running_loop().create_future()
    for _ in range(2000):
        if holds():
            return
        await asyncio.wait([never], timeout=0.005)
    raise AssertionError("never came true")


@asynccontextmanager
async def at_work(
    project: ScriptedProject,
) -> AsyncIterator[tuple[RecordingView, ScriptedOwner, Conversation]]:
    """`/work` was typed, and its preparation runs."""
    worker = ScriptedOwner()
    front = RecordingView(worker.command())
    conversation = project.build(project.user, SessionChoice())
    front.controller.adopt(conversation, lambda event: None)
    front.type("/work")
    await until(lambda: conversation.exclusive_owner)
    try:
        yield front, worker, conversation
    finally:
        await front.controller.close()


async def test_prompt_typed_before_run_of_exclusive_owner_enters_that_run(
    project: ScriptedProject,
) -> None:
    project.model.will_say("done").will_say("and that")
    async with at_work(project) as (front, worker, _):
        assert front.controller.state == "working"
        await front.type("mind the gap")
        assert front.queue == [("next_run", "mind the gap")]
        worker.prepared.set()
        await until(lambda: not front.controller.waiting)
        worker.looked.set()
        await until(lambda: front.controller.state == "ready")

    assert project.prompts_of_call(0)[0] == PROMPT
    assert project.prompts_of_call(0)[1].endswith("mind the gap")
    assert front.given_back == []


async def test_prompt_typed_during_run_of_exclusive_owner_steers_it(
    project: ScriptedProject,
) -> None:
    gate = asyncio.Event()
    project.model.will(Reply(text="done", hold=gate.wait)).will_say("and that")
    async with at_work(project) as (front, worker, conversation):
        worker.prepared.set()
        await until(lambda: conversation.is_running and front.controller.is_running)
        await front.type("and the edges")
        assert front.queue == [("steering", "and the edges")]
        gate.set()
        await until(lambda: not conversation.is_running)
        assert front.controller.state == "working"
        worker.looked.set()
        await until(lambda: front.controller.state == "ready")

    assert project.prompts_of_call(-1)[1].endswith("and the edges")


async def test_prompt_queued_until_exclusive_owner_ends_is_sent_afterwards(
    project: ScriptedProject,
) -> None:
    project.model.will_say("done").will_say("thanks")
    async with at_work(project) as (front, worker, conversation):
        worker.prepared.set()
        await until(lambda: conversation.messages and not conversation.is_running)
        await front.type("thank you")
        assert front.queue == [("next_run", "thank you")]
        worker.looked.set()
        await until(lambda: len(project.model.seen) == 2 and front.controller.state == "ready")

    assert project.prompts_of_call(-1) == [PROMPT, "thank you"]
    assert front.queue == []


async def test_interrupt_stops_exclusive_owner_and_returns_queued_prompts(
    project: ScriptedProject,
) -> None:
    async with at_work(project) as (front, worker, _):
        await front.type("mind the gap")
        worker.packed.clear()
        assert front.controller.interrupt()
        assert front.controller.state == "interrupting"
        await front.type("typed while it leaves")
        worker.packed.set()
        await until(lambda: len(front.given_back) == 2)

    assert worker.stopped == ["user"]
    assert front.given_back == ["mind the gap", "typed while it leaves"]
    assert project.model.seen == []


async def test_interrupt_ends_run_of_exclusive_owner_and_sends_nothing(
    project: ScriptedProject,
) -> None:
    project.model.will(Reply(text="never", hold=asyncio.Event().wait))
    outcomes = []
    async with at_work(project) as (front, worker, conversation):
        worker.prepared.set()
        await until(lambda: project.model.seen and front.controller.is_running)
        run = conversation.run
        assert run is not None
        await front.type("and the edges")
        front.controller.interrupt()
        outcomes.append(await run)
        await until(lambda: front.controller.state == "ready")

    assert outcomes == [Cancelled(reason="user")]
    assert front.given_back == ["and the edges"]
    assert len(project.model.seen) == 1


async def test_prompt_of_exclusive_owner_is_not_returned_to_input(project: ScriptedProject) -> None:
    unsent: list[str] = []
    async with at_work(project) as (front, worker, conversation):

        def stop() -> None:
            assert conversation.run is not None
            unsent.extend(m.text for m in conversation.run.unsent)
            front.controller.interrupt()

        conversation.subscribe(on_first(AgentStart, stop))
        await front.type("and the edges")
        worker.prepared.set()
        await until(lambda: front.given_back and front.controller.state == "ready")

    assert unsent == [PROMPT]
    assert front.given_back == ["and the edges"]


async def test_close_waits_for_exclusive_owner_to_clean_up(project: ScriptedProject) -> None:
    async with at_work(project) as (front, worker, conversation):
        await front.controller.close()
        assert conversation.exclusive_owner is None

    assert worker.stopped == ["closed"]
