"""The phases of a plan as lines: what each is about, what its fork does, and what came of it."""

from dirge_py.frontend.event_text import describe_event
from dirge_py.frontend.line.paper import Paper
from dirge_py.lib.text import clean, format_count
from dirge_py.session.recovery import title_of_call
from dirge_py.types.events import (
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    PermissionAnswered,
    PlanPhase,
    RetryNotice,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.messages import ToolCallBlock

_ENDED = {
    "denied": "denied",
    "timeout": "timed out",
    "stopped": "stopped",
}


class PhaseLines:
    """Tells the events of plans."""

    def __init__(self, paper: Paper) -> None:
        self._say = paper.line

    def hear(self, event: PlanPhase | EvidenceTaken | ForkEvent) -> None:
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
