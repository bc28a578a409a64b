"""Showing and undoing compactions, before and after a restart."""

import json

from dirge_py.conversation.conversation import Conversation
from dirge_py.testing import EventRecorder
from dirge_py.types.events import ContextCompacted
from tests.support.histories import GOOD
from tests.support.project import ScriptedProject

LONG = "The answer is long. " * 200


async def hold_five_exchanges(project: ScriptedProject, conversation: Conversation) -> None:
    project.model.will_call("todo", items=[{"id": "1", "text": "keep this", "status": "done"}])
    project.model.will_say(LONG)
    await conversation.send("first question")
    for number in range(4):
        project.model.will_say(LONG)
        await conversation.send(f"question {number}")


def sent(project: ScriptedProject) -> str:
    return json.dumps([str(message) for message in project.model.seen[-1].messages])


async def test_compaction_can_be_viewed_edited_and_undone_after_a_restart(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        await hold_five_exchanges(project, conversation)
        project.model.will_say(GOOD)
        assert await conversation.compact() is not None
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        numbers = [item.number for item in conversation.omitted_messages()]
        assert numbers[0] == 1

        assert conversation.send_whole_again(numbers[-1]) is not None
        assert [event.kind for event in recorder.of(ContextCompacted)] == ["shown_again"]
        project.model.will_say("Yes.")
        await conversation.send("go on")
        assert sent(project).count("The answer is long. The answer is long.") < 5 * 200
        assert "[x] keep this" in sent(project)

    async with project.open("newest") as conversation:
        assert numbers[-1] not in [item.number for item in conversation.omitted_messages()]
        assert conversation.undo_compaction() is not None
        assert conversation.undo_compaction() is not None
        assert conversation.undo_compaction() is None

    async with project.open("newest") as conversation:
        assert conversation.omitted_messages() == ()
        project.model.will_say("All of it.")
        await conversation.send("and now?")
        assert sent(project).count(LONG.strip()) == 5


async def test_instruction_files_are_read_again_after_a_compaction(
    project: ScriptedProject,
) -> None:
    rules = project.folder / "AGENTS.md"
    rules.write_text("Use tabs.")
    async with project.open() as conversation:
        await hold_five_exchanges(project, conversation)
        rules.write_text("Use spaces.")
        project.model.will_say("Still.")
        await conversation.send("before")
        assert "Use tabs." in project.model.seen[-1].system_prompt

        project.model.will_say(GOOD)
        await conversation.compact()
        project.model.will_say("Now.")
        await conversation.send("after")

        assert "Use spaces." in project.model.seen[-1].system_prompt
