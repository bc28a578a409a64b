"""`dirge --print`: run a prompt, print what came of it, and leave with its exit code."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dirge_py.agent_loop.turns import last_words
from dirge_py.conversation import Conversation
from dirge_py.errors import FileError, UsageError
from dirge_py.events import (
    ContextCompacted,
    EscalationActivated,
    LoopEvent,
    MessageEnd,
    PermissionAnswered,
    RetryNotice,
    SystemNotice,
)
from dirge_py.headless.front import PrintFront
from dirge_py.headless.json_lines import ClaudeLines, EventFormat, NativeLines, one_line
from dirge_py.headless.prompt import Prompt, with_piped
from dirge_py.headless.result import (
    ending_of,
    exit_code_of,
    nothing_ran,
    result_object,
    usage_object,
    words_of_silence,
)
from dirge_py.headless.stdin import BadLine, user_lines
from dirge_py.headless.waiting import keep_continuation, turn_members
from dirge_py.headless.writer import Stdout, on_signals
from dirge_py.ledger import Ledger
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import Message, Usage, UserMessage
from dirge_py.outcomes import AwaitingConfirmation, HookTerminated, Outcome
from dirge_py.plan_events import PlanPhase
from dirge_py.runs import Run
from dirge_py.session.store import Store
from dirge_py.slash.registry import Registry

Line: TypeAlias = UserMessage | BadLine
OutputFormat = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """How to print. `output_file` gets the final text as well; `store` what a run waits for."""

    output: OutputFormat = "text"
    events: EventFormat = "claude"
    partial: bool = False
    output_file: Path | None = None
    store: Store | None = None


class Printer:
    """Prints the runs of one conversation, one after the other."""

    def __init__(
        self, conversation: Conversation, options: PrintOptions, commands: Registry
    ) -> None:
        self.conversation = conversation
        self.options = options
        self.commands = commands
        self.stdout = Stdout()
        self._denials: list[PermissionAnswered] = []
        self._said: list[Message] = []
        self.stopped = asyncio.Event()
        """Set by a signal: the run that goes on is the last."""
        self.tells_turns = False
        """Whether results say which turn it was, for whoever asks for one at a time."""
        for warning in commands.use_plugins(conversation.plugins):
            complain(warning)
        self._lines = _lines_for(conversation, options, self.stdout, commands)
        conversation.subscribe(self._hear)

    async def run(self, prompt: UserMessage) -> int:
        """Run one prompt and whatever was queued meanwhile; returns the exit code."""
        return await self.follow(self.conversation.send(prompt))

    async def follow(self, begun: Run) -> int:
        """The same for a run that has just begun."""
        run: Run | None = self._begin(begun)
        exit_code = 0
        while run is not None:
            exit_code = await self._end(run)
            run = self.conversation.resume_queued() if exit_code == 0 else None
            if run is not None:
                self._begin(run)
        return exit_code

    def _begin(self, run: Run) -> Run:
        self._denials.clear()
        self._said.clear()
        if self._lines is not None:
            self._lines.start()
        return run

    async def _end(self, run: Run) -> int:
        outcome = await run
        for message in () if _is_held_back(outcome) else run.unsent:
            complain(f"not delivered: {message.text}")
        ending = ending_of(outcome)
        more = self._more(run, outcome)
        text = last_words(self._said)
        if self.options.output == "text":
            self._print_text(text)
        else:
            result = result_object(
                run,
                outcome,
                response=text,
                session_id=self.conversation.session_id,
                model=self.conversation.model,
                denials=self._denials,
                history=self.conversation.messages,
                more=more,
            )
            if self._lines is not None:
                self._lines.end(result)
            else:
                self.stdout.write(one_line(result))
        if silence := words_of_silence(self._said):
            complain(silence)
        if ending.is_told:
            complain(ending.hint)
        elif ending.message:
            complain(ending.message, ending.hint)
        is_saved = self._save_text(text)
        return ending.exit_code or (0 if is_saved else 1)

    def _more(self, run: Run, outcome: Outcome) -> dict[str, Any]:
        """What the result says besides; a run that waits is written down for it."""
        more: dict[str, Any] = {}
        if self.tells_turns:
            more = turn_members(self.conversation, run, outcome)
        if isinstance(outcome, AwaitingConfirmation):
            path, message, hint = keep_continuation(self.conversation, self.options.store)
            complain(message, hint)
            more["continuation"] = str(path) if path else None
        return more

    def _hear(self, event: LoopEvent) -> None:
        if isinstance(event, MessageEnd):
            self._said.append(event.message)
        elif isinstance(event, PermissionAnswered) and event.effect == "deny":
            self._denials.append(event)
            hint = f"{event.suggestion} would have allowed it." if event.suggestion else ""
            complain(f"denied {event.tool_name}: {event.reason}", hint)
        elif isinstance(event, SystemNotice):
            complain(event.content)
        elif isinstance(event, RetryNotice):
            wait = f" in {event.delay_ms / 1000:g} s" if event.delay_ms else ""
            complain(f"retrying{wait} (attempt {event.attempt}): {event.error}")
        elif isinstance(event, EscalationActivated | PlanPhase):
            complain(event.message)
        elif isinstance(event, ContextCompacted) and self.conversation.is_running:
            # Between runs it was asked for, and the answer tells.
            complain(event.message)
        if self._lines is not None:
            self._lines.sink(event)

    def end_lines(self) -> None:
        """A result was the last object; what closing tells goes to stderr alone."""
        self._lines = None

    def _print_text(self, text: str) -> None:
        if text:
            shown = clean(text) if sys.stdout.isatty() else text
            self.stdout.write(shown if shown.endswith("\n") else shown + "\n")

    def _save_text(self, text: str) -> bool:
        path = self.options.output_file
        if path is None:
            return True
        try:
            path.write_text(text + "\n", encoding="utf-8", errors="replace")
        except OSError as error:
            complain(f"{path} was not written: {error.strerror}.")
            return False
        return True


def _is_held_back(outcome: Outcome) -> bool:
    """Whether a check stopped the prompt. It is not repeated then: this may be a log, it a key."""
    return isinstance(outcome, HookTerminated) and outcome.point == "before_prompt"


def _lines_for(
    conversation: Conversation, options: PrintOptions, stdout: Stdout, commands: Registry
) -> ClaudeLines | NativeLines | None:
    if options.output != "stream-json":
        return None
    if options.events == "native":
        return NativeLines(conversation, stdout.write, partial=options.partial)
    names = [command.name for command in commands if command.headless]
    return ClaudeLines(conversation, stdout.write, partial=options.partial, commands=names)


async def print_prompt(printer: Printer, prompt: Prompt) -> int:
    """Run a prompt: a command, or a message with its attachments."""
    text = prompt.typed
    typed = printer.commands.read(text)
    if typed is not None and typed.command is not None:
        if not typed.command.headless:
            raise UsageError(
                f"/{typed.name} needs the terminal UI.", hint="`//` begins a prompt with a slash."
            )
        return await _print_command(printer, text)
    if text.startswith("//"):
        text = text[1:]
    message = await message_of(printer.conversation, text, prompt)
    return await stoppable(printer, printer.run(message))


async def message_of(conversation: Conversation, text: str, prompt: Prompt) -> UserMessage:
    """`text` with its attachments, and what was piped in behind it. Raises UsageError."""
    try:
        message = await conversation.attach(text)
    except FileError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if prompt.words.strip() and prompt.piped.strip():
        message = with_piped(message, prompt.piped)
    if message.attached:
        complain(f"attached {', '.join(message.attached)}.")
    return message


async def print_stream(printer: Printer) -> int:
    """Run the messages that come as JSON lines; one that comes during a run steers it."""
    return await stoppable(printer, _stream(printer))


async def _stream(printer: Printer) -> int:
    conversation = printer.conversation
    exit_code, had_bad_line = 0, False
    task: asyncio.Task[int] | None = None
    async for line in _until(printer.stopped, user_lines()):
        if isinstance(line, BadLine):
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


async def _until(stopped: asyncio.Event, lines: AsyncGenerator[Line, None]) -> AsyncIterator[Line]:
    """`lines`, until they or everything ends."""
    stop = asyncio.ensure_future(stopped.wait())
    following: asyncio.Future[Line | None] | None = None
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


async def _print_command(printer: Printer, text: str) -> int:
    front = PrintFront(printer.commands)
    typed = printer.commands.read(text)
    assert typed is not None
    spent = Ledger((), Usage(), 0.0)
    forget = printer.conversation.subscribe(lambda event: spent.take_in(event, None))
    await printer.commands.run(typed, printer.conversation, front)
    forget()
    shown = "\n".join(front.shown)
    if printer.conversation.run is not None:
        if shown:
            complain(shown)
        return await stoppable(printer, printer.follow(printer.conversation.run))
    if printer.options.output == "text":
        printer.stdout.write(shown + "\n" if shown else "")
    else:
        result = _command_result(printer.conversation, shown, front.failed, spent)
        printer.stdout.write(one_line(result))
    return 1 if front.failed else 0


def _command_result(
    conversation: Conversation, shown: str, failed: bool, spent: Ledger
) -> dict[str, Any]:
    provider, _, model = conversation.model.partition("/")
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
        "usage": usage_object(spent.usage),
        "total_cost_usd": None if spent.cost_usd is None else round(spent.cost_usd, 6),
    }
    if failed:
        result["error"] = {"kind": "command", "message": shown, "hint": ""}
    return result


async def stoppable(printer: Printer, work: Coroutine[Any, Any, int]) -> int:
    """Run `work`; SIGINT and SIGTERM abort the run, which then ends in good order."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[int] = asyncio.ensure_future(work)
    stopped: list[str] = []

    def stop(name: str) -> None:
        stopped.append(name)
        loop.call_soon_threadsafe(_stop, printer, name, task)

    undo = on_signals(printer.stdout, stop)
    try:
        exit_code = await task
    except asyncio.CancelledError:
        if not stopped:
            raise
        exit_code = 0
    finally:
        undo()
    # A signal can also come when the run is over and its answer is being written.
    return exit_code or (exit_code_of(stopped[0]) if stopped else 0)


def _stop(printer: Printer, name: str, task: asyncio.Task[int]) -> None:
    if printer.conversation.is_running:
        printer.stopped.set()
        printer.conversation.abort(name)
    else:
        task.cancel()


def _complete(exit_code: int, stdout: Stdout) -> int:
    """The exit code, never 0 when the answer did not get out."""
    if stdout.failure:
        complain(f"the output could not be written: {stdout.failure}.")
        return exit_code or 1
    return exit_code


def complain(message: str, hint: str = "") -> None:
    """One line, or two, for the person, on stderr."""
    lines = f"dirge: {message}\n" + (f"  {hint}\n" if hint else "")
    try:
        sys.stderr.write(clean(lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody reads stderr; what matters is on stdout.
        return


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
