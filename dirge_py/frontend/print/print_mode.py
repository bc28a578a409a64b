"""Runs and prints the prompt or command of `dirge -p`, `dirge turn` and `dirge resume`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dirge_py.agent_loop.history import open_calls
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.printer import Printer, PrintOptions, abort_on_signals
from dirge_py.frontend.print.result import (
    CommandUsage,
    Ending,
    ending_of,
    pending_calls,
    result_object,
)
from dirge_py.frontend.print.streams import print_notice, user_lines
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.plan.state import NAME, load_state
from dirge_py.session.transcript import CallChoice
from dirge_py.slash.base import Choice, FrontEnd, Tone
from dirge_py.slash.registry import Registry, TypedCommand, as_prompt
from dirge_py.types.errors import FileError, SessionError, UsageError
from dirge_py.types.messages import TextBlock, UserMessage, user_text
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Done,
    LimitExceeded,
    MaxTurns,
    NotVerified,
    Outcome,
)
from dirge_py.types.questions import PermissionAnswer, PermissionRequest

_PLAN = "plan"
_RESUME = "`dirge -c -p '/plan resume'`"
InputLine: TypeAlias = UserMessage | str
OnAsk = Literal["deny", "defer", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt of a run. Only its words name commands and attachments."""

    words: str = ""
    """The words on the command line."""
    piped: str = ""
    """The text on stdin: material such as an issue or a diff. Commands and file names in it have no
    effect, even if it is the whole prompt.
    """

    @property
    def is_typed(self) -> bool:
        """Whether the user typed some of it."""
        return bool(self.words.strip())

    @property
    def has_both(self) -> bool:
        return self.is_typed and bool(self.piped.strip())

    def as_plan(self) -> "Prompt":
        """The prompt as a request for `/plan`; unchanged if it is one."""
        is_plan = self.words.split(None, 1)[:1] == [f"/{_PLAN}"]
        return self if is_plan else replace(self, words=f"/{_PLAN} {self.words}".rstrip())

    def arguments(self, typed: TypedCommand) -> str:
        """The arguments for the typed command: a plan gets the material with its request."""
        from dirge_py.context.attachments import without_mentions

        if typed.name != _PLAN or not self.has_both or len(typed.args.split()) == 1:
            return typed.args  # `/plan resume` isn't a request.
        # The command takes one text, and attaches the files it names.
        request = f"{typed.args}\n\n{without_mentions(self.piped)}".strip()
        # A lone word could be a subcommand, and the user typed none.
        return request if len(request.split()) > 1 else f'"{request}"'


async def prompt_message(
    conversation: Conversation, prompt: Prompt, *, may_escape: bool = False
) -> UserMessage:
    """The message of a prompt: words with attachments, then the piped text. Raises UsageError.

    With `may_escape`, `//` at its beginning becomes `/`.
    """
    if not prompt.is_typed:
        return user_text(prompt.piped)
    words = as_prompt(prompt.words) if may_escape else prompt.words
    try:
        message = await conversation.attach(words)
    except FileError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if prompt.has_both:
        first, *rest = message.content
        text = first.text if isinstance(first, TextBlock) else ""
        message = replace(message, content=(TextBlock(f"{text}\n\n{prompt.piped}"), *rest))
    if message.attached:
        print_notice(f"attached {', '.join(message.attached)}.")
    return message


async def print_prompt(printer: Printer, prompt: Prompt) -> int:
    """Run a prompt: a command, or a message with its attachments."""
    typed = printer.commands.read(prompt.words) if prompt.is_typed else None
    if typed is not None and typed.command is None:
        raise printer.commands.unknown_command(typed.name, where=" in `dirge -p`")
    if typed is None or typed.command is None:
        message = await prompt_message(printer.conversation, prompt, may_escape=True)
        return await printer.run(message)
    hint = "`//` begins a prompt with a slash."
    if printer.options.answer is not None and typed.command.name != "continue":
        text = f"--json-schema goes with a prompt, not with the command /{typed.name}."
        raise UsageError(text, hint=hint)
    if not typed.command.headless:
        text = f"/{typed.name} needs an interactive session: start dirge without -p."
        raise UsageError(text, hint=hint)
    return await _print_command(printer, replace(typed, args=prompt.arguments(typed)))


