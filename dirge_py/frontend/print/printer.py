"""Prints the runs of `dirge -p`: text, one object or JSON lines; signals abort them."""

import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dirge_py.agent_loop.history import final_text
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.frontend.event_text import describe_event
from dirge_py.frontend.print.json_lines import ClaudeLines, EventFormat, NativeLines, one_line
from dirge_py.frontend.print.result import (
    Ending,
    ending_of,
    exit_code_of,
    keep_continuation,
    result_object,
    silent_answer_text,
    turn_fields,
)
from dirge_py.frontend.print.stdout import Stdout, on_signals
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, clean_json
from dirge_py.session.store import Store
from dirge_py.slash.registry import Registry
from dirge_py.types.events import (
    ContextCompacted,
    EscalationActivated,
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PermissionAnswered,
    PlanPhase,
    RetryNotice,
    SystemNotice,
)
from dirge_py.types.messages import AssistantMessage, Message, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done, HookTerminated, Outcome

if TYPE_CHECKING:
    from dirge_py.agent_loop.answer_schema import AnswerSchema


OutputFormat = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """How to print."""

    output: OutputFormat = "text"
    """What is written to stdout."""
    events: EventFormat = "claude"
    """The shape of the lines of `stream-json`."""
    partial: bool = False
    """Whether pieces of messages are printed as they come."""
    output_file: Path | None = None
    """The file that gets the final text as it is."""
    store: Store | None = None
    """Where it is kept what a run waits for; None: no session is kept."""
    answer: "AnswerSchema | None" = None
    """The schema of a run's answer, which is then JSON; nothing else is printed as text."""


class Printer:
    """Prints the runs of one conversation, one after the other."""

    def __init__(
        self, conversation: Conversation, options: PrintOptions, commands: Registry
    ) -> None:
        self.conversation = conversation
        self.options = options
        self.commands = commands
        conversation.settings.answer_schema = options.answer
        self.stdout = Stdout()
        self._denials: list[PermissionAnswered] = []
        self._said: list[Message] = []
        self.stopped = asyncio.Event()
        """Set by a signal: the run that goes on is the last."""
        self.tells_turns = False
        """Whether results say which turn it was, for whoever asks for one at a time."""
        for warning in commands.use_extensions(conversation.extensions.commands()):
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
        text, silence = final_text(self._said), silent_answer_text(self._said)
        if self.options.answer is not None:
            text, silence = self._json_of(outcome, text), ""
        result = result_object(
            run,
            outcome,
            ending=ending,
            response=text,
            session_id=self.conversation.session_id,
            model=_answering(self._said) or self.conversation.settings.model,
            denials=self._denials,
            history=self.conversation.messages,
            more=more,
        )
        return self.answer(ending, text, result, silence=silence)

    def answer(
        self, ending: Ending, text: str, result: Mapping[str, Any], *, silence: str = ""
    ) -> int:
        """Print the text, or the object, and tell how it ended; returns the exit code."""
        if self.options.output == "text":
            self._print_text(text)
        elif self._lines is not None:
            self._lines.end(result)
        else:
            self.stdout.write(one_line(result))
        if silence:
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
            more = turn_fields(self.conversation, run, outcome)
        if isinstance(outcome, AwaitingConfirmation):
            more["continuation"] = self.keep_continuation()
        if self.options.answer is not None and isinstance(outcome, Done) and outcome.result:
            more["structured_output"] = outcome.result.structured
        return more

    def _json_of(self, outcome: Outcome, text: str) -> str:
        """The answer as JSON. Who asked for it as text gets that or nothing."""
        if isinstance(outcome, Done) and outcome.result is not None:
            return outcome.result.response
        return "" if self.options.output == "text" else text

    def keep_continuation(self) -> str | None:
        """Write down what the conversation waits for, and say so; the file, if there is one."""
        path, message, hint = keep_continuation(self.conversation, self.options.store)
        complain(message, hint)
        return str(path) if path else None

    @property
    def denials(self) -> Sequence[PermissionAnswered]:
        return tuple(self._denials)

    def _hear(self, event: LoopEvent) -> None:
        if isinstance(event, MessageEnd):
            self._said.append(event.message)
        else:
            self._tell(event)
        if self._lines is not None:
            self._lines.sink(event)

    def _tell(self, event: LoopEvent) -> None:
        """Say on stderr what a person should know of meanwhile."""
        if isinstance(event, PermissionAnswered) and event.effect == "deny":
            self._denials.append(event)
            hint = f"{event.suggestion} would have allowed it." if event.suggestion else ""
            complain(f"denied {event.tool_name}: {event.reason}", hint)
        elif isinstance(event, SystemNotice):
            complain(event.content)
        elif isinstance(event, RetryNotice):
            wait = f" in {event.delay_ms / 1000:.0f} s" if event.delay_ms else ""
            complain(f"retrying{wait} (attempt {event.attempt}): {event.error}")
        elif isinstance(event, EscalationActivated | PlanPhase):
            complain(describe_event(event))
        elif isinstance(event, EvidenceTaken):
            complain(f"{event.id}: {_first_line(event.command)}: {_evidence_text(event)}.")
        elif isinstance(event, ForkEvent):
            self._hear_fork(event.event)
        elif isinstance(event, ContextCompacted) and self.conversation.is_running:
            # Between runs it was asked for, and the answer tells.
            complain(describe_event(event))

    def _hear_fork(self, event: LoopEvent) -> None:
        """What a person should know of a fork as well; all else that it does is its own."""
        if isinstance(event, PermissionAnswered | RetryNotice | SystemNotice):
            self._tell(event)

    def end_lines(self) -> None:
        """A result was the last object; what closing tells goes to stderr alone."""
        self._lines = None

    def _print_text(self, text: str) -> None:
        if text:
            # Also where stdout is no terminal: `tee` and the logs of a CI pass it on to one.
            shown = clean(text) if self.options.answer is None else clean_json(text)
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


def _answering(said: Sequence[Message]) -> str:
    """The model that gave the last answer, which may be a stand-in; "" where there is none."""
    answers = (each for each in reversed(said) if isinstance(each, AssistantMessage))
    return next((each.model for each in answers if each.origin == "model" and each.content), "")


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


def _first_line(command: str) -> str:
    first, _, rest = command.strip().partition("\n")
    return f"{first[:100]} …" if rest or len(first) > 100 else first


def _evidence_text(taken: EvidenceTaken) -> str:
    return taken.outcome if taken.exit_code is None else f"{taken.outcome}, exit {taken.exit_code}"


def complain(message: str, hint: str = "") -> None:
    """One line, or two, for the person, on stderr."""
    lines = f"dirge: {message}\n" + (f"  {hint}\n" if hint else "")
    try:
        sys.stderr.write(clean(lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody reads stderr; what matters is on stdout.
        return


async def abort_on_signals(printer: Printer, work: Coroutine[Any, Any, int]) -> int:
    """Run `work`; SIGINT and SIGTERM abort the run, which then ends in good order."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[int] = asyncio.ensure_future(work)
    stopped: list[str] = []

    def stop(name: str) -> None:
        stopped.append(name)
        loop.call_soon_threadsafe(_abort, printer, name, task)

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


def _abort(printer: Printer, name: str, task: asyncio.Task[int]) -> None:
    conversation = printer.conversation
    if conversation.exclusive_owner is not None:
        printer.stopped.set()
        conversation.exclusive_owner.interrupt(name)
    elif conversation.is_running:
        printer.stopped.set()
        conversation.abort(name)
    else:
        task.cancel()
