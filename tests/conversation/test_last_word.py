"""Whatever stands around a call, what runs is what the permission engine allowed."""

from typing import Any

from dirge_py.agent_loop import EditArgs
from dirge_py.agent_loop.hooks import Bundle, CallDecision, Defer
from dirge_py.calls import ToolCall
from dirge_py.messages import ToolResultMessage
from dirge_py.outcomes import AwaitingConfirmation, Done
from tests.conversation.room import Room

DENIED = '[[permission.rule]]\nop = "execute"\nmatch = "touch *"\neffect = "deny"\n'


def outcomes(messages: Any) -> list[str]:
    return [m.details["outcome"] for m in messages if isinstance(m, ToolResultMessage)]


async def test_hooks_given_for_one_run_are_asked_before_permission(room: Room) -> None:
    room.configure(DENIED)
    room.model.will_call("bash", command="pwd").will_say("done")

    def edit(_info: Any, _call: ToolCall) -> EditArgs:
        return EditArgs({"command": "touch a"})

    async with room.open() as talk:
        bundle = Bundle(name="late", before_tool_call=edit)
        assert isinstance(await talk.send("go", bundles=[bundle]), Done)

        assert outcomes(talk.messages) == ["denied"]
    assert not (room.project / "a").exists()


async def test_a_call_that_a_hook_deferred_is_judged_once_somebody_allowed_it(room: Room) -> None:
    room.configure(DENIED)
    room.model.will_call("bash", command="touch a").will_say("done")
    bundle = Bundle(name="careful", before_tool_call=lambda *_: Defer("ask the owner"))

    async with room.open() as talk:
        waiting = await talk.send("go", bundles=[bundle])
        assert isinstance(waiting, AwaitingConfirmation)
        yes = CallDecision(tool_call_id=waiting.call_ids[0], allow=True)
        assert isinstance(await talk.continue_run([yes], bundles=[bundle]), Done)

        assert outcomes(talk.messages) == ["denied"]
    assert not (room.project / "a").exists()
