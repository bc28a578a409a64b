"""From which states a conversation can be continued."""

from dataclasses import replace

import pytest

from dirge_py.agent_loop import CallDecision, Context, LoopConfig
from dirge_py.agent_loop.history import GO_ON, check_resumable, continuation_prompt, open_calls
from dirge_py.testing import ScriptedModel
from dirge_py.types.history import normalize_history
from dirge_py.types.hooks import BeforeToolCall, Defer, StopRun, TurnInfo
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from dirge_py.types.outcomes import AwaitingConfirmation, Done
from dirge_py.types.tools import ToolCall, ToolExecutionMode, text_result
from tests.support.loop_runs import LoopRun, Tool, run_loop

ASKED = user_text("go")
CALLED = AssistantMessage(
    content=(ToolCallBlock(id="c", name="echo", arguments={}),), stop_reason="toolUse"
)
ANSWERED = ToolResultMessage(tool_call_id="c", tool_name="echo", content=(TextBlock("ok"),))


def assistant_text(text: str = "half", **more: object) -> AssistantMessage:
    return AssistantMessage(content=(TextBlock(text),) if text else (), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("messages", "opens_with"),
    [
        ([ASKED], []),
        ([ASKED, CustomMessage(kind="x")], []),
        ([ASKED, CALLED, ANSWERED], []),
        ([ASKED, CALLED], []),
        ([ASKED, assistant_text(stop_reason="error", error_kind="network")], [GO_ON]),
        ([ASKED, assistant_text("", stop_reason="error", error_kind="network")], []),
        ([ASKED, assistant_text("whole"), assistant_text("", stop_reason="error")], [GO_ON]),
        ([ASKED, assistant_text(stop_reason="aborted")], [GO_ON]),
        ([ASKED, assistant_text(stop_reason="length")], [GO_ON]),
        ([ASKED, CALLED, ANSWERED, assistant_text("I stop.", origin="harness")], [GO_ON]),
        ([ASKED, assistant_text(stop_reason="pause_turn")], []),
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
async def test_unfinished_history_is_continued_with_the_right_prompt(
    messages: list[Message], opens_with: list[str]
) -> None:
    assert [message.text for message in continuation_prompt(messages)] == opens_with
    check_resumable(messages)  # does not raise
    run = await run_loop(ScriptedModel().will_say("rest"), context=Context(messages=messages))
    assert [message.text for message in run.new if message.role == "user"] == opens_with
    assert run.new[-1].text == "rest"  # type: ignore[union-attr]
    assert all(m.origin == "harness" for m in run.new if m.role == "user")


@pytest.mark.parametrize("messages", [[], [ASKED, assistant_text("whole")]])
def test_case_9_complete_history_cannot_be_continued(messages: list[Message]) -> None:
    with pytest.raises(ValueError, match="nothing to continue"):
        check_resumable(messages)


# -- decisions with a ready result

ANSWER = text_result("known already", outcome="aborted", is_error=True)
THREE = AssistantMessage(
    content=tuple(ToolCallBlock(id=name, name="echo", arguments={"at": name}) for name in "abc"),
    stop_reason="toolUse",
)
MODES: list[ToolExecutionMode] = ["parallel", "sequential"]


def call_decision(call_id: str, allow: bool = False) -> CallDecision:
    return CallDecision(tool_call_id=call_id, allow=allow, answer=ANSWER)


async def continue_with(
    mode: ToolExecutionMode, *decisions: CallDecision, before: BeforeToolCall | None = None
) -> tuple[LoopRun, list[str]]:
    """The result of continuing from `THREE`, and the calls that ran."""
    tool = Tool()
    context = Context(messages=[ASKED, THREE], tools=[tool])
    config = LoopConfig(tool_execution=mode, before_tool_call=before)
    model = ScriptedModel().will_say("rest")
    run = await run_loop(model, context=context, config=config, decisions=decisions)
    return run, [arguments["at"] for arguments in tool.ran]


@pytest.mark.parametrize("mode", MODES)
async def test_call_with_a_ready_result_does_not_run_and_calls_no_hook(
    mode: ToolExecutionMode,
) -> None:
    asked: list[str] = []

    def before(_info: TurnInfo, call: ToolCall) -> None:
        asked.append(call.id)

    run, acted = await continue_with(mode, call_decision("b"), before=before)

    assert acted == asked == ["a", "c"]
    assert [result.text for result in run.results] == ["ok", "known already", "ok"]
    assert [result.tool_call_id for result in run.results] == ["a", "b", "c"]


@pytest.mark.parametrize("mode", MODES)
async def test_ready_result_is_recorded_even_if_an_earlier_call_is_deferred(
    mode: ToolExecutionMode,
) -> None:
    def before(_info: TurnInfo, call: ToolCall) -> Defer | None:
        return Defer("a person has to say") if call.id == "a" else None

    run, acted = await continue_with(mode, call_decision("b"), before=before)

    assert acted == []
    assert isinstance(run.outcome, AwaitingConfirmation)
    assert run.outcome.call_ids == ("a", "c")
    assert [result.tool_call_id for result in run.results] == ["b"]
    left = open_calls([ASKED, THREE, *run.new])
    assert left is not None and [call.id for call in left.calls] == ["a", "c"]


@pytest.mark.parametrize("mode", MODES)
async def test_ready_result_of_an_allowed_call_is_used_if_the_call_cannot_run(
    mode: ToolExecutionMode,
) -> None:
    def before(_info: TurnInfo, call: ToolCall) -> StopRun | None:
        return StopRun(Done(stopped_by="storm")) if call.id == "a" else None

    run, acted = await continue_with(
        mode, call_decision("b", allow=True), call_decision("c"), before=before
    )

    assert acted == []
    assert [result.details["outcome"] for result in run.results] == ["suppressed", *["aborted"] * 2]


async def test_allowed_call_runs_and_its_new_result_is_used() -> None:
    run, acted = await continue_with("parallel", call_decision("b", allow=True))

    assert acted == ["a", "b", "c"]
    assert [result.text for result in run.results] == ["ok"] * 3


def test_calls_after_an_open_call_can_have_results() -> None:
    answers = [
        ToolResultMessage(tool_call_id=name, tool_name="echo", content=()) for name in ("c", "b")
    ]

    left = open_calls([ASKED, THREE, *answers])

    assert left is not None and [call.id for call in left.calls] == ["a"]
    healed = normalize_history([ASKED, THREE, *answers, replace(answers[0], tool_call_id="a")])
    assert [m.tool_call_id for m in healed.messages if m.role == "toolResult"] == ["a", "b", "c"]
