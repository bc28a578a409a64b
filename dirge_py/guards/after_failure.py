"""Sends a run on that stopped right after a call had failed."""

from collections.abc import Iterator, Sequence

from dirge_py.guards.gate import excerpt, gate, nudge
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, ToolResultMessage

QUOTE_CHARS = 200

# A command that failed is an answer, often the one that was asked for.
_RETRYABLE = frozenset({"error", "timeout", "invalid", "unknown_tool"})


def resume_after_failure(most: int = 3) -> Bundle:
    """A gate that speaks when the agent's last words follow a failed call directly.

    Calls that were denied, suppressed or never ran are no reason: repeating them would not help.
    """

    def ask(info: TurnInfo) -> Sequence[Message]:
        results = _last_results(info.context.messages)
        last = next((each for each in results if _is_retryable(each)), None)
        if last is None:
            return ()
        return nudge(
            f"You stopped right after a call of `{last.tool_name}` had failed: "
            f"{excerpt(last.text, QUOTE_CHARS)}\n"
            "Mend it and go on with the task. If it cannot be mended, or no longer matters, say so "
            "and why."
        )

    return gate("resume", ask, most=most)


def _last_results(messages: Sequence[Message]) -> Iterator[ToolResultMessage]:
    """The results that stand directly before closing words without calls, the last first."""
    spoken = [each for each in messages if not isinstance(each, CustomMessage)]
    if not spoken:
        return
    last = spoken[-1]
    if not isinstance(last, AssistantMessage) or last.calls:
        return
    for message in reversed(spoken[:-1]):
        if not isinstance(message, ToolResultMessage):
            return
        yield message


def _is_retryable(result: ToolResultMessage) -> bool:
    return result.details.get("outcome") in _RETRYABLE and not result.details.get("synthetic")