async def print_stream(printer: Printer) -> int:
    """Run the messages that come as JSON lines; one that comes during a run steers it."""
    conversation = printer.conversation
    exit_code, had_bad_line = 0, False
    task: asyncio.Task[int] | None = None
    async for line in _until(printer.stopped, user_lines()):
        if isinstance(line, str):
            print_notice(f"a line of stdin was skipped: {line}.")
            had_bad_line = True
        elif conversation.is_running:
            conversation.steer(line)
        else:
            if task is not None:
                exit_code = max(exit_code, await task)
            task = asyncio.ensure_future(printer.run(line))
            # Let the run begin, so that the next line steers it.
            await asyncio.sleep(0)
    if task is not None:
        exit_code = max(exit_code, await task)
    elif not had_bad_line:
        raise UsageError("no message came on stdin.", hint="See --input-format in `dirge --help`.")
    for left in conversation.take_back():
        print_notice(f"not delivered: {left.message.text}")
    return exit_code or int(had_bad_line)


async def _until(
    stopped: asyncio.Event, lines: AsyncGenerator[InputLine, None]
) -> AsyncIterator[InputLine]:
    """`lines`, until they end or `stopped` is set."""
    stop = asyncio.ensure_future(stopped.wait())
    following = asyncio.ensure_future(anext(lines, None))
    try:
        while not stop.done():
            await asyncio.wait({following, stop}, return_when=asyncio.FIRST_COMPLETED)
            line = following.result() if following.done() else None
            if line is None:
                return
            yield line
            following = asyncio.ensure_future(anext(lines, None))
    finally:
        stop.cancel()
        following.cancel()
        await asyncio.wait({following})
        await lines.aclose()


def print_all(
    open_conversation: Callable[[], Conversation],
    work: Callable[[Printer], Coroutine[Any, Any, int]],
    *,
    options: PrintOptions,
    commands: Registry,
) -> int:
    """Do the work with a conversation and a printer, until a signal; returns the exit code."""

    async def main() -> int:
        conversation = open_conversation()
        try:
            for notice in conversation.notices:
                print_notice(notice)
            printer = Printer(conversation, options, commands)
            exit_code = await abort_on_signals(printer, work(printer))
            printer.end_lines()
            if printer.stdout.failure:
                print_notice(f"cannot write the output: {printer.stdout.failure}.")
                return exit_code or 1
            return exit_code
        finally:
            await conversation.close()

    return asyncio.run(main())


async def print_turn(printer: Printer, prompt: Prompt | None) -> int:
    """Take one turn and print it; without a prompt, continue the session.

    The prompt is always a message: a prompt from a queue must not run a command. Raises DirgeError
    if there is nothing to continue, or a call waits for a decision.
    """
    from dirge_py.session.recovery import title_of_call

    conversation = printer.conversation
    printer.tells_turns = True
    if prompt is not None:
        message = await prompt_message(conversation, prompt)
        return await printer.follow(conversation.send(message, single_turn=True))
    name, waiting = conversation.session_id, open_calls(conversation.messages)
    if not conversation.messages:
        text = f"Session {name} has nothing to continue: it has no messages yet."
        raise SessionError(text, hint=f"Begin with `dirge turn --session {name} --input TEXT`.")
    if waiting is not None and conversation.interruption is None:
        title = title_of_call(waiting.calls[0])
        hint = "Decide it with `dirge resume`, or give a prompt to continue without it."
        raise SessionError(f"Session {name} waits for a decision about {title!r}.", hint=hint)
    return await printer.follow(conversation.continue_run(single_turn=True))


async def print_interrupted(printer: Printer, choice: CallChoice | None) -> int:
    """Continue the run that was cut off when dirge was killed, and print the rest of it.

    `choice` applies to every call of unknown outcome; None means the earlier choice, else
    `inspect`. Raises SessionError if the last run of the session finished.
    """
    from dirge_py.session.recovery import decide_calls

    conversation = printer.conversation
    interruption = conversation.interruption
    if interruption is None:
        name = conversation.session_id
        text = f"Session {name} has nothing to continue: its last run was not cut off."
        raise SessionError(text, hint=f"`dirge --session {name}` continues it with a prompt.")
    choices = {unknown.call.id: choice for unknown in interruption.unknown} if choice else {}
    return await printer.follow(conversation.continue_run(decide_calls(interruption, choices)))


