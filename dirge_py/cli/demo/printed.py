"""The demo as plain text: what the agent says, runs and changes, as it happens."""

import sys

from dirge_py.lib.text import clean
from dirge_py.types.events import (
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PlanPhase,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.messages import AssistantMessage, ThinkingBlock

MOST_LINES = 14
LAST_LINES = 3
"""Of a long output these are shown as well: there commands say how they ended."""


class Storyteller:
    """A sink that prints a run for people to read."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}

    def sink(self, event: LoopEvent) -> None:
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                for block in message.content:
                    if isinstance(block, ThinkingBlock):
                        say(f"  (thinking) {block.text}")
                if message.text:
                    say(f"\n{message.text}")
            case ToolExecutionStart():
                self._running[event.tool_call_id] = _main_argument(event.args)
            case ToolExecutionEnd(result=result):
                say(f"\n● {event.tool_name} {self._running.pop(event.tool_call_id, '')}")
                say(_indented(str(result.details.get("diff") or result.text)))
            case PlanPhase(state="started"):
                say(f"\n── {event.phase}, cycle {event.step} {_in_brackets(event.shut_in)}──")
            case PlanPhase(summary=summary) if summary:
                say(f"\n   {event.phase} ended: {summary}")
            case EvidenceTaken():
                say(f"  {'✓' if event.outcome == 'passed' else '✗'} {event.id}: {event.outcome}")
            case ForkEvent(event=inner):
                self.sink(inner)
            case SystemNotice(content=content):
                say(f"\n{content}")


def say(text: str) -> None:
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def _main_argument(args: object) -> str:
    if not isinstance(args, dict):
        return str(args)
    for name in ("command", "pattern", "path"):
        if name in args:
            return str(args[name])
    return ""


def _in_brackets(words: str) -> str:
    return f"({words}) " if words else ""


def _indented(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = lines
    if len(lines) > MOST_LINES:
        left_out = len(lines) - MOST_LINES
        shown = [*lines[: -LAST_LINES - left_out], f"… {left_out} more lines", *lines[-LAST_LINES:]]
    return "\n".join(f"  │ {line}" for line in shown)
