"""Going back and forth in what was said."""

import asyncio
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.session.journal import read_journal
from dirge_py.testing import assert_balanced
from dirge_py.types.errors import DirgeError, SessionError
from dirge_py.types.events import ContextCompacted, HistoryMoved
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserMessage
from dirge_py.types.questions import PermissionAnswer
from tests.context.kit import GOOD
from tests.conversation.room import Room, when


async def said(room: Room, talk: Conversation, *prompts: str) -> None:
    for prompt in prompts:
        room.model.will_say(f"answer to {prompt}")
        await talk.send(prompt)


def texts(messages: object) -> list[str]:
    assert isinstance(messages, list | tuple)
    return [m.text for m in messages if isinstance(m, UserMessage | AssistantMessage)]


async def test_rewind_goes_before_a_prompt_and_gives_its_text_back(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two", "three")
        two = talk.timeline.prompts()[1]

        moved = await talk.timeline.rewind(two.id)

        assert (moved.text, moved.left_behind, two.text) == ("two", 4, "two")
        assert texts(talk.messages) == ["one", "answer to one"]
        await said(room, talk, "other")
        assert room.heard() == ["one", "other"]
    async with room.open("newest") as talk:
        assert texts(talk.messages) == ["one", "answer to one", "other", "answer to other"]


async def test_a_move_is_told_with_the_messages_that_lead_up_to_it(room: Room) -> None:
    events: list[object] = []
    async with room.open() as talk:
        await said(room, talk, "one", "two")
        talk.subscribe(events.append)

        await talk.timeline.undo()

        assert events == [HistoryMoved(messages=tuple(talk.messages), compactions=(), why="undo")]


async def test_redo_takes_back_one_move_after_the_other(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two", "three")
        whole = list(talk.messages)
        for _ in range(3):
            await talk.timeline.undo()
        assert list(talk.messages) == []

        lengths = []
        for _ in range(3):
            await talk.timeline.redo()
            lengths.append(len(talk.messages))

        assert lengths == [2, 4, 6]
        assert list(talk.messages) == whole
        with pytest.raises(DirgeError, match="Nothing to redo"):
            await talk.timeline.redo()


async def test_a_rewind_is_taken_back_after_a_restart(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two")
        whole = list(talk.messages)
        await talk.timeline.rewind(talk.timeline.prompts()[-1].id)
    async with room.open("newest") as talk:
        assert list(talk.messages) == []

        await talk.timeline.redo()

        assert list(talk.messages) == whole
    async with room.open("newest") as talk:
        assert list(talk.messages) == whole


async def test_what_was_said_after_a_move_is_not_taken_back_with_it(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two")
        await talk.timeline.undo()
        await said(room, talk, "three")

        with pytest.raises(DirgeError, match="a message followed it"):
            await talk.timeline.redo()

        assert texts(talk.messages)[-1] == "answer to three"


async def test_a_branch_that_was_left_is_reached_by_the_tree(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two")
        left = list(talk.messages)
        await talk.timeline.fork()
        await said(room, talk, "other")
        tree = talk.timeline.tree()
        two = next(node for node in tree.nodes if node.text == "two")

        await talk.timeline.switch(two.id[:6])

        assert list(talk.messages) == left
        assert [node.text for node in talk.timeline.tree().nodes][:3] == [
            "one",
            "two",
            "fork: two",
        ]
        assert [name for name in tree.names if len(name) < 4] == []
        assert len(set(tree.names)) == len(tree.names)
        with pytest.raises(SessionError, match="is not a point"):
            await talk.timeline.switch("zzzz")


async def test_g09_a_clone_ends_at_the_message_and_what_its_calls_came_to(room: Room) -> None:
    (room.project / "a.txt").write_text("one\n")
    room.model.will_call("read", path="a.txt").will_say("It is one.")
    async with room.open() as talk:
        await talk.send("read it")
        calling = next(p for p in talk.timeline.points() if p.text == "")

        await talk.timeline.clone(calling.id)

        assert isinstance(talk.messages[-1], ToolResultMessage)
        assert_balanced(talk.messages)
        prompt = talk.timeline.prompts()[0]
        await talk.timeline.clone(prompt.id)
        assert texts(talk.messages) == ["read it"]
        await said(room, talk, "go on")
        assert_balanced(room.model.seen[-1].messages)


async def test_before_a_message_that_was_steered_in_the_run_up_to_it_stays(room: Room) -> None:
    (room.project / "a.txt").write_text("one\n")
    room.model.will_call("read", path="a.txt").will_say("done")
    async with room.open() as talk:
        talk.subscribe(when(ToolResultMessage, lambda: None))
        run = talk.send("read it")
        run.steer("and mind the tests")
        await run
        steered = next(p for p in talk.timeline.prompts() if p.text == "and mind the tests")

        moved = await talk.timeline.rewind(steered.id)

        assert moved.text == "and mind the tests"
        assert texts(talk.messages)[0] == "read it"
        assert_balanced(talk.messages)
    async with room.open("newest") as talk:
        assert talk.interruption is None
        await said(room, talk, "go on")
        assert_balanced(room.model.seen[-1].messages)


async def test_nothing_moves_while_a_run_goes_on(room: Room) -> None:
    gate = asyncio.Event()
    async with room.open() as talk:
        await said(room, talk, "one")
        room.model.will_say("two", wait=gate.wait)
        run = talk.send("more")
        with pytest.raises(DirgeError, match="a run is going on"):
            await talk.timeline.undo()
        gate.set()
        await run
        assert texts(talk.messages) == ["one", "answer to one", "more", "two"]


async def test_tokens_and_cost_stay_those_of_the_whole_session(room: Room) -> None:
    room.model.will_say("a", usage=Usage(input=1000, output=100))
    room.model.will_say("b", usage=Usage(input=2000, output=200))
    async with room.open() as talk:
        await talk.send("one")
        await talk.send("two")
        cost = talk.cost_usd

        await talk.timeline.undo()

        assert talk.usage == Usage(input=3000, output=300)
        assert talk.cost_usd == cost
        assert talk.context_tokens == 1100
    async with room.open("newest") as talk:
        assert (talk.usage, talk.cost_usd) == (Usage(input=3000, output=300), cost)


async def test_a_compaction_counts_only_on_its_branch(room: Room) -> None:
    def folded() -> bool:
        return not any(text.startswith("prompt 0") for text in room.heard())

    async with room.open() as talk:
        await said(room, talk, *(f"prompt {n} " + "x" * 2000 for n in range(12)))
        room.model.will_say(GOOD)
        compacted = await talk.compact()
        assert isinstance(compacted, ContextCompacted)
        await said(room, talk, "after")
        assert folded()

        await talk.timeline.rewind(talk.timeline.prompts()[2].id)
        await said(room, talk, "before it")
        assert not folded()

        await talk.timeline.switch(
            next(n.id for n in talk.timeline.tree().nodes if n.text == "after")
        )
        await said(room, talk, "once more")
        assert folded()


async def test_the_todo_list_is_the_one_of_the_branch(room: Room) -> None:
    async with room.open() as talk:
        shown: list[Any] = []
        talk.timeline.follows["todo"] = shown.append
        for text in ("first", "second"):
            room.model.will_call("todo", items=[{"id": "1", "text": text, "status": "done"}])
            await said(room, talk, text)
        await talk.timeline.undo()
        await talk.timeline.redo()

        texts = [[item["text"] for item in stored] for stored in shown]
        assert texts == [["first"], ["second"]]
    stored = [r.data for r in read_journal(room.journal).records if r.type == "setting"]
    assert [one["value"][0]["text"] for one in stored if one["name"] == "todo"] == [
        "first",
        "second",
        "first",
        "second",
    ]


async def test_a_question_that_waits_waits_again_where_it_waited(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="touch a")
    async with room.open() as talk:
        await talk.send("touch")
        waiting: list[Message] = list(talk.messages)
        await talk.timeline.undo()
        await talk.timeline.redo()
        assert list(talk.messages) == waiting


async def test_without_a_session_there_is_nothing_to_go_back_in(room: Room) -> None:
    async with room.open("none") as talk:
        await said(room, talk, "one")
        with pytest.raises(DirgeError, match="has no stored session"):
            await talk.timeline.undo()


async def test_a_session_in_which_nothing_was_said_has_nothing_to_go_to(room: Room) -> None:
    async with room.open() as talk:
        assert talk.timeline.tree().nodes == ()
        with pytest.raises(DirgeError, match="has no messages"):
            await talk.timeline.undo()


async def test_no_run_begins_while_the_files_are_put_back(room: Room) -> None:
    async with room.open() as talk:
        await said(room, talk, "one", "two")
        move = asyncio.ensure_future(talk.timeline.undo())
        talk.timeline.is_moving = True
        with pytest.raises(DirgeError, match="another point"):
            talk.send("now")
        talk.timeline.is_moving = False
        assert (await move).text == "two"
