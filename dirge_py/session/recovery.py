"""Carrying on a run that was killed: what a person is asked, and what becomes of its calls."""

from collections.abc import Iterator, Mapping, Sequence

from dirge_py.processes.leftovers import end, leftovers_of
from dirge_py.session.continuation import title_of_call
from dirge_py.session.interruption import (
    Choice,
    InterruptedCall,
    Interruption,
    left_open,
    said_done,
)
from dirge_py.session.transcript import undecided
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import ToolCallBlock, ToolResultMessage
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption
from dirge_py.types.tools import LoopToolResult

_CHOICES: Mapping[str, Choice] = {
    "carry on and look first": "inspect",
    "carry on, it is done": "done",
    "carry on, run it again": "again",
}
_CARRY_ON = "carry on"
_NOT_NOW = "not now"
_DETAILS: Mapping[str, str] = {
    "inspect": "the model is told that the outcome is unknown, and looks",
    "done": "the model is told that you saw it done; its output is lost",
    "again": "exactly once more; a rule that denies it still wins",
}


def decisions_for(
    interruption: Interruption, choices: Mapping[str, Choice] | None = None
) -> Sequence[CallDecision]:
    """What is decided about the calls of unknown outcome, by call id; the others just run.

    What nobody chose, now or earlier, is to be inspected: it never runs again by itself. A call
    whose arguments held a secret never does: they were not kept.
    """
    chosen = choices or {}
    return [
        _decision(one, chosen.get(one.call.id) or one.chosen or "inspect")
        for one in interruption.calls
        if one.state == "unknown" or not one.may_run
    ]


def completed(
    decisions: Sequence[CallDecision], interruption: Interruption
) -> Sequence[CallDecision]:
    """`decisions`, and those of `decisions_for` about the calls they leave out."""
    cannot_run = {one.call.id for one in interruption.calls if not one.may_run}
    kept = [one for one in decisions if not (one.allow and one.tool_call_id in cannot_run)]
    decided = {decision.tool_call_id for decision in kept}
    further = decisions_for(interruption)
    return [*kept, *(one for one in further if one.tool_call_id not in decided)]


def end_leftovers(decisions: Sequence[CallDecision], interruption: Interruption) -> None:
    """End what still runs of the killed program's commands before one of them is run again."""
    again = {one.tool_call_id for one in decisions if one.allow}
    if any(one.call.id in again for one in interruption.unknown):
        end(leftovers_of(interruption.pid))


def choices_in(
    decisions: Sequence[CallDecision], interruption: Interruption
) -> Mapping[str, Choice]:
    """What the decisions say about each call of unknown outcome, as it is recorded."""
    by_id = {decision.tool_call_id: decision for decision in decisions}
    return {one.call.id: _choice_in(by_id[one.call.id]) for one in interruption.unknown}


def passed_over(call: ToolCallBlock, interruption: Interruption | None) -> ToolResultMessage:
    """The answer to an open call when a new prompt goes on without it."""
    for one in interruption.calls if interruption is not None else ():
        if one.call.id == call.id:
            return said_done(call) if one.chosen == "done" else left_open(call, one.state)
    return undecided(call)


def closed_words(names: Sequence[str]) -> str:
    """What a person is told of interrupted calls of these tools that a prompt went past."""
    return (
        f"{len(names)} interrupted tool call(s) ({', '.join(sorted(set(names)))}) were closed as "
        "not finished; nothing is run again."
    )


def questions_about(interruption: Interruption) -> Sequence[Question]:
    """What to ask before carrying on: each call of unknown outcome, or whether to at all."""
    asked = interruption.undecided
    if not asked:
        options = (QuestionOption(label=_CARRY_ON), QuestionOption(label=_NOT_NOW))
        return [Question(question=_told(interruption), options=options, is_open=False)]
    still = _still_running(interruption)
    return [
        Question(question=_cut(one) + still, options=tuple(_options(one)), is_open=False)
        for one in asked
    ]


def choices_from(
    interruption: Interruption, answers: Sequence[QuestionAnswer] | None
) -> Mapping[str, Choice] | None:
    """What the answers to `questions_about` choose, by call id; None: not now."""
    labels = [label for answer in answers or () for label in answer.chosen[:1]]
    if answers is None or len(labels) < len(answers) or _NOT_NOW in labels:
        return None
    asked = interruption.undecided
    return {
        one.call.id: _CHOICES[label] for one, label in zip(asked, labels, strict=False) if asked
    }


def _told(interruption: Interruption) -> str:
    running = [one for one in interruption.calls if one.state != "not_started"]
    if running:
        return _cut(running[0])
    if interruption.calls:
        return f"The last run was cut off before `{title_of_call(interruption.calls[0].call)}` ran."
    return "The last run was cut off while the model was answering."


def _cut(one: InterruptedCall) -> str:
    return f"The last run was cut off while `{title_of_call(one.call)}` ran."


def _still_running(interruption: Interruption) -> str:
    pids = [str(one.pid) for one in leftovers_of(interruption.pid)]
    if not pids:
        return ""
    name = "process" if len(pids) == 1 else "processes"
    return f" It still runs, as {name} {', '.join(pids)}; running it again ends that first."


def _options(one: InterruptedCall) -> Iterator[QuestionOption]:
    for label, choice in _CHOICES.items():
        if choice == "again" and not one.may_run:
            continue
        yield QuestionOption(label=label, description=_DETAILS[choice])
    yield QuestionOption(label=_NOT_NOW, description="/continue asks again; a prompt goes past it")


def _decision(one: InterruptedCall, choice: Choice) -> CallDecision:
    answer = said_done(one.call) if choice == "done" else left_open(one.call, one.state)
    result = LoopToolResult(
        content=answer.content, details=answer.details, is_error=answer.is_error
    )
    return CallDecision(
        tool_call_id=one.call.id, allow=choice == "again" and one.may_run, answer=result
    )


def _choice_in(decision: CallDecision) -> Choice:
    if decision.allow:
        return "again"
    return "inspect" if decision.answer is None or decision.answer.is_error else "done"
