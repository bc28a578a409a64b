"""Sentences for people about events of a run and of a plan, the same in every front end."""

from typing import TypeAlias, assert_never

from dirge_py.lib.text import format_count
from dirge_py.types.events import (
    CompactionStarted,
    ContextCompacted,
    EscalationActivated,
    PlanPhase,
    RepairStats,
)

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
            return _describe_escalation(event)
        case RepairStats():
            return _describe_repairs(event)
        case PlanPhase():
            return _describe_phase(event)
    assert_never(event)


def _describe_compaction(event: ContextCompacted) -> str:
    """As `Context compacted: about 182k → 41k tokens, summary by work/small.`"""
    before, after = format_count(event.tokens_before), format_count(event.tokens_after)
    sizes = f"about {before} → {after} tokens"
    author = event.summary_model or "the model"
    match event.kind:
        case "summary":
            return f"Context compacted: {sizes}, summary by {author}."
        case "prune":
            return f"Context compacted: {sizes}, older tool results shortened."
        case "failed_summary" if event.tokens_after >= event.tokens_before:
            return "No summary of the older history could be made; nothing was left out."
        case "failed_summary":
            return f"Context compacted: {sizes}, without a summary: none could be made."
        case "summary_off":
            return f"Context compacted: {sizes}, without a summary: the last ones failed."
        case "overflow":
            return f"Context compacted: {sizes}, older history left out."
        case "server":
            return f"Context compacted by the service: {before} tokens folded by {author}."
        case "shown_again":
            return f"A message is sent whole again: {sizes}."
        case "undone":
            return f"The last compaction was taken back: {sizes}."


def _describe_escalation(event: EscalationActivated) -> str:
    """Which model answers next, and why."""
    cause, _, what = event.reason.partition(": ")
    why = {
        "repair_exhausted": f"the arguments of `{what}` stayed wrong",
        "syntactic_failure": f"a change left a syntax error ({what})",
    }.get(cause, event.reason)
    return f"{event.provider} makes the next call: {why}."


def _describe_repairs(event: RepairStats) -> str:
    """The kinds of repairs by their names, the most frequent first."""
    ordered = sorted(event.counts.items(), key=lambda item: (-item[1], item[0]))
    counts = ", ".join(f"{kind} {count}×" for kind, count in ordered)
    return f"Arguments of tool calls in this run: {counts}."


def _describe_phase(event: PlanPhase) -> str:
    """As `Plan, step 2: review ended. Two cases are missing.`"""
    where = f" ({event.shut_in})" if event.shut_in and event.state == "started" else ""
    return f"Plan, step {event.step}: {event.phase} {event.state}{where}. {event.summary}".strip()
