"""What a judge reads of a run: its messages as bounded plain text, and the agent's own rules."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dirge_py.guards.gate import excerpt
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

RULES_CHARS = 16_000
TRANSCRIPT_CHARS = 12_000
FIRST_CHARS = 2_000
RESULT_CHARS = 400
ARGUMENTS_CHARS = 200

_SUMMARY = re.compile(
    r"<(?P<tag>(?:conversation|context|compaction)[-_]summary)\b[^>]*>.*?</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)


def rules_of(system_prompt: str) -> str:
    """What the agent was told to keep to. A summary of older history in it is not a rule."""
    rules = _SUMMARY.sub("", system_prompt).strip()
    return rules if len(rules) <= RULES_CHARS else f"{rules[: RULES_CHARS - 1]}…"


def transcript_of(messages: Iterable[Message]) -> str:
    """The run as text: its beginning and its end, when it is too long for all of it."""
    text = "\n\n".join(line for message in messages for line in _lines(message))
    if len(text) <= TRANSCRIPT_CHARS:
        return text
    note = f"\n\n[… {len(text) - TRANSCRIPT_CHARS:,} characters left out …]\n\n"
    last = TRANSCRIPT_CHARS - FIRST_CHARS - len(note)
    return f"{text[:FIRST_CHARS]}{note}{text[-last:]}"


def _lines(message: Message) -> Iterator[str]:
    match message:
        case UserMessage():
            yield f"{_speaker(message)}: {message.text}"
        case AssistantMessage():
            if message.text:
                yield f"AGENT: {message.text}"
            for call in message.calls:
                yield f"CALL {call.name} {_arguments(call.arguments)}"
        case ToolResultMessage():
            yield f"{_label(message)} {message.tool_name}: {excerpt(message.text, RESULT_CHARS)}"


def _speaker(message: UserMessage) -> str:
    return "HARNESS" if message.origin in ("harness", "plugin") else "USER"


def _label(result: ToolResultMessage) -> str:
    outcome = result.details.get("outcome")
    if result.is_error:
        return "DENIED" if outcome == "denied" else "ERROR"
    return "FAILED COMMAND" if outcome == "failed_command" else "RESULT"


def _arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        return excerpt(arguments, ARGUMENTS_CHARS)
    return excerpt(json.dumps(arguments, ensure_ascii=False, default=str), ARGUMENTS_CHARS)
