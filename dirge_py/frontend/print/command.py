"""A slash command as the prompt of `dirge -p`."""

from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.history import open_calls
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.front import PrintFront
from dirge_py.frontend.print.json_lines import one_line
from dirge_py.frontend.print.printer import Printer, complain
from dirge_py.frontend.print.result import (
    Ending,
    ending_of,
    nothing_ran,
    pending_calls,
    result_object,
    usage_object,
)
from dirge_py.frontend.print.stopping import stoppable
from dirge_py.frontend.print.work import Work
from dirge_py.lib.text import clean
from dirge_py.plan.state import NAME, load_state
from dirge_py.slash.registry import Typed
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    LimitExceeded,
    MaxTurns,
    NotVerified,
    Outcome,
)

_RESUME = "`dirge -c -p '/plan resume'`"


async def print_command(printer: Printer, typed: Typed) -> int:
    """Run a command and print what it shows, or the run that it started, or what it came to."""
    return await stoppable(printer, _print_command(printer, typed))


async def _print_command(printer: Printer, typed: Typed) -> int:
    conversation = printer.conversation
    front = PrintFront(printer.commands)
    work = Work(conversation)
    forget = conversation.subscribe(work.hear)
    try:
        await printer.commands.run(typed, conversation, front)
    finally:
        forget()
    shown = "\n".join(front.shown)
    if shown and (front.outcome is not None or conversation.run is not None):
        complain(shown)
    if front.outcome is not None:
        return _print_outcome(printer, front.outcome, front.result_text, work)
    if conversation.run is not None:
        return await printer.follow(conversation.run)
    if printer.options.output == "text":
        printer.stdout.write(clean(shown) + "\n" if shown else "")
    else:
        result = _command_result(conversation, shown, front.failed, work)
        printer.stdout.write(one_line(result))
    return 1 if front.failed else 0


def _command_result(
    conversation: Conversation, shown: str, failed: bool, work: Work
) -> dict[str, Any]:
    provider, _, model = conversation.settings.model.partition("/")
    result: dict[str, Any] = {
        **nothing_ran(),
        "subtype": "error_during_execution" if failed else "success",
        "is_error": failed,
        "exit_code": 1 if failed else 0,
        "result": shown,
        # Nothing was said, so nothing is stored: unless the session was there before.
        "session_id": conversation.session_id if conversation.messages else None,
        "model": model,
        "provider": provider,
        # A command may ask a model, too: for a summary.
        "usage": usage_object(work.usage),
        "total_cost_usd": None if work.cost_usd is None else round(work.cost_usd, 6),
    }
    if failed:
        result["error"] = {"kind": "command", "message": shown, "hint": ""}
    return result


def _print_outcome(printer: Printer, outcome: Outcome, text: str, work: Work) -> int:
    """Print what all of it came to, as one result; returns the exit code."""
    conversation = printer.conversation
    ending = _ending(outcome, conversation)
    more: dict[str, Any] = {}
    # A call of a fork cannot wait: nothing of the fork is left.
    history = conversation.messages if open_calls(conversation.messages) else ()
    if isinstance(outcome, AwaitingConfirmation):
        is_open = bool(pending_calls(history, outcome))
        more["continuation"] = _continuation(printer, outcome, is_open=is_open)
    for left in conversation.take_back():
        complain(f"not delivered: {left.message.text}")
    result = result_object(
        work,
        outcome,
        ending=ending,
        response=text,
        session_id=conversation.session_id,
        model=conversation.settings.model,
        denials=printer.denials,
        history=history,
        more=more,
    )
    return printer.answer(ending, text, result)


def _ending(outcome: Outcome, conversation: Conversation) -> Ending:
    """The ending, with a hint about how the plan goes on, if it can."""
    ending = ending_of(outcome)
    if not _can_resume(conversation):
        return replace(ending, hint="") if isinstance(outcome, NotVerified) else ending
    if isinstance(outcome, MaxTurns | LimitExceeded):
        return replace(ending, hint=f"Raise the limit, and go on with {_RESUME}.")
    return replace(ending, hint=ending.hint or f"{_RESUME} goes on with it.")


def _can_resume(conversation: Conversation) -> bool:
    state = load_state(conversation.session.metadata.get(NAME))
    return conversation.session_id is not None and state is not None and state.is_resumable


def _continuation(printer: Printer, outcome: AwaitingConfirmation, *, is_open: bool) -> str | None:
    """The file of a call that waits for a decision, None where none does; the person is told."""
    conversation = printer.conversation
    if is_open:
        return printer.keep_continuation()
    description = outcome.description or "a decision is waited for."
    if outcome.call_ids:
        complain(description, f"Add --allow with a rule for it, and go on with {_RESUME}.")
    elif _can_resume(conversation):
        complain(description, "`dirge -c -p '/plan accept'` carries it out.")
    else:
        complain(description, "No session is kept, so nothing will come of it.")
    return None
