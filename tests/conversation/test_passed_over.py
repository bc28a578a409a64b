"""A call that waits for a decision while the person goes on without one."""

from dirge_py.testing import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.types.messages import ToolResultMessage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room


async def test_a_prompt_answers_what_waits_and_the_model_is_told_why(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="touch a").will_say("never mind then")
    heard = EventRecorder()

    async with room.open() as talk:
        assert isinstance(await talk.send("touch"), AwaitingConfirmation)
        talk.subscribe(heard)
        assert isinstance(await talk.send("never mind"), Done)
        live = list(talk.messages)
    async with room.open("newest") as talk:
        stored = list(talk.messages)

    assert stored == live
    assert_balanced(live)
    assert_event_grammar(heard.events)
    [answer] = [message for message in live if isinstance(message, ToolResultMessage)]
    assert answer.text.startswith("Not run: it waited for a decision that never came.")
    assert answer in room.model.seen[-1].messages
    assert isinstance(live[live.index(answer) + 1], UserMessage)
    assert not (room.project / "a").exists()
