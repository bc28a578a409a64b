"""Whatever wraps a call, only what the permission engine allowed runs."""

from typing import Any

import pytest

from dirge_py.agent_loop import EditArgs
from dirge_py.providers.scripted import Reply
from dirge_py.types.hooks import CallDecision, Defer, Hooks
from dirge_py.types.messages import ToolCallBlock, ToolResultMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.questions import PermissionAnswer
from dirge_py.types.tools import ToolCall
from tests.support.project import ScriptedProject

DENIED = '[[permission.rule]]\nop = "execute"\nmatch = "touch *"\neffect = "deny"\n'


def outcomes(messages: Any) -> list[str]:
    return [m.details["outcome"] for m in messages if isinstance(m, ToolResultMessage)]


async def test_hooks_of_a_single_run_are_called_before_the_permission_check(
    project: ScriptedProject,
) -> None:
    project.configure(DENIED)
    project.model.will_call("bash", command="pwd").will_say("done")

    def edit(_info: Any, _call: ToolCall) -> EditArgs:
        return EditArgs({"command": "touch a"})

    async with project.open() as conversation:
        bundle = Hooks(name="late", before_tool_call=edit)
        assert isinstance(await conversation.send("go", bundles=[bundle]), Done)

        assert outcomes(conversation.messages) == ["denied"]
    assert not (project.folder / "a").exists()


async def test_call_deferred_by_a_hook_still_needs_permission_after_approval(
    project: ScriptedProject,
) -> None:
    project.configure(DENIED)
    project.model.will_call("bash", command="touch a").will_say("done")
    bundle = Hooks(name="careful", before_tool_call=lambda *_: Defer("ask the owner"))

    async with project.open() as conversation:
        waiting = await conversation.send("go", bundles=[bundle])
        assert isinstance(waiting, AwaitingConfirmation)
        yes = CallDecision(tool_call_id=waiting.call_ids[0], allow=True)
        assert isinstance(await conversation.continue_run([yes], bundles=[bundle]), Done)

        assert outcomes(conversation.messages) == ["denied"]
    assert not (project.folder / "a").exists()


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_decision_does_not_apply_to_a_later_call_with_the_same_id(
    project: ScriptedProject, is_allowed: bool
) -> None:
    """Some services restart their ids in every answer."""
    for name in ("a", "b"):
        call = ToolCallBlock(id="c0", name="bash", arguments={"command": f"touch {name}"})
        project.model.will(Reply(calls=[call]))
    project.model.will_say("done")
    project.user.answer = PermissionAnswer(effect="defer")

    async with project.open() as conversation:
        await conversation.send("go")
        project.user.answer = PermissionAnswer(effect="deny" if is_allowed else "allow")
        await conversation.continue_run([CallDecision(tool_call_id="c0", allow=is_allowed)])

    assert [request.preview.text for request in project.user.asked if request.preview] == [
        "touch a",
        "touch b",
    ]
    assert (project.folder / "a").exists() == is_allowed
    assert (project.folder / "b").exists() != is_allowed
