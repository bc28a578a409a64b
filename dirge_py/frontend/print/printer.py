"""Prints the runs of `dirge -p`: text, one object or JSON lines; signals abort them."""

import asyncio
import shlex
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dirge_py.agent_loop.history import final_text
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.frontend.event_text import describe_event, describe_silent_answer
from dirge_py.frontend.print.result import (
    CommandUsage,
    Ending,
    ending_of,
    exit_code_of,
    result_object,
    turn_fields,
)
from dirge_py.frontend.print.streams import Stdout, on_signals, print_notice
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import without_leading_comments
from dirge_py.lib.text import clean, clean_json
from dirge_py.session.store import Store
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import SessionError
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
    from dirge_py.frontend.print.json_lines import EventFormat


OutputFormat = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """How to print."""

    output: OutputFormat = "text"
    """What is written to stdout."""
    events: "EventFormat" = "claude"
    """The shape of the lines of `stream-json`."""
    partial: bool = False
    """Whether pieces of messages are printed as they come."""
    output_file: Path | None = None
    """The file that gets the final text as it is."""
    store: Store | None = None
    """The store of the session; None: no session is stored."""
    answer: "AnswerSchema | None" = None
    """The schema of the answer, which is then JSON; nothing else is printed as text."""


class Printer:
    """Prints the runs of one conversation, one after the other."""

    def __init__(
        self, conversation: Conversation, options: PrintOptions, commands: Registry
    ) -> None:
        from dirge_py.frontend.print.json_lines import ClaudeLines, NativeLines

        self.conversation = conversation
        self.options = options
        self.commands = commands
        conversation.settings.answer_schema = options.answer
        self.stdout = Stdout()
        self._denials: list[PermissionAnswered] = []
        self._messages: list[Message] = []
        self.stopped = asyncio.Event()
        """Set by a signal: the current run is the last."""
        self.tells_turns = False
        """Whether results say which turn it was, for `dirge turn`."""
        for warning in commands.use_extensions(conversation.extensions.commands()):
            print_notice(warning)
        self._lines: ClaudeLines | NativeLines | None = None
        write, partial = self.stdout.write, options.partial
        if options.output == "stream-json" and options.events == "native":
            self._lines = NativeLines(conversation, write, partial=partial)
        elif options.output == "stream-json":
            names = [command.name for command in commands if command.headless]
            self._lines = ClaudeLines(conversation, write, partial=partial, commands=names)
        conversation.subscribe(self._on_event)

    async def run(self, prompt: UserMessage) -> int:
        """Run one prompt and the messages queued meanwhile; returns the exit code."""
        return await self.follow(self.conversation.send(prompt))

    async def follow(self, begun: Run) -> int:
        """Print a run that has just begun, and the runs of queued messages, as `run` does."""
        run: Run | None = begun
        exit_code = 0
        while run is not None:
            self._denials.clear()
            self._messages.clear()
            if self._lines is not None:
                self._lines.start()
            exit_code = await self._end(run)
            run = self.conversation.resume_queued() if exit_code == 0 else None
        return exit_code

    async def _end(self, run: Run) -> int:
        outcome = await run
        # A prompt that a check stopped is not repeated: this may be a log, and the prompt a key.
        is_blocked = isinstance(outcome, HookTerminated) and outcome.point == "before_prompt"
        for message in () if is_blocked else run.unsent:
            print_notice(f"not delivered: {message.text}")
        more = turn_fields(self.conversation, run, outcome) if self.tells_turns else {}
        if isinstance(outcome, AwaitingConfirmation):
            more["continuation"] = self.keep_continuation()
        answers = [m for m in reversed(self._messages) if isinstance(m, AssistantMessage)]
        is_silent = bool(answers) and isinstance(outcome, Done) and self.options.answer is None
        silence = describe_silent_answer(answers[0], way_on="") if is_silent else ""
        text = final_text(self._messages)
        if self.options.answer is not None:
            if isinstance(outcome, Done) and outcome.result is not None:
                text = outcome.result.response
                more["structured_output"] = outcome.result.structured
            elif self.options.output == "text":
                text = ""  # A script that asked for JSON gets that or nothing.
        # A fallback model may have written the last answer.
        model = next((m.model for m in answers if m.origin == "model" and m.content), "")
        ending = ending_of(outcome)
        return self.answer(
            run, outcome, text, ending=ending, model=model, more=more, silence=silence
        )

    def answer(
        self,
        run: Run | CommandUsage,
        outcome: Outcome,
        text: str,
        *,
        ending: Ending,
        more: Mapping[str, Any],
        model: str = "",
        silence: str = "",
    ) -> int:
        """Print the text, or the object, and how it ended on stderr; returns the exit code."""
        from dirge_py.frontend.print.json_lines import one_line

        result = result_object(
            run,
            outcome,
            self.conversation,
            ending=ending,
            response=text,
            model=model,
            denials=self._denials,
            more=more,
        )
        if self.options.output == "text" and text:
            # Even if stdout isn't a terminal: `tee` and the logs of a CI pass it on to one.
            shown = clean(text) if self.options.answer is None else clean_json(text)
            self.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        elif self._lines is not None:
            self._lines.end(result)
        elif self.options.output != "text":
            self.stdout.write(one_line(result))
        if silence:
            print_notice(silence)
        if ending.kind == "max_turns":
            print_notice(ending.hint)  # A notice during the run said the rest.
        elif ending.message:
            print_notice(ending.message, ending.hint)
        path = self.options.output_file
        try:
            if path is not None:
                path.write_text(text + "\n", encoding="utf-8", errors="replace")
        except OSError as error:
            print_notice(f"cannot write {path}: {error.strerror}.")
            return ending.exit_code or 1
        return ending.exit_code

    def keep_continuation(self) -> str | None:
        """Write the conversation's continuation and notify the user; returns its file, if any."""
        from dirge_py.session.recovery import load_continuation

        session_id, store = self.conversation.session_id, self.options.store
        if store is None or session_id is None:
            message = "a call waits for a decision, but the session isn't stored."
            print_notice(message, "Run it again.")
            return None
        try:
            path = store.keep_continuation(session_id)
            title = load_continuation(path).call["title"]
        except SessionError as error:
            print_notice(f"a call waits for a decision. {error.message}", error.hint)
            return None
        resume = f"dirge resume {shlex.quote(str(path))}"
        hint = f"`{resume} --confirm` runs it, `--reject TEXT` does not."
        print_notice(f"waiting for a decision about {title!r}.", hint)
        return str(path)

    def _on_event(self, event: LoopEvent) -> None:
        self._notify(event)
        if self._lines is not None:
            self._lines.on_event(event)

    def _notify(self, event: LoopEvent) -> None:
        """Write notices about the run on stderr; collect its messages and denials."""
        match event:
            case MessageEnd(message=message):
                self._messages.append(message)
            case PermissionAnswered(effect="deny"):
                self._denials.append(event)
                hint = f"{event.suggestion} would have allowed it." if event.suggestion else ""
                print_notice(f"denied {event.tool_name}: {event.reason}", hint)
            case SystemNotice(content=text):
                print_notice(text)
            case RetryNotice():
                wait = f" in {event.delay_ms / 1000:.0f} s" if event.delay_ms else ""
                print_notice(f"retrying{wait} (attempt {event.attempt}): {event.error}")
            case EvidenceTaken():
                first, _, rest = without_leading_comments(event.command.strip()).partition("\n")
                command = f"{first[:100]} …" if rest or len(first) > 100 else first
                exit_code = "" if event.exit_code is None else f", exit {event.exit_code}"
                print_notice(f"{event.id}: {command}: {event.outcome}{exit_code}.")
            case ForkEvent(event=PermissionAnswered() | RetryNotice() | SystemNotice() as inner):
                self._notify(inner)
            case ContextCompacted() if not self.conversation.is_running:
                pass  # The command that asked for it shows the result.
            case EscalationActivated() | PlanPhase() | ContextCompacted():
                print_notice(describe_event(event))

    def end_lines(self) -> None:
        """Write no more JSON lines: the result was the last; later notices only go to stderr."""
        self._lines = None


async def abort_on_signals(printer: Printer, work: Coroutine[Any, Any, int]) -> int:
    """Run `work`; SIGINT and SIGTERM abort the run, which then shuts down cleanly."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[int] = asyncio.ensure_future(work)
    stopped: list[str] = []

    def abort(name: str) -> None:
        conversation = printer.conversation
        if conversation.exclusive_owner is not None:
            printer.stopped.set()
            conversation.exclusive_owner.interrupt(name)
        elif conversation.is_running:
            printer.stopped.set()
            conversation.abort(name)
        else:
            task.cancel()

    def stop(name: str) -> None:
        stopped.append(name)
        loop.call_soon_threadsafe(abort, name)

    with on_signals(printer.stdout, stop):
        try:
            exit_code = await task
        except asyncio.CancelledError:
            if not stopped:
                raise
            exit_code = 0
    # A signal can also arrive after the run, while its answer is written.
    return exit_code or (exit_code_of(stopped[0]) if stopped else 0)
