"""How a run's end is told to the person, when it needs telling."""

from dirge_py.slash.base import Tone
from dirge_py.types.events import AgentEnd
from dirge_py.types.messages import AssistantMessage, ThinkingBlock
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    LimitExceeded,
    MaxTurns,
    NeedsMoreTurns,
    NotVerified,
    Refused,
)


def describe_run_end(event: AgentEnd) -> tuple[str, Tone]:
    """A line for the end of a run; empty when its last words say enough."""
    match event.outcome:
        case Done(stopped_by="storm"):
            return "Stopped by the storm guard: the same calls came again and again.", "warning"
        case Done(stopped_by=guard) if guard:
            return f"Stopped by the {guard} guard.", "warning"
        case Done():
            answers = [m for m in event.messages if isinstance(m, AssistantMessage)]
            return (describe_silent_answer(answers[-1]) if answers else ""), "warning"
        case MaxTurns():
            # How many turns that were, a notice has said.
            return "/continue goes on.", "warning"
        case LimitExceeded() as limit:
            return f"Stopped: {limit.message}. /continue goes on.", "warning"
        case NeedsMoreTurns():
            return "One turn was asked for; more is to do. /continue goes on.", "plain"
        case Cancelled(reason="interject"):
            return "Stopped after this turn, as asked. /continue goes on.", "plain"
        case Cancelled():
            return "Interrupted.", "plain"
        case Refused(reason=reason):
            return f"Refused: {reason}", "error"
        case HookTerminated(point="before_prompt", reason=reason):
            return f"Not sent: {reason}.", "warning"
        case HookTerminated() if _was_withheld(event):
            return "", "plain"
        case HookTerminated(point=point, reason=reason):
            return f"Stopped at {point}: {reason}", "warning"
        case NotVerified(reason=reason):
            return f"Not verified: {reason}", "warning"
        case AwaitingConfirmation(description=description):
            return f"Waits for a decision. {description}".strip(), "warning"
        case Failed(message=message, hint=hint):
            return "\n".join(part for part in (message, hint) if part), "error"


def describe_silent_answer(
    message: AssistantMessage, *, way_on: str = " /retry takes the prompt back."
) -> str:
    """What to say of a whole answer without a word or a call; empty for any other."""
    is_whole = message.origin == "model" and message.stop_reason in ("stop", "length")
    if not is_whole or message.withheld or message.calls or message.text.strip():
        return ""
    if any(isinstance(block, ThinkingBlock) for block in message.content):
        return f"The model said nothing: it only thought.{way_on}"
    return f"The model said nothing.{way_on}"


def _was_withheld(event: AgentEnd) -> bool:
    """Whether the run ended with an answer that a guardrail withheld, which says so itself."""
    answers = [m for m in event.messages if isinstance(m, AssistantMessage)]
    return bool(answers) and bool(answers[-1].withheld)
