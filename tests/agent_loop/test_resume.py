"""From where a conversation can be carried on."""

import pytest

from dirge_py.agent_loop import Context
from dirge_py.agent_loop.resume import GO_ON, opening, resumable
from dirge_py.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from dirge_py.testing import ScriptedModel
from tests.agent_loop.kit import ran

ASKED = user_text("go")
CALLED = AssistantMessage(
    content=(ToolCallBlock(id="c", name="echo", arguments={}),), stop_reason="toolUse"
)
ANSWERED = ToolResultMessage(tool_call_id="c", tool_name="echo", content=(TextBlock("ok"),))


def said(text: str = "half", **more: object) -> AssistantMessage:
    return AssistantMessage(content=(TextBlock(text),) if text else (), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("messages", "opens_with"),
    [
        ([ASKED], []),
        ([ASKED, CustomMessage(kind="x")], []),
        ([ASKED, CALLED, ANSWERED], []),
        ([ASKED, CALLED], []),
        ([ASKED, said(stop_reason="error", error_kind="network")], [GO_ON]),
        ([ASKED, said("", stop_reason="error", error_kind="network")], []),
        ([ASKED, said("whole"), said("", stop_reason="error")], [GO_ON]),
        ([ASKED, said(stop_reason="aborted")], [GO_ON]),
        ([ASKED, said(stop_reason="length")], [GO_ON]),
        ([ASKED, CALLED, ANSWERED, said("I stop.", origin="harness")], [GO_ON]),
        ([ASKED, said(stop_reason="pause_turn")], []),
        (
            [
                ASKED,
                AssistantMessage(
                    content=(CompactionBlock(data={"a": 1}),), stop_reason="compaction"
                ),
            ],
            [],
        ),
    ],
)
async def test_whatever_was_cut_off_goes_on_and_the_service_gets_the_word(
    messages: list[Message], opens_with: list[str]
) -> None:
    assert [message.text for message in opening(messages)] == opens_with
    resumable(messages)  # does not raise
    run = await ran(ScriptedModel().will_say("rest"), context=Context(messages=messages))
    assert [message.text for message in run.new if message.role == "user"] == opens_with
    assert run.new[-1].text == "rest"  # type: ignore[union-attr]
    assert all(m.origin == "harness" for m in run.new if m.role == "user")


@pytest.mark.parametrize("messages", [[], [ASKED, said("whole")]])
def test_case_9_what_is_whole_cannot_be_continued(messages: list[Message]) -> None:
    with pytest.raises(ValueError, match="nothing to continue"):
        resumable(messages)
