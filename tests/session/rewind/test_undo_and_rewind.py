"""Moving in the conversation: undo, redo, rewind, fork, switch."""

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
from tests.support.histories import GOOD
from tests.support.project import ScriptedProject, on_first


async def send_prompts(project: ScriptedProject, conversation: Conversation, *prompts: str) -> None:
    for prompt in prompts:
        project.model.will_say(f"answer to {prompt}")
        await conversation.send(prompt)


def texts(messages: object) -> list[str]:
    assert isinstance(messages, list | tuple)
    return [m.text for m in messages if isinstance(m, UserMessage | AssistantMessage)]


async def test_rewind_removes_prompt_and_returns_its_text(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two", "three")
        two = conversation.timeline.prompts()[1]

        moved = await conversation.timeline.rewind(two.id)

        assert (moved.text, moved.left_behind, two.text) == ("two", 4, "two")
        assert texts(conversation.messages) == ["one", "answer to one"]
        await send_prompts(project, conversation, "other")
        assert project.prompts_of_call() == ["one", "other"]
    async with project.open("newest") as conversation:
        assert texts(conversation.messages) == ["one", "answer to one", "other", "answer to other"]


async def test_undo_emits_history_moved_with_remaining_messages(
    project: ScriptedProject,
) -> None:
    events: list[object] = []
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two")
        conversation.subscribe(events.append)

        await conversation.timeline.undo()

        assert events == [
            HistoryMoved(messages=tuple(conversation.messages), compactions=(), why="undo")
        ]


async def test_redo_reverts_moves_one_at_a_time(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two", "three")
        whole = list(conversation.messages)
        for _ in range(3):
            await conversation.timeline.undo()
        assert list(conversation.messages) == []

        lengths = []
        for _ in range(3):
            await conversation.timeline.redo()
            lengths.append(len(conversation.messages))

        assert lengths == [2, 4, 6]
        assert list(conversation.messages) == whole
        with pytest.raises(DirgeError, match="Nothing to redo"):
            await conversation.timeline.redo()


async def test_redo_reverts_rewind_after_restart(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two")
        whole = list(conversation.messages)
        await conversation.timeline.rewind(conversation.timeline.prompts()[-1].id)
    async with project.open("newest") as conversation:
        assert list(conversation.messages) == []

        await conversation.timeline.redo()

        assert list(conversation.messages) == whole
    async with project.open("newest") as conversation:
        assert list(conversation.messages) == whole


async def test_redo_is_refused_after_a_new_message(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two")
        await conversation.timeline.undo()
        await send_prompts(project, conversation, "three")

        with pytest.raises(DirgeError, match="a message followed it"):
            await conversation.timeline.redo()

        assert texts(conversation.messages)[-1] == "answer to three"


async def test_switch_returns_to_branch_left_by_fork(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two")
        left = list(conversation.messages)
        await conversation.timeline.fork()
        await send_prompts(project, conversation, "other")
        tree = conversation.timeline.tree()
        two = next(node for node in tree.nodes if node.text == "two")

        await conversation.timeline.switch(two.id[:6])

        assert list(conversation.messages) == left
        assert [node.text for node in conversation.timeline.tree().nodes][:3] == [
            "one",
            "two",
            "fork: two",
        ]
        assert [name for name in tree.names if len(name) < 4] == []
        assert len(set(tree.names)) == len(tree.names)
        with pytest.raises(SessionError, match="is not a point"):
            await conversation.timeline.switch("zzzz")


async def test_g09_clone_ends_at_chosen_message_and_results_of_its_calls(
    project: ScriptedProject,
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt").will_say("It is one.")
    async with project.open() as conversation:
        await conversation.send("read it")
        calling = next(p for p in conversation.timeline.points() if p.text == "")

        await conversation.timeline.clone(calling.id)

        assert isinstance(conversation.messages[-1], ToolResultMessage)
        assert_balanced(conversation.messages)
        prompt = conversation.timeline.prompts()[0]
        await conversation.timeline.clone(prompt.id)
        assert texts(conversation.messages) == ["read it"]
        await send_prompts(project, conversation, "go on")
        assert_balanced(project.model.seen[-1].messages)


async def test_rewind_to_steering_message_keeps_earlier_part_of_its_run(
    project: ScriptedProject,
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt").will_say("done")
    async with project.open() as conversation:
        conversation.subscribe(on_first(ToolResultMessage, lambda: None))
        run = conversation.send("read it")
        run.steer("and mind the tests")
        await run
        steered = next(p for p in conversation.timeline.prompts() if p.text == "and mind the tests")

        moved = await conversation.timeline.rewind(steered.id)

        assert moved.text == "and mind the tests"
        assert texts(conversation.messages)[0] == "read it"
        assert_balanced(conversation.messages)
    async with project.open("newest") as conversation:
        assert conversation.interruption is None
        await send_prompts(project, conversation, "go on")
        assert_balanced(project.model.seen[-1].messages)


async def test_undo_is_refused_during_a_run(project: ScriptedProject) -> None:
    gate = asyncio.Event()
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one")
        project.model.will_say("two", wait=gate.wait)
        run = conversation.send("more")
        with pytest.raises(DirgeError, match="a run is active"):
            await conversation.timeline.undo()
        gate.set()
        await run
        assert texts(conversation.messages) == ["one", "answer to one", "more", "two"]


async def test_undo_keeps_tokens_and_cost_of_whole_session(project: ScriptedProject) -> None:
    project.model.will_say("a", usage=Usage(input=1000, output=100))
    project.model.will_say("b", usage=Usage(input=2000, output=200))
    async with project.open() as conversation:
        await conversation.send("one")
        await conversation.send("two")
        cost = conversation.cost_usd

        await conversation.timeline.undo()

        assert conversation.usage == Usage(input=3000, output=300)
        assert conversation.cost_usd == cost
        assert conversation.context_tokens == 1100
    async with project.open("newest") as conversation:
        assert (conversation.usage, conversation.cost_usd) == (Usage(input=3000, output=300), cost)


async def test_compaction_applies_only_to_its_branch(project: ScriptedProject) -> None:
    def folded() -> bool:
        return not any(text.startswith("prompt 0") for text in project.prompts_of_call())

    async with project.open() as conversation:
        await send_prompts(project, conversation, *(f"prompt {n} " + "x" * 2000 for n in range(12)))
        project.model.will_say(GOOD)
        compacted = await conversation.compact()
        assert isinstance(compacted, ContextCompacted)
        await send_prompts(project, conversation, "after")
        assert folded()

        await conversation.timeline.rewind(conversation.timeline.prompts()[2].id)
        await send_prompts(project, conversation, "before it")
        assert not folded()

        await conversation.timeline.switch(
            next(n.id for n in conversation.timeline.tree().nodes if n.text == "after")
        )
        await send_prompts(project, conversation, "once more")
        assert folded()


async def test_undo_and_redo_switch_to_todo_list_of_branch(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        shown: list[Any] = []
        conversation.timeline.follows["todo"] = shown.append
        for text in ("first", "second"):
            project.model.will_call("todo", items=[{"id": "1", "text": text, "status": "done"}])
            await send_prompts(project, conversation, text)
        await conversation.timeline.undo()
        await conversation.timeline.redo()

        texts = [[item["text"] for item in stored] for stored in shown]
        assert texts == [["first"], ["second"]]
    stored = [r.data for r in read_journal(project.journal).records if r.type == "setting"]
    assert [one["value"][0]["text"] for one in stored if one["name"] == "todo"] == [
        "first",
        "second",
        "first",
        "second",
    ]


async def test_deferred_call_waits_again_after_undo_and_redo(project: ScriptedProject) -> None:
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="touch a")
    async with project.open() as conversation:
        await conversation.send("touch")
        waiting: list[Message] = list(conversation.messages)
        await conversation.timeline.undo()
        await conversation.timeline.redo()
        assert list(conversation.messages) == waiting


async def test_undo_without_stored_session_is_refused(project: ScriptedProject) -> None:
    async with project.open("none") as conversation:
        await send_prompts(project, conversation, "one")
        with pytest.raises(DirgeError, match="this session isn't stored"):
            await conversation.timeline.undo()


async def test_undo_in_session_without_messages_is_refused(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        assert conversation.timeline.tree().nodes == ()
        with pytest.raises(DirgeError, match="has no messages"):
            await conversation.timeline.undo()


async def test_send_is_refused_while_files_are_restored(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        await send_prompts(project, conversation, "one", "two")
        move = asyncio.ensure_future(conversation.timeline.undo())
        conversation.timeline.is_moving = True
        with pytest.raises(DirgeError, match="another point"):
            conversation.send("now")
        conversation.timeline.is_moving = False
        assert (await move).text == "two"
