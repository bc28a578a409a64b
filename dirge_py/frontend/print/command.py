"""A slash command as the prompt of `dirge -p`: its front end, its usage, and its result."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.history import open_calls
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.run import Run
from dirge_py.frontend.print.json_lines import one_line
from dirge_py.frontend.print.printer import Printer, abort_on_signals, complain
from dirge_py.frontend.print.result import (
    Ending,
    ending_of,
    nothing_ran,
    pending_calls,
    result_object,
    usage_object,
)
from dirge_py.lib.text import clean
from dirge_py.plan.state import NAME, load_state
from dirge_py.slash.base import Choice, Tone, Unsupported
from dirge_py.slash.registry import Registry, TypedCommand
from dirge_py.types.events import AgentStart, ForkEvent, LoopEvent, MessageEnd, TurnStart
from dirge_py.types.messages import AssistantMessage, Usage
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    LimitExceeded,
    MaxTurns,
    NotVerified,
    Outcome,
)
from dirge_py.types.questions import Question, QuestionAnswer

_RESUME = "`dirge -c -p '/plan resume'`"


class CommandUsage:
    """Counts as a run does for itself: `turns` of the runs, all else of their forks, too."""

    def __init__(self, conversation: Conversation) -> None:
        self.started_at = time.monotonic()
        self._conversation = conversation
        self._runs: list[Run] = []
        self._spent = ConversationLog((), Usage(), 0.0)
        self._forks_api_s = 0.0
        self._asked_at = self.started_at

    @property
    def turns(self) -> int:
        return sum(run.turns for run in self._runs)

    @property
    def api_s(self) -> float:
        return self._forks_api_s + sum(run.api_s for run in self._runs)

    @property
    def usage(self) -> Usage:
        return self._spent.usage

    @property
    def cost_usd(self) -> float | None:
        return self._spent.cost_usd

    def hear(self, event: LoopEvent) -> None:
        if isinstance(event, ForkEvent):
            self._hear_fork(event.event)
            return
        if isinstance(event, AgentStart) and self._conversation.run is not None:
            self._runs.append(self._conversation.run)
        self._spent.record(event, None)

    def _hear_fork(self, event: LoopEvent) -> None:
        """Its tokens are told of as such; the time is that from a turn's begin to its answer."""
        if isinstance(event, TurnStart):
            self._asked_at = time.monotonic()
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._forks_api_s += time.monotonic() - self._asked_at
            self._spent.record(event, None)


async def print_command(printer: Printer, typed: TypedCommand) -> int:
    """Run a command and print what it shows, or the run that it started, or what it came to."""
    return await abort_on_signals(printer, _print_command(printer, typed))


async def _print_command(printer: Printer, typed: TypedCommand) -> int:
    conversation = printer.conversation
    front = PrintFront(printer.commands)
    work = CommandUsage(conversation)
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
    conversation: Conversation, shown: str, failed: bool, work: CommandUsage
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


def _print_outcome(printer: Printer, outcome: Outcome, text: str, work: CommandUsage) -> int:
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


class PrintFront:
    """Collects what commands show; what needs a screen raises `Unsupported`."""

    def __init__(self, commands: Registry) -> None:
        self._commands = commands
        self.shown: list[str] = []
        self.outcome: Outcome | None = None
        """What the command came to, where it says so; `result_text` is what to print then."""
        self.result_text = ""
        self.failed = False

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return ()

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self.shown.append(text)
        self.failed = self.failed or tone == "error"

    def take_outcome(self, outcome: Outcome, text: str) -> None:
        self.outcome, self.result_text = outcome, text

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        self.show("\n".join([title, *(_choice_line(choice, current) for choice in choices)]))
        return None

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        raise Unsupported("a question")

    async def edit_text(self, text: str) -> str | None:
        raise Unsupported("editing text")

    def set_input(self, text: str) -> None:
        raise Unsupported("a prompt to edit")

    async def open(self, session_id: str | None) -> Conversation:
        raise Unsupported("switching the session")

    def quit(self) -> None:
        """There is nothing to leave: the program ends after the command."""

    def theme(self, name: str) -> None:
        raise Unsupported("a theme")

    def copy(self, text: str) -> str:
        raise Unsupported("the clipboard")

    def show_diff(self, diff: str) -> None:
        self.show(diff)

    async def read_on(self, text: str) -> None:
        self.show(text)


def _choice_line(choice: Choice, current: str) -> str:
    mark = "*" if choice.id == current else " "
    return f"{mark} {choice.label}  {choice.detail}".rstrip()
