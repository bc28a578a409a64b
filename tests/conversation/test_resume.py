"""Closing and resuming a session."""

import pytest

from dirge_py.testing import assert_balanced
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import ToolResultMessage, Usage
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject
from tests.support.truncated_journal import cut_behind


async def test_usage_and_cost_are_summed_over_the_whole_session(project: ScriptedProject) -> None:
    project.model.will_say("one", usage=Usage(input=1000, output=100))
    project.model.will_say("two", usage=Usage(input=2000, output=200))

    async with project.open() as conversation:
        await conversation.send("first")
    async with project.open("newest") as conversation:
        assert conversation.usage == Usage(input=1000, output=100)
        assert conversation.context_tokens == 1100
        await conversation.send("second")

        assert conversation.usage == Usage(input=3000, output=300)
        assert conversation.cost_usd == pytest.approx((3000 * 2.5 + 300 * 10) / 1e6)
        assert conversation.context_tokens == 2200


async def test_resumed_session_has_the_same_messages(project: ScriptedProject) -> None:
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt").will_say("It is one.", thinking="hm")

    async with project.open() as conversation:
        await conversation.send("What is in it?")
        before, name = list(conversation.messages), conversation.session_id
    async with project.open("newest") as conversation:
        assert list(conversation.messages) == before
        assert conversation.session_id == name
        assert [summary.id for summary in conversation.session.list_sessions()] == [name]


async def test_prompt_after_a_crash_closes_the_interrupted_call_with_one_notice(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command="touch a").will_say("going on")
    project.user.answer = PermissionAnswer(effect="allow")
    async with project.open() as conversation:
        await conversation.send("touch")
    cut_behind(project.journal, "tool_started")

    received: list[str] = []
    async with project.open("newest") as conversation:
        assert conversation.interruption is not None
        conversation.subscribe(
            lambda e: received.append(e.content) if isinstance(e, SystemNotice) else None
        )
        await conversation.send("and now?")
        assert conversation.interruption is None
        assert_balanced(conversation.messages)
        [result] = [m for m in conversation.messages if isinstance(m, ToolResultMessage)]
        assert result.is_error and "its outcome is unknown" in result.text
    async with project.open("newest") as conversation:
        assert (conversation.interruption, list(conversation.notices)) == (None, [])

    assert [words for words in received if "interrupted tool call(s) (bash)" in words] == received
    assert len(received) == len(project.user.asked) == 1


async def test_deferred_call_can_be_approved_later(project: ScriptedProject) -> None:
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="touch a").will_say("touched")

    async with project.open() as conversation:
        waiting = await conversation.send("touch")
        assert isinstance(waiting, AwaitingConfirmation)
        decisions = [CallDecision(tool_call_id=waiting.call_ids[0], allow=True)]
        outcome = await conversation.continue_run(decisions)

        assert isinstance(outcome, Done)
        assert_balanced(conversation.messages)
    assert (project.folder / "a").exists()


async def test_deferred_call_skipped_by_a_new_prompt_gets_a_result(
    project: ScriptedProject,
) -> None:
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="touch a").will_say("never mind then")

    async with project.open() as conversation:
        await conversation.send("touch")
        await conversation.send("never mind")

    async with project.open("newest") as conversation:
        assert_balanced(conversation.messages)
    assert not (project.folder / "a").exists()


async def test_conversation_without_messages_stores_no_session(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        conversation.settings.set_mode("accept")
        conversation.settings.set_model("gpt-4.1")

    assert list(project.state_dir.rglob("*.jsonl")) == []


async def test_missing_model_of_a_resumed_session_is_reported(project: ScriptedProject) -> None:
    project.model.will_say("one")
    async with project.open() as conversation:
        conversation.settings.set_model("gpt-4.1")
        await conversation.send("first")
    project.configure(alias="other")

    async with project.open("newest") as conversation:
        assert conversation.settings.model == "other/gpt-4o"
        assert any("fake/gpt-4.1" in notice for notice in conversation.notices)
