"""A new prompt while a call waits for a decision."""

from dirge_py.testing import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.types.messages import ToolResultMessage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject


async def test_new_prompt_answers_the_awaiting_call_with_a_not_run_result(
    project: ScriptedProject,
) -> None:
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="touch a").will_say("never mind then")
    heard = EventRecorder()

    async with project.open() as conversation:
        assert isinstance(await conversation.send("touch"), AwaitingConfirmation)
        conversation.subscribe(heard)
        assert isinstance(await conversation.send("never mind"), Done)
        live = list(conversation.messages)
    async with project.open("newest") as conversation:
        stored = list(conversation.messages)

    assert stored == live
    assert_balanced(live)
    assert_event_grammar(heard.events)
    [answer] = [message for message in live if isinstance(message, ToolResultMessage)]
    assert answer.text.startswith("Not run: it waited for a decision that never came.")
    assert answer in project.model.seen[-1].messages
    assert isinstance(live[live.index(answer) + 1], UserMessage)
    assert not (project.folder / "a").exists()
