"""Texts for the outcomes of runs and plans: one table for chats, programs and scripts."""

from typing import Literal, NamedTuple

from dirge_py.guards.limits import setting_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import plural
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

_CONTINUE = "Use /continue to continue."


class Words(NamedTuple):
    """What happened, and what to do about it."""

    text: str = ""
    """What happened; empty if no message is needed."""
    next_step: str = ""
    """What to do; empty if nothing can be done, or that is unknown."""


@dataclass(frozen=True, slots=True)
class OutcomeText:
    """The texts of one outcome, by audience."""

    chat: Words
    """For a person who continues in the same conversation."""
    tone: Literal["plain", "warning", "error"]
    """How a chat shows its words."""
    program: Words
    """For a caller of the SDK that expected a result."""
    script: Words = Words()
    """For a reader of print mode's result object; empty if it is not an error."""


def outcome_text(outcome: Outcome) -> OutcomeText:
    """The row of the table for this outcome."""
    match outcome:
        case Done(stopped_by=guard):
            program = Words("The run ended without a result.")
            chat = Words(f"Stopped by the {guard} guard.") if guard else Words()
            if guard == "storm":
                chat = Words("Stopped by the storm guard: the model made no progress.")
            return OutcomeText(chat, "warning", program)
        case MaxTurns(max=most):
            turns = plural(most, "turn")
            program = Words(f"The run reached its limit of {turns}.", "Raise `max_turns`.")
            fix = "Raise --max-turns, or continue with `dirge -c -p /continue`."
            script = Words(f"stopped after {turns}, the limit.", fix)
            # A notice has named the number of turns.
            return OutcomeText(Words("", _CONTINUE), "warning", program, script)
        case LimitExceeded(message=limit, name="session_tokens" | "session_cost" as name):
            key = setting_of(name)
            program = Words(f"The run was stopped: {limit}.", f"Raise `{key}`.")
            script = Words(f"{limit}.", f"Raise `{key}` under `[limits]`, or begin a session.")
            chat = Words(f"Stopped: {limit}.", f"`/limits {key} N` raises it; then /continue.")
            return OutcomeText(chat, "warning", program, script)
        case LimitExceeded(message=limit):
            program = Words(f"The run was stopped: {limit}.", "Raise that limit.")
            fix = "Raise the limit, or continue with `dirge -c -p /continue`."
            chat, script = Words(f"Stopped: {limit}.", _CONTINUE), Words(f"{limit}.", fix)
            return OutcomeText(chat, "warning", program, script)
        case NeedsMoreTurns(turn=turn):
            step = "/step takes the next turn, /continue all of them; a prompt comes before it."
            chat = Words(f"Turn {turn} has ended; the run needs more.", step)
            program = Words(f"The run pauses after turn {turn}.", "Continue it with `Continue()`.")
            return OutcomeText(chat, "plain", program)
        case NotVerified(reason=reason):
            program = Words(f"The plan was not verified: {reason}")
            script = Words(reason, "Continue it with `dirge -c -p '/plan resume'`.")
            return OutcomeText(Words(f"Not verified: {reason}"), "warning", program, script)
        case AwaitingConfirmation(description=what):
            chat = Words(f"A call waits for your decision. {what}".strip())
            program = Words(f"A call waits for a decision: {what}", "Continue with `Resume(…)`.")
            return OutcomeText(chat, "warning", program)
        case Cancelled(reason=reason):
            chat = Words("Interrupted.")
            if reason == "interject":
                chat = Words("Stopped after this turn, as you asked.", _CONTINUE)
            program = Words(f"The run was stopped ({reason}).")
            return OutcomeText(chat, "plain", program, Words(f"stopped: {reason}."))
        case Refused(reason=reason):
            program = Words(f"The model refused: {reason}")
            return OutcomeText(Words(f"Refused: {reason}"), "error", program, Words(reason))
        case HookTerminated():
            return _hook(outcome)
        case Failed(message=message, hint=hint):
            chat = Words("\n".join(part for part in (message, hint) if part))
            return OutcomeText(chat, "error", Words(message, hint), Words(message, hint))


def why_not_done(outcome: Outcome) -> Words:
    """What happened and what to do, for a caller that expected a result."""
    return outcome_text(outcome).program


def plan_outcome_text(outcome: Outcome) -> tuple[str, Literal["plain", "good", "warning", "error"]]:
    """The text of a chat for the end of a plan, and its tone."""
    match outcome:
        case Done():
            return "The plan is done, and verified.", "good"
        case NotVerified(reason=reason):
            return f"The plan was not verified. {reason}", "warning"
        case AwaitingConfirmation(call_ids=()):
            return "The plan is stored. Run it with /plan accept.", "plain"
        case Cancelled(reason="dropped"):
            return "The plan was discarded. Nothing was changed.", "plain"
        case Cancelled():
            return "The plan was interrupted.", "plain"
        case Failed(message=message, hint=hint):
            return f"{message} {hint}".strip(), "error"
        case _:
            reasons = " ".join(why_not_done(outcome)).strip()
            return f"The plan was stopped before the review: {reasons}", "warning"


def _hook(outcome: HookTerminated) -> OutcomeText:
    point, reason = outcome.point, outcome.reason
    chat = Words(f"Stopped at {point}: {reason}")
    script = Words(f"a hook ended the run at {point}: {reason}")
    if point == "before_prompt":
        chat, script = Words(f"Not sent: {reason}."), Words(f"the prompt was not sent: {reason}")
    elif point == "output":
        script = Words(f"the answer was withheld: {reason}")
    program = Words(f"A hook ended the run at {point}: {reason}")
    return OutcomeText(chat, "warning", program, script)
