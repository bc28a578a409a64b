"""Where a stored conversation can go on from: its open calls, or its last word."""

from collections.abc import Sequence

from dirge_py.agent_loop.hooks import CallDecision
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import AssistantMessage, Message, ToolCallBlock, ToolResultMessage


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The calls of `message` that nothing has answered yet, in its order; never none."""

    message: AssistantMessage
    calls: tuple[ToolCallBlock, ...]


def open_calls(messages: Sequence[Message]) -> OpenCalls | None:
    """What the last assistant message still waits for, if only results stand after it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            calls = tuple(call for call in message.calls if call.id not in answered)
            return OpenCalls(message, calls) if calls else None
        if not isinstance(message, ToolResultMessage):
            return None
        answered.add(message.tool_call_id)
    return None


def resumable(
    messages: Sequence[Message], decisions: Sequence[CallDecision] = ()
) -> OpenCalls | None:
    """What has to be answered before the model is asked again.

    Raises:
        ValueError: there is nothing to go on from, or a decision fits no open call.
    """
    if not messages:
        raise ValueError("There is nothing to continue: the context holds no messages.")
    waiting = open_calls(messages)
    if waiting is None and isinstance(messages[-1], AssistantMessage):
        raise ValueError("There is nothing to continue: the last answer is whole.")
    known = {call.id for call in waiting.calls} if waiting else set()
    strange = {item.tool_call_id for item in decisions} - known
    if strange:
        raise ValueError(f"No open call has the id {', '.join(sorted(strange))}.")
    return waiting
