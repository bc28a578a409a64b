"""A session left and taken up again."""

import pytest

from dirge_py.testing import assert_balanced
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import ToolResultMessage, Usage
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room
from tests.session.cut import cut_behind


async def test_tokens_and_cost_add_up_over_the_whole_session(room: Room) -> None:
    room.model.will_say("one", usage=Usage(input=1000, output=100))
    room.model.will_say("two", usage=Usage(input=2000, output=200))

    async with room.open() as talk:
        await talk.send("first")
    async with room.open("newest") as talk:
        assert talk.usage == Usage(input=1000, output=100)
        assert talk.context_tokens == 1100
        await talk.send("second")

        assert talk.usage == Usage(input=3000, output=300)
        assert talk.cost_usd == pytest.approx((3000 * 2.5 + 300 * 10) / 1e6)
        assert talk.context_tokens == 2200


async def test_history_comes_back_as_it_was(room: Room) -> None:
    (room.project / "a.txt").write_text("one\n")
    room.model.will_call("read", path="a.txt").will_say("It is one.", thinking="hm")

    async with room.open() as talk:
        await talk.send("What is in it?")
        before, name = list(talk.messages), talk.session_id
    async with room.open("newest") as talk:
        assert list(talk.messages) == before
        assert talk.session_id == name
        assert [summary.id for summary in talk.session.list_sessions()] == [name]


async def test_a_prompt_closes_a_call_that_was_interrupted_and_that_is_told_once(
    room: Room,
) -> None:
    room.model.will_call("bash", command="touch a").will_say("going on")
    room.person.answer = PermissionAnswer(effect="allow")
    async with room.open() as talk:
        await talk.send("touch")
    cut_behind(room.journal, "tool_started")

    told: list[str] = []
    async with room.open("newest") as talk:
        assert talk.interruption is not None
        talk.subscribe(lambda e: told.append(e.content) if isinstance(e, SystemNotice) else None)
        await talk.send("and now?")
        assert talk.interruption is None
        assert_balanced(talk.messages)
        [result] = [m for m in talk.messages if isinstance(m, ToolResultMessage)]
        assert result.is_error and "its outcome is unknown" in result.text
    async with room.open("newest") as talk:
        assert (talk.interruption, list(talk.notices)) == (None, [])

    assert [words for words in told if "interrupted tool call(s) (bash)" in words] == told
    assert len(told) == len(room.person.asked) == 1


async def test_a_deferred_call_can_be_decided_later(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="touch a").will_say("touched")

    async with room.open() as talk:
        waiting = await talk.send("touch")
        assert isinstance(waiting, AwaitingConfirmation)
        decisions = [CallDecision(tool_call_id=waiting.call_ids[0], allow=True)]
        outcome = await talk.continue_run(decisions)

        assert isinstance(outcome, Done)
        assert_balanced(talk.messages)
    assert (room.project / "a").exists()


async def test_a_deferred_call_that_is_passed_over_is_answered(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="touch a").will_say("never mind then")

    async with room.open() as talk:
        await talk.send("touch")
        await talk.send("never mind")

    async with room.open("newest") as talk:
        assert_balanced(talk.messages)
    assert not (room.project / "a").exists()


async def test_a_conversation_in_which_nothing_was_said_leaves_no_trace(room: Room) -> None:
    async with room.open() as talk:
        talk.settings.set_mode("accept")
        talk.settings.set_model("gpt-4.1")

    assert list(room.state_dir.rglob("*.jsonl")) == []


async def test_a_model_that_is_no_longer_there_is_told(room: Room) -> None:
    room.model.will_say("one")
    async with room.open() as talk:
        talk.settings.set_model("gpt-4.1")
        await talk.send("first")
    room.configure(alias="other")

    async with room.open("newest") as talk:
        assert talk.settings.model == "other/gpt-4o"
        assert any("fake/gpt-4.1" in notice for notice in talk.notices)
