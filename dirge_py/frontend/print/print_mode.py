"""`dirge -p`, `dirge turn`, `dirge resume`: run a prompt, print its result, exit with its code."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dirge_py.agent_loop.history import open_calls
from dirge_py.context.attachments import without_mentions
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.command import print_command
from dirge_py.frontend.print.printer import Printer, PrintOptions, abort_on_signals, complain
from dirge_py.frontend.print.stdin import InvalidLine, user_lines
from dirge_py.frontend.print.stdout import Stdout
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.recovery import decide_calls, title_of_call
from dirge_py.session.transcript import CallChoice
from dirge_py.slash.registry import Registry, TypedCommand
from dirge_py.types.errors import FileError, SessionError, UsageError
from dirge_py.types.hooks import CallDecision
from dirge_py.types.messages import TextBlock, UserMessage, user_text
from dirge_py.types.questions import PermissionAnswer, PermissionRequest

_PLAN = "plan"
InputLine: TypeAlias = UserMessage | InvalidLine
OnAsk = Literal["deny", "defer", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What was asked. Only the words name commands and attachments."""

    words: str = ""
    """What was typed on the command line."""
    piped: str = ""
    """What came on stdin: material, also where it is all there is (an issue, a diff, a text of
    somebody else). Nothing in it is a command or the name of a file to read.
    """

    @property
    def is_typed(self) -> bool:
        """Whether a person wrote some of it."""
        return bool(self.words.strip())

    @property
    def text(self) -> str:
        """What is sent first: the words, or what was piped in without any."""
        return self.words if self.is_typed else self.piped

    @property
    def has_both(self) -> bool:
        return bool(self.is_typed and self.piped.strip())

    def as_plan(self) -> "Prompt":
        """The same as a request for `/plan`; unchanged where it is one."""
        is_one = self.words.split(None, 1)[:1] == [f"/{_PLAN}"]
        return self if is_one else replace(self, words=f"/{_PLAN} {self.words}".rstrip())

    def arguments(self, typed: TypedCommand) -> str:
        """What the command gets that was typed: a plan gets the material with its request."""
        if typed.name != _PLAN or not self.has_both or len(typed.args.split()) == 1:
            return typed.args  # `/plan resume` is no request.
        # The command takes one text, in which names of files are looked for.
        request = f"{typed.args}\n\n{without_mentions(self.piped)}".strip()
        # A lone word would be taken for one of the command's own, and nobody typed it.
        return request if len(request.split()) > 1 else f'"{request}"'


async def prompt_message(conversation: Conversation, text: str, prompt: Prompt) -> UserMessage:
    """`text` with its attachments, and what was piped in behind it. Raises UsageError."""
    if not prompt.is_typed:
        return user_text(text)
    try:
        message = await conversation.attach(text)
    except FileError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if prompt.has_both:
        message = with_piped(message, prompt.piped)
    if message.attached:
        complain(f"attached {', '.join(message.attached)}.")
    return message


def with_piped(message: UserMessage, piped: str) -> UserMessage:
    """The message with what was piped behind its words, after a blank line."""
    first, *rest = message.content
    words = first.text if isinstance(first, TextBlock) else ""
    return replace(message, content=(TextBlock(f"{words}\n\n{piped}"), *rest))


async def print_prompt(printer: Printer, prompt: Prompt) -> int:
    """Run a prompt: a command, or a message with its attachments."""
    text = prompt.text
    typed = printer.commands.read(text) if prompt.is_typed else None
    if typed is not None and typed.command is not None:
        if printer.options.answer is not None and typed.command.name != "continue":
            raise UsageError(
                f"--json-schema goes with a prompt, not with the command /{typed.name}.",
                hint="`//` begins a prompt with a slash.",
            )
        if not typed.command.headless:
            raise UsageError(
                f"/{typed.name} needs the terminal UI.", hint="`//` begins a prompt with a slash."
            )
        return await print_command(printer, replace(typed, args=prompt.arguments(typed)))
    if prompt.is_typed and text.startswith("//"):
        text = text[1:]
    message = await prompt_message(printer.conversation, text, prompt)
    return await abort_on_signals(printer, printer.run(message))


async def print_stream(printer: Printer) -> int:
    """Run the messages that come as JSON lines; one that comes during a run steers it."""
    return await abort_on_signals(printer, _stream(printer))


