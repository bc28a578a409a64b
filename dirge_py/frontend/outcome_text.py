"""How a run's end is told to the person, when it needs telling."""

from dirge_py.sdk.outcome_text import outcome_text
from dirge_py.slash.base import Tone
from dirge_py.types.events import AgentEnd
from dirge_py.types.messages import AssistantMessage, ThinkingBlock
from dirge_py.types.outcomes import Done, HookTerminated


def describe_run_end(event: AgentEnd) -> tuple[str, Tone]:
    """A line for the end of a run; empty when its last words say enough."""
    match event.outcome:
        case Done(stopped_by=""):
            answers = [m for m in event.messages if isinstance(m, AssistantMessage)]
            return (describe_silent_answer(answers[-1]) if answers else ""), "warning"
        case HookTerminated(point=point) if point != "before_prompt" and _was_withheld(event):
            return "", "plain"
        case outcome:
            shown = outcome_text(outcome)
            return " ".join(filter(None, shown.chat)), shown.tone


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
