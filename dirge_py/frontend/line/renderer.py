"""Renders loop events, stored messages and the phases of plans as lines."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dirge_py.conversation.log import ConversationLog
from dirge_py.frontend.event_text import describe_event, describe_run_end
from dirge_py.frontend.line.streams import LineWriter
from dirge_py.frontend.replay import replay_messages
from dirge_py.lib.text import format_cost, format_count, plural
from dirge_py.session.history import PlanRecordEvent
from dirge_py.session.recovery import title_of_call
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    EscalationActivated,
    EvidenceTaken,
    ForkEvent,
    HistoryMoved,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PermissionAnswered,
    PlanPhase,
    RepairStats,
    RetryNotice,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    UsageReported,
)
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

_RESULT_LINES = 4
_DIFF_LINES = 60
"""Most lines of a change that are shown."""
_LONG_MS = 2000
"""A call that took longer is shown with its time."""
_OUTCOMES = {
    "denied": "denied",
    "aborted": "interrupted",
    "timeout": "timed out",
    "suppressed": "not run",
}
_EVIDENCE = {"denied": "denied", "timeout": "timed out", "stopped": "stopped"}
_ORIGINS = {
    "steering": "Steered in: ",
    "follow_up": "Queued, delivered now: ",
    "harness": "From dirge, to the model: ",
    "plugin": "From a plugin, to the model: ",
}


class LineRenderer:
    """Renders one conversation as lines."""

    def __init__(self, writer: LineWriter, *, show_thinking: bool) -> None:
        self._writer = writer
        self._show_thinking = show_thinking
        self._streamed: dict[int, str] = {}
        self._has_thought = False
        self._is_in_run = False
        self._began_s = 0.0
        self._spent = ConversationLog((), Usage(), 0.0)
        self._titles: dict[str, str] = {}
        self._last_call = ""

    def replay(
        self, messages: Iterable[Message], besides: Sequence[tuple[int, PlanRecordEvent]] = ()
    ) -> None:
        """Render stored messages; `besides` as for `replay_messages`."""
        replay_messages(messages, besides, self._render_message, self._on_plan_event)

    def _render_message(self, message: Message) -> None:
        match message:
            case UserMessage():
                self._render_prompt(message)
            case AssistantMessage():
                self._render_answer(message)
                for call in message.calls:
                    self._begin_call(call)
            case ToolResultMessage():
                self._render_result(message.tool_call_id, message.text, message.details, 0)

    def on_event(self, event: LoopEvent) -> None:
        """Write an event as lines; some events are not shown."""
        match event:
            case AgentStart():
                self._is_in_run, self._began_s = True, time.monotonic()
                self._spent = ConversationLog((), Usage(), 0.0)
            case MessageStart(message=AssistantMessage()):
                self._streamed, self._has_thought = {}, False
            case MessageUpdate():
                self._on_delta(event)
            case MessageEnd(message=UserMessage() as message) if message.origin != "user":
                self._render_prompt(message)
            case MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case ToolExecutionStart():
                self._begin_call(_call_of(event))
            case ToolExecutionEnd(deferred=False, result=result, duration_ms=took_ms):
                self._render_result(event.tool_call_id, result.text, result.details, took_ms)
            case HistoryMoved():
                self._writer.line("The session is at another point now. Its messages up to there:")
                self.replay(event.messages)
            case CompactionStarted() | ContextCompacted() if not self._is_in_run:
                pass
            case PlanPhase() | EvidenceTaken() | ForkEvent():
                self._on_plan_event(event)
            case UsageReported():
                self._spent.record(event)
            case AgentEnd():
                self._end_run(event)
            case _ if text := _notice_text(event):
                self._writer.line(text)

    def _on_delta(self, event: MessageUpdate) -> None:
        if event.phase == "thinking_delta":
            if not self._has_thought:
                self._writer.line("Thinking:" if self._show_thinking else "Thinking.")
                self._has_thought = True
            if self._show_thinking:
                self._writer.append(event.delta)
        elif event.phase == "text_delta":
            if event.index not in self._streamed:
                self._writer.end_line()
            self._streamed[event.index] = self._streamed.get(event.index, "") + event.delta
            self._writer.append(event.delta)

    def _end_answer(self, message: AssistantMessage) -> None:
        self._writer.end_line()
        streamed = "\n".join(self._streamed.values())
        self._streamed = {}
        is_replaced, is_other = streamed != message.text, message.origin == "harness"
        if is_replaced and streamed and not (message.withheld or is_other):
            self._writer.line("This answer replaces it:")
        if is_replaced or message.withheld or is_other:
            self._render_answer(message)

    def _render_answer(self, message: AssistantMessage) -> None:
        if message.withheld:
            self._writer.line(f"The answer was withheld by {message.withheld}.")
        elif message.text.strip():
            source = "From dirge: " if message.origin == "harness" else ""
            self._writer.line(source + message.text)

    def _render_prompt(self, message: UserMessage) -> None:
        typed = next((b.text for b in message.content if isinstance(b, TextBlock)), "")
        attached = f" (attached {', '.join(message.attached)})" if message.attached else ""
        self._writer.line(_ORIGINS.get(message.origin, "> ") + typed + attached)

    def _begin_call(self, call: ToolCallBlock) -> None:
        self._titles[call.id] = title_of_call(call)
        self._last_call = call.id
        self._writer.line(f"● {self._titles[call.id]}")

    def _render_result(
        self, call_id: str, text: str, details: Mapping[str, Any], took_ms: int
    ) -> None:
        title = self._titles.pop(call_id, "")
        notes = ", ".join(_notes(details, took_ms))
        if title and call_id != self._last_call:
            self._writer.line(f"● {title}: {notes or 'done'}")
        elif notes:
            self._writer.line(f"  {notes}")
        for line in _result_lines(text, details):
            self._writer.line(f"  {line}")

    def _end_run(self, event: AgentEnd) -> None:
        self._is_in_run = False
        self._titles.clear()
        if text := describe_run_end(event)[0]:
            self._writer.line(text)
        answers = sum(isinstance(message, AssistantMessage) for message in event.messages)
        parts = [plural(answers, "turn"), f"{time.monotonic() - self._began_s:.0f} s"]
        spent = self._spent
        if spent.usage:
            parts.append(f"{format_count(spent.usage.total)} tokens")
        if spent.cost_usd or (spent.usage and spent.cost_usd is None):
            parts.append(format_cost(spent.cost_usd, spent.least_usd))
        self._writer.line(f"({', '.join(parts)})")

    def _on_plan_event(self, event: PlanPhase | EvidenceTaken | ForkEvent) -> None:
        """Write an event of a plan. Of a fork, the end of the phase shows the answer."""
        match event:
            case PlanPhase(state="started"):
                self._writer.line(describe_event(event))
            case PlanPhase():
                parts = [f"{event.duration_ms / 1000:.0f} s"]
                if event.usage:
                    parts.append(f"{format_count(event.usage.total)} tokens")
                if event.cost_usd:
                    parts.append(f"${event.cost_usd:.4f}")
                self._writer.line(f"{describe_event(event)} ({', '.join(parts)})")
                if event.phase in ("plan", "review") and event.text.strip():
                    self._writer.line(event.text.strip())
            case EvidenceTaken():
                how = _EVIDENCE.get(event.outcome) or f"exit {event.exit_code}"
                mark = "✓" if event.outcome == "passed" else "✗"
                self._writer.line(f"  {mark} {event.id}: {how}: {event.command}")
            case ForkEvent(event=ToolExecutionStart() as start):
                self._writer.line(f"  ● {title_of_call(_call_of(start))}")
            case ForkEvent(event=ToolExecutionEnd(is_error=True, deferred=False, result=result)):
                # A denial has been shown already.
                if result.details.get("outcome") != "denied":
                    line = next((x for x in result.text.splitlines() if x.strip()), "failed")
                    self._writer.line(f"    {line}")
            case ForkEvent(event=PermissionAnswered() | RetryNotice() | SystemNotice() as notice):
                if text := _notice_text(notice):
                    self._writer.line(f"  {text}")


def _notice_text(event: LoopEvent) -> str:
    match event:
        case PermissionAnswered(effect="deny") if event.policy != "answer":
            return f"Denied {event.tool_name}: {event.reason}"
        case RetryNotice():
            wait = f" in {event.delay_ms / 1000:.0f} s" if event.delay_ms else ""
            return f"Retrying{wait} (attempt {event.attempt + 1}): {event.error}"
        case SystemNotice(content=content):
            return content
        case ContextReplaced():
            return "From here on, the model sees a different history."
        case CompactionStarted() | ContextCompacted() | EscalationActivated() | RepairStats():
            return describe_event(event)
    return ""


def _call_of(event: ToolExecutionStart) -> ToolCallBlock:
    return ToolCallBlock(id=event.tool_call_id, name=event.tool_name, arguments=event.args)


def _notes(details: Mapping[str, Any], took_ms: int) -> Iterator[str]:
    outcome = str(details.get("outcome"))
    if outcome in _OUTCOMES:
        yield _OUTCOMES[outcome]
    if details.get("exit_code") not in (None, 0):
        yield f"exit {details['exit_code']}"
    elif outcome == "error":
        yield "failed"
    if took_ms >= _LONG_MS:
        yield f"{took_ms / 1000:.1f} s"


def _result_lines(text: str, details: Mapping[str, Any]) -> Sequence[str]:
    """The result as lines: a whole change, the last lines of a command, or the first lines."""
    diff = str(details.get("diff") or "").rstrip("\n")
    most = _DIFF_LINES if diff else _RESULT_LINES
    lines = diff.split("\n") if diff else [line for line in text.split("\n") if line.strip()]
    hidden = len(lines) - most
    if hidden <= 0:
        return lines
    if "exit_code" in details and not diff:
        return [f"… {plural(hidden, 'earlier line')}", *lines[-most:]]
    return [*lines[:most], f"… {plural(hidden, 'more line')}"]