async def _stream(printer: Printer) -> int:
    conversation = printer.conversation
    exit_code, had_bad_line = 0, False
    task: asyncio.Task[int] | None = None
    async for line in _until(printer.stopped, user_lines()):
        if isinstance(line, InvalidLine):
            complain(f"a line of stdin was skipped: {line}.")
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
        complain(f"not delivered: {left.message.text}")
    return exit_code or (1 if had_bad_line else 0)


async def _until(
    stopped: asyncio.Event, lines: AsyncGenerator[InputLine, None]
) -> AsyncIterator[InputLine]:
    """`lines`, until they or everything ends."""
    stop = asyncio.ensure_future(stopped.wait())
    following: asyncio.Future[InputLine | None] | None = None
    try:
        while not stop.done():
            following = asyncio.ensure_future(anext(lines, None))
            await asyncio.wait({following, stop}, return_when=asyncio.FIRST_COMPLETED)
            line = following.result() if following.done() else None
            if line is None:
                return
            yield line
    finally:
        stop.cancel()
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        await lines.aclose()


def _complete(exit_code: int, stdout: Stdout) -> int:
    """The exit code, never 0 when the answer did not get out."""
    if stdout.failure:
        complain(f"the output could not be written: {stdout.failure}.")
        return exit_code or 1
    return exit_code


def print_all(
    open_conversation: Callable[[], Conversation],
    work: Callable[[Printer], Coroutine[Any, Any, int]],
    *,
    options: PrintOptions,
    commands: Registry,
) -> int:
    """Do the work with a conversation and a printer of its own; returns the exit code."""

    async def main() -> int:
        conversation = open_conversation()
        try:
            for notice in conversation.notices:
                complain(notice)
            printer = Printer(conversation, options, commands)
            exit_code = await work(printer)
            printer.end_lines()
            return _complete(exit_code, printer.stdout)
        finally:
            await conversation.close()

    return asyncio.run(main())


async def print_turn(printer: Printer, prompt: Prompt | None) -> int:
    """Take one turn and print it; without a prompt it goes on from where the session stands.

    The prompt is a message whatever it begins with: what comes out of a queue runs no command.

    Raises:
        DirgeError: there is nothing to go on from, or a call waits for a decision.
    """
    conversation = printer.conversation
    printer.tells_turns = True
    if prompt is None:
        _check_can_go_on(conversation)
        run = conversation.continue_run(single_turn=True)
    else:
        message = await prompt_message(conversation, prompt.text, prompt)
        run = conversation.send(message, single_turn=True)
    return await abort_on_signals(printer, printer.follow(run))


async def print_decision(printer: Printer, decision: CallDecision) -> int:
    """Carry on a run that waits, with what was decided, and print the rest of it."""
    return await abort_on_signals(
        printer, printer.follow(printer.conversation.continue_run([decision]))
    )


async def print_interrupted(printer: Printer, choice: CallChoice | None) -> int:
    """Carry on the run that was cut off when dirge was killed, and print the rest of it.

    `choice` is made of every call whose outcome is unknown; None: what was chosen before, else to
    look first.

    Raises:
        SessionError: the last run of the session came to its end.
    """
    conversation = printer.conversation
    interruption = conversation.interruption
    if interruption is None:
        name = conversation.session_id
        raise SessionError(
            f"Session {name} has nothing to carry on: its last run was not cut off.",
            hint=f"`dirge --session {name}` goes on in it with a prompt.",
        )
    choices = {one.call.id: choice for one in interruption.unknown} if choice else {}
    run = conversation.continue_run(decide_calls(interruption, choices))
    return await abort_on_signals(printer, printer.follow(run))


def _check_can_go_on(conversation: Conversation) -> None:
    name = conversation.session_id
    if not conversation.messages:
        raise SessionError(
            f"Session {name} has nothing to go on from: nothing was said in it yet.",
            hint=f"Begin with `dirge turn --session {name} --input TEXT`.",
        )
    waiting = open_calls(conversation.messages)
    if waiting is not None and conversation.interruption is None:
        title = title_of_call(waiting.calls[0])
        raise SessionError(
            f"Session {name} waits for a decision about {title!r}.",
            hint="Decide it with `dirge resume`, or give a prompt to go on without it.",
        )


class PolicyAsker:
    """Gives every question the same answer."""

    def __init__(self, on_ask: OnAsk = "deny") -> None:
        self._effect: OnAsk = on_ask

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [PermissionAnswer(effect=self._effect) for _ in requests]
