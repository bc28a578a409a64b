"""Texts about events, the end of a run and `!` commands, the same in every front end."""

import re
from typing import TYPE_CHECKING, TypeAlias, assert_never

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean, format_count
from dirge_py.processes.output import excerpt
from dirge_py.sdk.outcome_text import outcome_text
from dirge_py.slash.base import Tone
from dirge_py.types.events import (
    AgentEnd,
    CompactionStarted,
    ContextCompacted,
    EscalationActivated,
    PlanPhase,
    RepairStats,
)
from dirge_py.types.messages import AssistantMessage, ThinkingBlock, UserMessage, user_text
from dirge_py.types.outcomes import Done, HookTerminated

if TYPE_CHECKING:
    from dirge_py.processes.running_command import CommandResult

_SHELL_MESSAGE = late_pattern(r"The person ran `(.*?)` \(([^()\n]*)\):\n(.*)", re.DOTALL)
_NO_OUTPUT = "(no output)"
_STOPPED = "stopped by the person"
"""As the model reads it; the user reads `stopped by you`."""

DescribedEvent: TypeAlias = (
    CompactionStarted | ContextCompacted | EscalationActivated | RepairStats | PlanPhase
)


def describe_event(event: DescribedEvent) -> str:
    """One sentence, or two, about `event`; untrusted text in it is not cleaned."""
    match event:
        case CompactionStarted():
            return f"Compacting the context, about {format_count(event.tokens_before)} tokens…"
        case ContextCompacted():
            return _describe_compaction(event)
        case EscalationActivated():
            cause, _, what = event.reason.partition(": ")
            why = {
                "repair_exhausted": f"the arguments of `{what}` were wrong again and again",
                "syntactic_failure": f"a change left a syntax error ({what})",
            }.get(cause, event.reason)
            return f"{event.provider} takes over for the next call: {why}."
        case RepairStats():
            # Most frequent first.
            ordered = sorted(event.counts.items(), key=lambda item: (-item[1], item[0]))
            counts = ", ".join(f"{kind} {count}×" for kind, count in ordered)
            return f"Tool calls repaired in this run: {counts}."
        case PlanPhase():
            where = f" ({event.shut_in})" if event.shut_in and event.state == "started" else ""
            phase = f"Plan, step {event.step}: {event.phase} {event.state}{where}."
            return f"{phase} {event.summary}".strip()
    assert_never(event)


def _describe_compaction(event: ContextCompacted) -> str:
    """As `Context compacted: about 182k → 41k tokens, summary by work/small.`"""
    before, after = format_count(event.tokens_before), format_count(event.tokens_after)
    sizes = f"about {before} → {after} tokens"
    author = event.summary_model or "the model"
    why = f": {event.problem}" if event.problem else ""
    if event.kind == "failed_summary" and event.tokens_after >= event.tokens_before:
        return f"dirge couldn't summarize the older history{why}. Nothing was left out."
    return {
        "summary": f"Context compacted: {sizes}, summary by {author}.",
        "prune": f"Context compacted: {sizes}, older tool results shortened.",
        "failed_summary": f"Context compacted: {sizes}, without a summary; it failed{why}.",
        "summary_off": f"Context compacted: {sizes}, without a summary; the last ones failed{why}.",
        "overflow": f"Context compacted: {sizes}, older history left out.",
        "server": f"Context compacted by the service: {before} tokens summarized by {author}.",
        "shown_again": f"A message is sent in full again: {sizes}.",
        "undone": f"The last compaction was undone: {sizes}.",
    }[event.kind]


def describe_run_end(event: AgentEnd) -> tuple[str, Tone]:
    """A line for the end of a run; empty when the last answer says enough."""
    answers = [m for m in event.messages if isinstance(m, AssistantMessage)]
    match event.outcome:
        case Done(stopped_by=""):
            return (describe_silent_answer(answers[-1]) if answers else ""), "warning"
        case HookTerminated(point=point) if point != "before_prompt" and (
            answers and answers[-1].withheld
        ):
            # An answer that a guardrail withheld says so itself.
            return "", "plain"
        case outcome:
            shown = outcome_text(outcome)
            return " ".join(filter(None, shown.chat)), shown.tone


def describe_silent_answer(
    message: AssistantMessage, *, way_on: str = " /retry to edit and resend."
) -> str:
    """A notice about a complete answer without text or calls; empty for any other."""
    is_complete = message.origin == "model" and message.stop_reason in ("stop", "length")
    if not is_complete or message.withheld or message.calls or message.text.strip():
        return ""
    has_thought = any(isinstance(block, ThinkingBlock) for block in message.content)
    return f"The model returned an empty answer{', after thinking' * has_thought}.{way_on}"


def format_shell_message(command: str, finished: "CommandResult") -> UserMessage:
    """A command that the user ran with `!`, as a message of the origin `shell`."""
    how = _STOPPED if finished.aborted else f"exit {finished.exit_code}"
    if finished.signal is not None and not finished.aborted:
        how = f"ended by signal {finished.signal}"
    output = clean(excerpt(finished.output)).strip("\n") or _NO_OUTPUT
    return user_text(f"The person ran `{command}` ({how}):\n{output}", "shell")


def parse_shell_message(text: str) -> tuple[str, str, str]:
    """The command, how it ended, and its output, from the text of such a message."""
    match = _SHELL_MESSAGE.fullmatch(text)
    if match is None:
        command, _, output = text.partition("\n")
        return command, "", output
    command, how, output = match.groups()
    how = "stopped by you" if how == _STOPPED else how
    return command, how, "" if output == _NO_OUTPUT else output
