"""Whether a history could be sent to a strict service."""

from collections.abc import Sequence

from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, ToolResultMessage


def assert_balanced(messages: Sequence[Message], *, open_calls_allowed: bool = False) -> None:
    """Fail unless every tool call is answered exactly once, before anybody else speaks.

    With `open_calls_allowed` the calls of the last answer may still wait.
    """
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            asked = message.tool_call_id in waiting
            assert asked, f"message {place} answers {message.tool_call_id!r}, which does not wait"
            waiting.remove(message.tool_call_id)
        elif not isinstance(message, CustomMessage):
            assert not waiting, (
                f"message {place} ({message.role}) comes before results of {waiting}"
            )
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.calls]
            assert len(waiting) == len(set(waiting)), f"message {place} uses an id twice: {waiting}"
    assert open_calls_allowed or not waiting, f"nothing answers {waiting}"