async def _print_command(printer: Printer, typed: TypedCommand) -> int:
    """Run a command and print what it shows, or the run that it started, or its outcome."""
    from dirge_py.frontend.print.json_lines import one_line

    conversation = printer.conversation
    front = PrintFront(Registry(each for each in printer.commands if each.headless))
    work = CommandUsage(conversation)
    unsubscribe = conversation.subscribe(work.on_event)
    try:
        await printer.commands.run(typed, conversation, front)
    finally:
        unsubscribe()
    shown = "\n".join(front.shown)
    if shown and (front.outcome is not None or conversation.run is not None):
        print_notice(shown)
    if front.outcome is not None:
        return _print_outcome(printer, front.outcome, front.result_text, work)
    if conversation.run is not None:
        return await printer.follow(conversation.run)
    ending = ending_of(Done())
    if front.failed:
        subtype = "error_during_execution"
        ending = Ending(exit_code=1, subtype=subtype, kind="command", message=shown)
    if printer.options.output == "text":
        printer.stdout.write(clean(shown) + "\n" if shown else "")
    else:
        # A new session without messages isn't stored.
        more = {} if conversation.messages else {"session_id": None}
        result = result_object(work, Done(), conversation, ending=ending, response=shown, more=more)
        printer.stdout.write(one_line(result))
    return ending.exit_code


def _print_outcome(printer: Printer, outcome: Outcome, text: str, work: CommandUsage) -> int:
    """Print the outcome of the command as one result; returns the exit code."""
    conversation = printer.conversation
    ending = ending_of(outcome)
    if _can_resume(conversation):
        hint = ending.hint or f"{_RESUME} continues it."
        if isinstance(outcome, MaxTurns | LimitExceeded):
            hint = f"Raise the limit, and continue with {_RESUME}."
        ending = replace(ending, hint=hint)
    elif isinstance(outcome, NotVerified):
        ending = replace(ending, hint="")
    more: dict[str, Any] = {}
    if isinstance(outcome, AwaitingConfirmation):
        more["continuation"] = _continuation(printer, outcome)
    for left in conversation.take_back():
        print_notice(f"not delivered: {left.message.text}")
    return printer.answer(work, outcome, text, ending=ending, more=more)


def _can_resume(conversation: Conversation) -> bool:
    state = load_state(conversation.session.metadata.get(NAME))
    return conversation.session_id is not None and state is not None and state.is_resumable


def _continuation(printer: Printer, outcome: AwaitingConfirmation) -> str | None:
    """The file of a call that waits for a decision, or None; says on stderr how to continue."""
    conversation = printer.conversation
    if pending_calls(conversation.messages, outcome):
        return printer.keep_continuation()
    hint = "This session isn't stored, so it cannot be continued."
    if outcome.call_ids:
        hint = f"Add --allow with a rule for it, and continue with {_RESUME}."
    elif _can_resume(conversation):
        hint = "`dirge -c -p '/plan accept'` runs it."
    print_notice(outcome.description or "waiting for a decision.", hint)
    return None


class PrintFront(FrontEnd):
    """Collects the output of commands; raises `Unsupported` where they need a screen."""

    def __init__(self, commands: Registry) -> None:
        self._commands = commands
        self.shown: list[str] = []
        self.outcome: Outcome | None = None
        """The outcome of the command, if it has one; `result_text` is then its text."""
        self.result_text = ""
        self.failed = False

    @property
    def commands(self) -> Registry:
        return self._commands

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self.shown.append(text)
        self.failed = self.failed or tone == "error"

    def set_outcome(self, outcome: Outcome, text: str) -> None:
        self.outcome, self.result_text = outcome, text

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        lines = [f"{'*' if c.id == current else ' '} {c.label}  {c.detail}" for c in choices]
        self.show("\n".join([title, *map(str.rstrip, lines)]))
        return None

    def quit(self) -> None:
        """Does nothing: the program ends after the command."""


class PolicyAsker:
    """Gives every question the same answer."""

    def __init__(self, on_ask: OnAsk = "deny") -> None:
        self._effect: OnAsk = on_ask

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [PermissionAnswer(effect=self._effect) for _ in requests]
