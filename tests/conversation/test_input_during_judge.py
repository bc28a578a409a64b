"""Input that is typed while a judge looks at the finished work."""

from collections.abc import Callable
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.providers.scripted import Reply
from dirge_py.testing import assert_balanced
from dirge_py.types.messages import AssistantMessage, Message, UserMessage
from dirge_py.types.outcomes import Cancelled, Done
from tests.support.project import ScriptedProject

JUDGED = '[loop.gates]\ncritic = "advisory"\n[roles]\ncritic = "fake/gpt-4.1"\n'


@pytest.fixture
def judged(project: ScriptedProject) -> ScriptedProject:
    """A project whose model works, says that it is done, and is then judged."""
    project.configure(JUDGED)
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt").will_say("Done.")
    return project


def judging(verdict: str, meanwhile: Callable[[], object]) -> Callable[[Any], Reply]:
    """A judge's answer; `meanwhile` is called before it is returned."""

    def answer(_context: Any) -> Reply:
        meanwhile()
        return Reply(text=verdict)

    return answer


def texts_after_first_prompt(messages: list[Message]) -> list[str]:
    """Texts after the first prompt, those of user messages with their origin in front."""
    return [
        f"{m.origin}: {m.text.splitlines()[0]}" if isinstance(m, UserMessage) else m.text
        for m in messages[1:]
        if isinstance(m, UserMessage | AssistantMessage) and m.text
    ]


async def run_of(project: ScriptedProject, queue: str, verdict: str) -> Conversation:
    async with project.open() as conversation:
        type_in = getattr(conversation, queue)
        project.model.will(judging(verdict, lambda: type_in("and b.txt")))
        project.model.will_say("That, too.")
        project.model.will_say("COMPLETE")

        outcome = await conversation.send("Look at a.txt")

    assert isinstance(outcome, Done)
    assert not conversation.queued()
    assert_balanced(conversation.messages)
    return conversation


@pytest.mark.parametrize(("queue", "origin"), [("steer", "steering"), ("follow_up", "follow_up")])
async def test_input_during_the_judge_is_delivered_before_the_run_ends(
    judged: ScriptedProject, queue: str, origin: str
) -> None:
    conversation = await run_of(judged, queue, "COMPLETE")
    assert texts_after_first_prompt(list(conversation.messages)) == [
        "Done.",
        f"{origin}: and b.txt",
        "That, too.",
    ]


@pytest.mark.parametrize(("queue", "origin"), [("steer", "steering"), ("follow_up", "follow_up")])
async def test_input_during_the_judge_is_delivered_with_the_judges_request(
    judged: ScriptedProject, queue: str, origin: str
) -> None:
    conversation = await run_of(judged, queue, "INCOMPLETE\n- b.txt is missing")
    done, from_judge, typed, answer = texts_after_first_prompt(list(conversation.messages))
    assert (done, typed, answer) == ("Done.", f"{origin}: and b.txt", "That, too.")
    assert from_judge.startswith("harness: ")


async def test_abort_during_the_judge_leaves_input_queued(judged: ScriptedProject) -> None:
    async with judged.open() as conversation:

        def stop() -> None:
            conversation.steer("and b.txt")
            run.abort()

        judged.model.will(judging("COMPLETE", stop))
        run = conversation.send("Look at a.txt")
        outcome = await run

        assert isinstance(outcome, Cancelled)
        assert [item.message.text for item in conversation.queued()] == ["and b.txt"]
