"""Questions about a message history: its turns, its final text, and where it can continue."""

from collections.abc import Sequence
from itertools import zip_longest

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import (
    UNFINISHED,
    AssistantMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    user_text,
)

GO_ON = "Go on."
CALL_AS_TEXT = "You wrote a call of `"
"""The beginning of the harness message after an answer that was a call written as text."""


def is_turn(message: Message) -> bool:
    """Whether this is a model's answer, not paused and not to a request that was too long."""
    return (
        isinstance(message, AssistantMessage)
        and message.origin == "model"
        and message.stop_reason not in UNFINISHED
        and message.error_kind != "context_length"
    )


def messages_since_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last one that is not from dirge or a plugin, oldest first."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and message.origin not in ("harness", "plugin"):
            return messages[at + 1 :]
    return messages


def is_about_written_call(message: Message | None) -> bool:
    """Whether dirge says in it that the answer before it was a call written as text."""
    return (
        isinstance(message, UserMessage)
        and message.origin == "harness"
        and message.text.startswith(CALL_AS_TEXT)
    )


def final_text(messages: Sequence[Message]) -> str:
    """Return the text of a run: its last answer.

    If a stop check made the agent continue, the text before it is kept: "Tests pass, too." must not
    replace a report. Repeated text appears once, and a call that was written as text does not.
    """
    texts: list[str] = []
    last: AssistantMessage | None = None
    was_cut = False
    for message, following in zip_longest(messages, messages[1:]):
        if isinstance(message, UserMessage) and message.origin != "harness":
            texts.clear()  # earlier text is no longer the final answer
        if not isinstance(message, AssistantMessage):
            continue
        last = None if message.withheld or is_about_written_call(following) else message
        if message.withheld:
            texts.clear()
        if last is None:
            continue
        said = message.stop_reason not in UNFINISHED and not message.calls and message.text.strip()
        if said and was_cut and texts:
            texts[-1] += message.text
        elif said and message.text not in texts:
            texts.append(message.text)
        was_cut = bool(said) and message.stop_reason in ("length", "error")
    if texts:
        return "\n\n".join(texts)
    return last.text if last is not None else ""


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The calls of a message that have no result yet."""

    message: AssistantMessage
    """The message that made the calls."""
    calls: tuple[ToolCallBlock, ...]
    """Its calls without a result, in the message's order; at least one."""


def open_calls(messages: Sequence[Message]) -> OpenCalls | None:
    """Return the open calls of the last assistant message, if only results follow it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            calls = tuple(call for call in message.calls if call.id not in answered)
            return OpenCalls(message, calls) if calls else None
        if not isinstance(message, ToolResultMessage):
            return None
        answered.add(message.tool_call_id)
    return None


def check_resumable(
    messages: Sequence[Message], decisions: Sequence[CallDecision] = ()
) -> OpenCalls | None:
    """Return the open calls to answer before the model is called again.

    Raises ValueError if there is nothing to continue, or a decision fits no open call.
    """
    if not messages:
        raise ValueError("There is nothing to continue: the context holds no messages.")
    waiting = open_calls(messages)
    last = messages[-1]
    is_complete = (
        isinstance(last, AssistantMessage)
        and last.origin == "model"
        and last.stop_reason in ("stop", "toolUse")
        and (last.text.strip() or last.calls)
    )
    if waiting is None and is_complete:
        raise ValueError("There is nothing to continue: the last answer is complete.")
    known = {call.id for call in waiting.calls} if waiting else set()
    unknown = {item.tool_call_id for item in decisions} - known
    if unknown:
        raise ValueError(f"No open call has the id {', '.join(sorted(unknown))}.")
    return waiting


def continuation_prompt(messages: Sequence[Message]) -> tuple[UserMessage, ...]:
    """Return the first messages of a continuing run: a prompt if the agent spoke last.

    Without it, most services would read the last answer as the beginning of the next one.
    """
    if open_calls(messages) is not None:
        return ()
    # An answer that broke off before its first word is not sent: the message before it is the last.
    sent = (m for m in reversed(messages) if not isinstance(m, AssistantMessage) or m.content)
    last = next(sent, None)
    if not isinstance(last, AssistantMessage) or last.stop_reason in UNFINISHED:
        return ()
    return (user_text(GO_ON, "harness"),)
