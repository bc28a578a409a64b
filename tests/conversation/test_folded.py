"""What was folded, as a person sees it and takes it back, also after a restart."""

import json

from dirge_py.conversation.conversation import Conversation
from dirge_py.testing import EventRecorder
from dirge_py.types.events import ContextCompacted
from tests.context.kit import GOOD
from tests.conversation.room import Room

LONG = "The answer is long. " * 200


async def talked(room: Room, talk: Conversation) -> None:
    room.model.will_call("todo", items=[{"id": "1", "text": "keep this", "status": "done"}])
    room.model.will_say(LONG)
    await talk.send("first question")
    for number in range(4):
        room.model.will_say(LONG)
        await talk.send(f"question {number}")


def sent(room: Room) -> str:
    return json.dumps([str(message) for message in room.model.seen[-1].messages])


async def test_a_compaction_is_looked_at_mended_and_taken_back_across_restarts(room: Room) -> None:
    async with room.open() as talk:
        await talked(room, talk)
        room.model.will_say(GOOD)
        assert await talk.compact() is not None
        told = EventRecorder()
        talk.subscribe(told)
        numbers = [item.number for item in talk.omitted_messages()]
        assert numbers[0] == 1

        assert talk.send_whole_again(numbers[-1]) is not None
        assert [event.kind for event in told.of(ContextCompacted)] == ["shown_again"]
        room.model.will_say("Yes.")
        await talk.send("go on")
        assert sent(room).count("The answer is long. The answer is long.") < 5 * 200
        assert "[x] keep this" in sent(room)

    async with room.open("newest") as talk:
        assert numbers[-1] not in [item.number for item in talk.omitted_messages()]
        assert talk.undo_compaction() is not None
        assert talk.undo_compaction() is not None
        assert talk.undo_compaction() is None

    async with room.open("newest") as talk:
        assert talk.omitted_messages() == ()
        room.model.will_say("All of it.")
        await talk.send("and now?")
        assert sent(room).count(LONG.strip()) == 5


async def test_instruction_files_are_read_anew_after_a_compaction(room: Room) -> None:
    rules = room.project / "AGENTS.md"
    rules.write_text("Use tabs.")
    async with room.open() as talk:
        await talked(room, talk)
        rules.write_text("Use spaces.")
        room.model.will_say("Still.")
        await talk.send("before")
        assert "Use tabs." in room.model.seen[-1].system_prompt

        room.model.will_say(GOOD)
        await talk.compact()
        room.model.will_say("Now.")
        await talk.send("after")

        assert "Use spaces." in room.model.seen[-1].system_prompt
