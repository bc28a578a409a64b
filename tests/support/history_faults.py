"""Finds what strict services reject in a history, independently of the code under test."""

from collections.abc import Sequence

from dirge_py.types.messages import (
    UNFINISHED,
    AssistantMessage,
    CustomMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
)

RESULT_CHARS = 40_000


def faults(messages: Sequence[Message]) -> list[str]:
    """Why a strict service would reject these messages; empty if it would not."""
    found: list[str] = []
    awaited: list[str] = []
    before: Message | None = None
    for number, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            if awaited[:1] != [message.tool_call_id]:
                found.append(f"{number}: unexpected result {message.tool_call_id!r}")
            else:
                awaited.pop(0)
            if sum(len(b.text) for b in message.content if isinstance(b, TextBlock)) > RESULT_CHARS:
                found.append(f"{number}: too long")
            before = message
            continue
        if awaited:
            found.append(f"{number}: no result for {awaited}")
        awaited = []
        if isinstance(message, CustomMessage):
            found.append(f"{number}: custom")
        if isinstance(message, AssistantMessage):
            ids = [block.id for block in message.calls]
            awaited = list(ids)
            if len(set(ids)) != len(ids) or not all(ids):
                found.append(f"{number}: ids {ids}")
            if message.withheld:
                found.append(f"{number}: withheld")
            if before is None:
                found.append(f"{number}: an answer comes first")
            if isinstance(before, AssistantMessage) and before.stop_reason not in UNFINISHED:
                found.append(f"{number}: two answers in a row")
        if not isinstance(message, CustomMessage) and not any(
            not isinstance(b, TextBlock | ThinkingBlock)
            or (isinstance(b, TextBlock) and b.text.strip())
            for b in message.content
        ):
            found.append(f"{number}: empty")
        before = message
    return [*found, *([f"open: {awaited}"] if awaited else [])]
