"""Asking a model for a summary: what it is shown, what is accepted, and when to stop asking."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from dirge_py.context.compaction import Job
from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.shape import Shape
from dirge_py.lib.cut import cut_middle
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

Summarise: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Gets the whole prompt and the tokens the answer may have; may raise whatever it likes."""

Redact: TypeAlias = Callable[[str], str]

BREAKER = 3
"""Failures in a row after which no more summaries are asked for in a run."""

_BUDGET_SHARE = 0.20
_LEAST_BUDGET, _MOST_BUDGET = 2_000, 12_000
_MESSAGE_CHARS = (2_000, 1_000, 500, 250, 125)
_ARGUMENTS_SHARE = 4
_CHARS_PER_TOKEN = 3
_TOO_LONG = 6
_HEADING = re.compile(
    r"^[#*\s]*(active task|goal|completed actions|remaining work)\b", re.IGNORECASE | re.MULTILINE
)
_FENCES = re.compile(r"<{3,}|>{3,}")

_logger = logging.getLogger(__name__)


class Summariser:
    """Summaries of old history. `failures` counts those in a row that came to nothing."""

    def __init__(self, summarise: Summarise, redact: Redact = lambda text: text) -> None:
        self._summarise = summarise
        self._redact = redact
        self.failures = 0

    @property
    def is_off(self) -> bool:
        """Whether it failed so often that it is not asked again in this run."""
        return self.failures >= BREAKER

    async def write(self, job: Job, shape: Shape, cut: int) -> str | None:
        """A summary of everything before `cut`, the summary so far included; None: it failed."""
        budget = budget_tokens(job, shape, cut)
        prompt = prompt_for(job, shape, cut, budget)
        try:
            summary = accepted(await self._summarise(self._redact(prompt), budget), budget)
        except Exception as error:
            _logger.warning("no summary: %r", error)
            summary = None
        self.failures = self.failures + 1 if summary is None else 0
        return None if summary is None else self._redact(summary)


def budget_tokens(job: Job, shape: Shape, cut: int) -> int:
    """How long the summary may be: a fifth of what it stands for, within bounds."""
    folded = sum(job.sizes(shape)[: cut - shape.last]) * job.scale
    bounded = min(_MOST_BUDGET, max(_LEAST_BUDGET, int(folded * _BUDGET_SHARE)))
    return min(bounded, max(100, job.window // 4))


def prompt_for(job: Job, shape: Shape, cut: int, budget: int) -> str:
    """The whole request to the summarising model, the transcript fenced as material."""
    most = job.window * _CHARS_PER_TOKEN // 2
    parts = [prompt_text("summary"), f"Use at most {budget} tokens."]
    if job.focus:
        parts.append(f"Give 60 to 70 % of that room to this topic: {_unfenced(job.focus)}")
    if shape.summary:
        parts.append(
            "An earlier part was summarised before. Update that summary: keep every fact that "
            "still holds, and change what the transcript changes.\n"
            f"<<<\n{_unfenced(shape.summary)}\n>>>"
        )
    material = _transcript(job.messages[shape.last : cut], most)
    parts.append(f"The transcript:\n<<<\n{_unfenced(material)}\n>>>")
    return "\n\n".join(parts)


def accepted(text: str, budget: int) -> str | None:
    """The summary in what a model answered, without fences; None if it holds no known heading."""
    text = _FENCES.sub("", text).strip()
    if not _HEADING.search(text):
        return None
    return cut_middle(text, budget * _TOO_LONG, "\n[…]\n", tail=0.3)


def _unfenced(text: str) -> str:
    return _FENCES.sub(" ", text)


def _transcript(messages: Sequence[Message], most_chars: int) -> str:
    """The messages as text; the larger the whole, the less of each, and at last of the oldest."""
    lines: list[str] = []
    for message_chars in _MESSAGE_CHARS:
        told = (_told(message, message_chars) for message in messages)
        lines = [line for line in told if line]
        if sum(map(len, lines)) <= most_chars:
            return "\n\n".join(lines)
    room = most_chars
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return "\n\n".join(["[… the oldest messages are left out …]", *reversed(kept)])


def _told(message: Message, most: int) -> str:
    match message:
        case UserMessage():
            who = "user" if message.origin != "harness" else "harness"
            return f"[{who}] {_cut(message.text, most)}"
        case AssistantMessage():
            if message.withheld:
                return ""
            calls = [_told_call(call, most // _ARGUMENTS_SHARE) for call in message.calls]
            return "\n".join([f"[assistant] {_cut(message.text, most)}".rstrip(), *calls])
        case ToolResultMessage():
            status = " (error)" if message.is_error else ""
            return f"[result of {message.tool_name}{status}] {_cut(message.text, most)}"
        case CustomMessage():
            return ""
    return f"[reference] {_cut(message.text, most)}"


def _told_call(call: ToolCallBlock, most: int) -> str:
    return f"[calls {call.name}] {_cut(_as_json(call.arguments), most)}"


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _cut(text: str, most: int) -> str:
    return cut_middle(text, most, " […] ", tail=0.3)
