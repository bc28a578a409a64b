"""Outcomes of runs as text for people."""

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
    Outcome,
    Refused,
)


def why_not_done(outcome: Outcome) -> tuple[str, str]:
    """What happened, and what to do; the latter may be empty."""
    match outcome:
        case Done():
            return "The run is done and has no result.", ""
        case NeedsMoreTurns(turn=turn):
            return f"The run rests after turn {turn}.", "Go on with `Continue()`."
        case NotVerified(reason=reason):
            return f"The plan ended not verified: {reason}", ""
        case MaxTurns(max=most):
            return f"The run had {most} turns, the most it may have.", "Raise `max_turns`."
        case LimitExceeded():
            return f"The run was stopped: {outcome.message}.", "Raise that limit."
        case AwaitingConfirmation(description=what):
            return f"A call waits for a decision: {what}", "Go on with `Resume(…)`."
        case Cancelled(reason=reason):
            return f"The run was stopped ({reason}).", ""
        case Refused(reason=reason):
            return f"The model refused: {reason}", ""
        case HookTerminated(point=point, reason=reason):
            return f"A hook ended the run at {point}: {reason}", ""
        case Failed(message=message, hint=hint):
            return message, hint
