"""Renders loop events, stored messages and the phases of plans as lines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dirge_py.conversation.log import ConversationLog
from dirge_py.frontend.event_text import describe_event
from dirge_py.frontend.line.streams import LineWriter
from dirge_py.frontend.outcome_text import describe_run_end
from dirge_py.frontend.replay import replay_messages
from dirge_py.lib.text import clean, format_cost, format_count
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

if TYPE_CHECKING:
    from dirge_py.session.history import PlanRecordEvent


_RESULT_LINES = 4
_DIFF_LINES = 60
"""A change is told in full, up to here."""
_LONG_MS = 2000
"""From here on it is said how long a call took."""
_MEANT = {
    "denied": "denied",
    "aborted": "interrupted",
    "timeout": "timed out",
    "suppressed": "not run",
}
_ENDED = {
    "denied": "denied",
    "timeout": "timed out",
    "stopped": "stopped",
}


class LineRenderer:
    """Tells one conversation. `clock` gives seconds."""

    def __init__(
        self, writer: LineWriter, *, show_thinking: bool, clock: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._phases = LinePlanRenderer(writer)
        self._show_thinking = show_thinking
        self._clock = clock
        self._streamed: dict[int, str] = {}
        self._has_thought = False
        self._is_in_run = False
        self._began_s = 0.0
        self._spent = ConversationLog((), Usage(), 0.0)
        self._titles: dict[str, str] = {}
        self._last_call = ""

    def replay(
        self, messages: Iterable[Message], besides: "Sequence[tuple[int, PlanRecordEvent]]" = ()
    ) -> None:
        """Stored messages, as they were told once; `besides` as for `replay_messages`."""
        replay_messages(messages, besides, self._tell_stored, self._phases.on_event)

    def _tell_stored(self, message: Message) -> None:
        match message:
            case UserMessage():
                self._tell_prompt(message)
            case AssistantMessage():
                self._tell_whole(message)
                for call in message.calls:
                    self._begin_call(call)
            case ToolResultMessage():
                details = {**message.details}
                self._tell_result(message.tool_call_id, message.text, details, 0)

    def on_event(self, event: LoopEvent) -> None:
        """Tell what an event says; some say nothing that a person would miss."""
        say = self._writer.line
        match event:
            case AgentStart():
                self._is_in_run, self._began_s = True, self._clock()
                self._spent = ConversationLog((), Usage(), 0.0)
            case MessageStart(message=AssistantMessage()):
                self._streamed, self._has_thought = {}, False
            case MessageUpdate():
                self._grow(event)
            case MessageEnd(message=UserMessage() as message) if message.origin != "user":
                self._tell_prompt(message)
            case MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case ToolExecutionStart():
                self._begin_call(_call_of(event))
            case ToolExecutionEnd(deferred=False):
                details, took_ms = event.result.details, event.duration_ms
                self._tell_result(event.tool_call_id, event.result.text, details, took_ms)
            case PermissionAnswered(effect="deny") if event.policy != "answer":
                say(f"Denied {event.tool_name}: {event.reason}")
            case RetryNotice():
                wait = f" in {event.delay_ms / 1000:.0f} s" if event.delay_ms else ""
                say(f"Try {event.attempt + 1}{wait}: {event.error}")
            case SystemNotice(content=content):
                say(content)
            case CompactionStarted() | ContextCompacted() if self._is_in_run:
                say(describe_event(event))
            case ContextReplaced():
                say("From here on the model is shown another history than this one.")
            case HistoryMoved():
                say("The session stands at another point now. What was said up to it:")
                self.replay(event.messages)
            case EscalationActivated() | RepairStats():
                say(describe_event(event))
            case PlanPhase() | EvidenceTaken() | ForkEvent():
                self._phases.on_event(event)
            case UsageReported():
                self._spent.record(event, None)
            case AgentEnd():
                self._end(event)

    # -- answers

    def _grow(self, event: MessageUpdate) -> None:
        if event.phase == "thinking_delta":
            self._tell_thinking(event.delta)
        elif event.phase == "text_delta":
            if event.index not in self._streamed:
                self._writer.end_line()
            self._streamed[event.index] = self._streamed.get(event.index, "") + event.delta
            self._writer.grow(event.delta)

    def _tell_thinking(self, text: str) -> None:
        if not self._has_thought:
            self._writer.line("Thinking:" if self._show_thinking else "Thinking.")
            self._has_thought = True
        if self._show_thinking:
            self._writer.grow(text)

    def _end_answer(self, message: AssistantMessage) -> None:
        self._writer.end_line()
        told = "\n".join(self._streamed.values())
        self._streamed = {}
        if message.withheld or message.origin == "harness":
            self._tell_whole(message)
        elif told != message.text:
            if told:
                self._writer.line("What counts is this answer:")
            self._tell_whole(message)

    def _tell_whole(self, message: AssistantMessage) -> None:
        if message.withheld:
            self._writer.line(f"The answer was withheld by {message.withheld}.")
        elif message.text.strip():
            source = "From dirge: " if message.origin == "harness" else ""
            self._writer.line(source + message.text)

    def _tell_prompt(self, message: UserMessage) -> None:
        typed = next((b.text for b in message.content if isinstance(b, TextBlock)), "")
        labels = {
            "steering": "Steered in: ",
            "follow_up": "Queued, delivered now: ",
            "harness": "From dirge, to the model: ",
            "plugin": "From a plugin, to the model: ",
        }
        attached = f" (attached {', '.join(message.attached)})" if message.attached else ""
        self._writer.line(labels.get(message.origin, "> ") + typed + attached)

    # -- tools

    def _begin_call(self, call: ToolCallBlock) -> None:
        self._titles[call.id] = title_of_call(call)
        self._last_call = call.id
        self._writer.line(f"● {self._titles[call.id]}")

    def _tell_result(
        self, call_id: str, text: str, details: Mapping[str, Any], took_ms: int
    ) -> None:
        title = self._titles.pop(call_id, "")
        notes = _notes(details, took_ms)
        if title and call_id != self._last_call:
            self._writer.line(f"● {title}: {', '.join(notes) or 'done'}")
        elif notes:
            self._writer.line(f"  {', '.join(notes)}")
        for line in _result_lines(text, details):
            self._writer.line(f"  {line}")

    # -- the end

    def _end(self, event: AgentEnd) -> None:
        self._is_in_run = False
        self._titles.clear()
        words, _ = describe_run_end(event)
        if words:
            self._writer.line(words)
        answers = sum(isinstance(message, AssistantMessage) for message in event.messages)
        parts = [f"{answers} turn{'s' * (answers != 1)}", f"{self._clock() - self._began_s:.0f} s"]
        usage = self._spent.usage
        if usage:
            parts.append(f"{format_count(usage.total)} tokens")
        if usage and self._spent.cost_usd is None:
            parts.append(format_cost(None, self._spent.least_usd))
        elif self._spent.cost_usd:
            parts.append(f"${self._spent.cost_usd:.4f}")
        self._writer.line(f"({', '.join(parts)})")


def _call_of(event: ToolExecutionStart) -> ToolCallBlock:
    return ToolCallBlock(id=event.tool_call_id, name=event.tool_name, arguments=event.args)


def _notes(details: Mapping[str, Any], took_ms: int) -> list[str]:
    notes = [_MEANT.get(str(details.get("outcome")), "")]
    if details.get("exit_code") not in (None, 0):
        notes.append(f"exit {details['exit_code']}")
    elif details.get("outcome") == "error":
        notes.append("failed")
    if took_ms >= _LONG_MS:
        notes.append(f"{took_ms / 1000:.1f} s")
    return [note for note in notes if note]


def _result_lines(text: str, details: Mapping[str, Any]) -> Sequence[str]:
    """A change in full; of a command the last lines, of anything else the first."""
    if details.get("diff"):
        lines = str(details["diff"]).rstrip("\n").split("\n")
        return _capped(lines, _DIFF_LINES)
    lines = [line for line in text.split("\n") if line.strip()]
    if "exit_code" in details and len(lines) > _RESULT_LINES:
        hidden = len(lines) - _RESULT_LINES
        earlier = f"… {hidden} earlier line{'s' * (hidden != 1)}"
        return [earlier, *lines[-_RESULT_LINES:]]
    return _capped(lines, _RESULT_LINES)


def _capped(lines: Sequence[str], most: int) -> Sequence[str]:
    hidden = len(lines) - most
    if hidden <= 0:
        return lines
    return [*lines[:most], f"… {hidden} more line{'s' * (hidden != 1)}"]


class LinePlanRenderer:
    """Tells the events of plans."""

    def __init__(self, writer: LineWriter) -> None:
        self._say = writer.line

    def on_event(self, event: PlanPhase | EvidenceTaken | ForkEvent) -> None:
        match event:
            case PlanPhase(state="started"):
                self._say(describe_event(event))
            case PlanPhase():
                self._tell_end(event)
            case EvidenceTaken():
                how = _ENDED.get(event.outcome) or f"exit {event.exit_code}"
                mark = "✓" if event.outcome == "passed" else "✗"
                self._say(clean(f"  {mark} {event.id}: {how}: {event.command}"))
            case ForkEvent():
                self._tell_fork(event.event)

    def _tell_end(self, event: PlanPhase) -> None:
        told = [f"{event.duration_ms / 1000:.0f} s"]
        if event.usage:
            told.append(f"{format_count(event.usage.total)} tokens")
        if event.cost_usd:
            told.append(f"${event.cost_usd:.4f}")
        self._say(f"{describe_event(event)} ({', '.join(told)})")
        if event.phase in ("plan", "review") and event.text.strip():
            self._say(clean(event.text.strip()))

    def _tell_fork(self, event: LoopEvent) -> None:
        """Its calls; what it says of them comes with the end of the phase."""
        match event:
            case ToolExecutionStart():
                call = ToolCallBlock(
                    id=event.tool_call_id, name=event.tool_name, arguments=event.args
                )
                self._say(f"  ● {title_of_call(call)}")
            case ToolExecutionEnd(is_error=True, deferred=False) if not _was_denied(event):
                line = next((x for x in event.result.text.splitlines() if x.strip()), "failed")
                self._say(f"    {clean(line)}")
            case PermissionAnswered(effect="deny") if event.policy != "answer":
                self._say(f"  Denied {event.tool_name}: {event.reason}")
            case RetryNotice():
                self._say(f"  Try {event.attempt + 1}: {event.error}")
            case SystemNotice(content=content):
                self._say(f"  {content}")


def _was_denied(event: ToolExecutionEnd) -> bool:
    """Of which has been told already."""
    return event.result.details.get("outcome") == "denied"
