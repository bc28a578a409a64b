"""A42: the order of events in a run."""

from dataclasses import replace
from typing import Any

from dirge_py.providers.scripted import Reply
from dirge_py.types.events import LoopEvent, MessageEnd, MessageUpdate
from dirge_py.types.hooks import HOOK_NAMES, Hooks
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import Usage, UserMessage
from tests.support.project import ScriptedProject

BEFORE_THE_MODEL = ["transform_context", "convert_to_llm", "get_api_key", "model"]
AFTER_THE_TURN = ["prepare_next_turn", "should_stop_after_turn", "get_steering_messages"]

GOLDEN = [
    "check",
    "agent_start",
    "turn_start",
    "message_start",
    "message_end user",
    "get_steering_messages",
    *BEFORE_THE_MODEL,
    "message_start",
    "message_end assistant",
    "usage",
    "tool_execution_start",
    "before_tool_call",
    "after_tool_call",
    "tool_execution_end",
    "message_start",
    "message_end toolResult",
    "turn_end",
    *AFTER_THE_TURN,
    "turn_start",
    *BEFORE_THE_MODEL,
    "message_start",
    "message_end assistant",
    "usage",
    "turn_end",
    *AFTER_THE_TURN,
    "get_followup_messages",
    "agent_end",
]


async def test_a42_run_with_one_call_has_hooks_and_events_in_the_golden_order(
    project: ScriptedProject,
) -> None:
    trace: list[str] = []

    def model(reply: Reply) -> Any:
        def answer(context: LlmContext) -> Reply:
            trace.append("model")
            return reply

        return answer

    def hook(name: str) -> Any:
        def look(*_: Any) -> None:
            trace.append(name)

        return look

    def sink(event: LoopEvent) -> None:
        if isinstance(event, MessageEnd):
            trace.append(f"message_end {event.message.role}")
        elif not isinstance(event, MessageUpdate):
            trace.append(event.type)

    async def check(message: UserMessage) -> None:
        trace.append("check")

    used = Usage(input=1, output=1)
    project.model.will(model(Reply(calls=[("list_dir", {"path": "."})], usage=used)))
    project.model.will(model(Reply(text="Empty.", usage=used)))
    hooks: dict[str, Any] = {name: hook(name) for name in HOOK_NAMES}

    async with project.open() as conversation:
        conversation._deps = replace(
            conversation._deps, run=replace(conversation._deps.run, prompt_checks=[check])
        )
        conversation.subscribe(sink)
        await conversation.send("look", bundles=[Hooks(name="trace", **hooks)])

    assert trace == GOLDEN
