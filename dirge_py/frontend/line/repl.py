"""The REPL of line mode; `run_line` starts it."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.controller import ChatController, typed_text
from dirge_py.frontend.line.asker import GUARD_S, LineAsker, LineSource
from dirge_py.frontend.line.renderer import LineRenderer
from dirge_py.frontend.line.streams import LineWriter, PlainLines
from dirge_py.frontend.session_opener import (
    OpenFirst,
    OpenMode,
    OpenOther,
    SessionOpener,
    notice_sink,
)
from dirge_py.lib.lazy import late
from dirge_py.lib.paths import own_command
from dirge_py.lib.version import __version__
from dirge_py.slash.base import Choice, FrontEnd, Tone, command
from dirge_py.slash.permission import MODES
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.frontend.line.editor import TerminalLines
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.session.history import PlanRecordEvent
else:
    # Only where lines are edited: scripts start without prompt_toolkit.
    TerminalLines = late("dirge_py.frontend.line.editor", "TerminalLines")

_HUNG_UP = 128 + signal.SIGHUP
QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""
KEYS = (
    ("Enter", "send; during a run: steer it"),
    ("Alt+Enter", "a new line"),
    ("Tab", "complete a command or an @file"),
    ("Up, Down, Ctrl+R", "earlier prompts"),
    ("Ctrl+C", "clear the line, else interrupt, else quit at the second press"),
    ("Ctrl+D", "quit, on an empty line; during a run at the second press"),
    ("Ctrl+Z", "suspend"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """How line mode starts."""

    open_first: OpenFirst
    """Opens the conversation of the command line, after the question about trust."""
    open_other: OpenOther
    """Opens a stored session, or a new one."""
    prepare: "Callable[[], Config] | None" = None
    """Reads the settings; called first."""
    project: "Callable[[], TrustGate] | None" = None
    """Returns what the project's `.dirge/` would load, to ask whether the user trusts it."""
    first_prompt: str = ""
    """The prompt to begin with, or ""."""
    first_command: str = ""
    """Without a first prompt, a slash command that is run first (`/sessions` for `-r` alone)."""
    is_dumb: bool = False
    """Whether the terminal can't move its cursor, and edits its line itself."""


class Repl(FrontEnd):
    """Line mode as a front end, a `controller.View` and a `SessionView`, without a screen.

    `make_source` creates its source of lines, which gets the REPL to read its state.
    """

    def __init__(
        self,
        start: LineOptions,
        writer: LineWriter,
        make_source: "Callable[[Repl], LineSource]",
        *,
        has_keys: bool = False,
        guard_s: float = GUARD_S,
    ) -> None:
        self.writer = writer
        self._keys = KEYS if has_keys else ()
        self._commands = Registry(discover(slash))
        self.commands.add(queue)
        self.controller = ChatController(self, self.commands, self)
        self.source = make_source(self)
        self.asker = LineAsker(
            self.source,
            writer,
            on_stop=self.controller.interrupt,
            on_asking=self._note_asking,
            guard_s=guard_s,
        )
        self._start = start
        self._sessions = SessionOpener(self, self.controller, self.asker)
        self._show_thinking = False
        self._shows_tips = True
        self.renderer = LineRenderer(writer, show_thinking=False)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exit_code: int | None = None
        self._stopped_at = self._ended_at = -QUIT_WITHIN_S
        self._has_failed = False
        self._sends = 0

    async def run(self) -> int:
        """Run until the input ends or the user quits; returns the exit code. Raises DirgeError."""
        await self._begin()
        while self._exit_code is None:
            if self.source.is_script:
                while self._exit_code is None and not self.is_ready:
                    self._changed.clear()
                    await self._changed.wait()
                if self.writer.problem is not None:
                    break  # The rest of the script would cost money without a reader.
            line = await self.source.line()
            if line is None:
                if self._may_quit():
                    break
                continue
            self.run_later(self.send(line))
            await asyncio.sleep(0)  # From now on it counts as sent.
        if self._exit_code is not None:
            return self._exit_code
        return int(self.source.is_script and self._has_failed)

    async def _begin(self) -> None:
        start = self._start
        if start.prepare is not None:
            config = start.prepare()
            self._show_thinking = config.ui.show_thinking
            for warning in self.commands.use_own_names(config.aliases):
                self.notify_user(f"[aliases]: {warning}")
        await self.ask_for_trust()
        conversation = await self._sessions.open_first(lambda: start.open_first(self.asker))
        self._sessions.adopt(conversation)
        if start.first_prompt:
            # A command may take its time, and lines are read meanwhile.
            self.run_later(self.send(start.first_prompt))
            await asyncio.sleep(0)  # From now on it counts as sent.
        elif start.first_command:
            await self.controller.submit(start.first_command, "now")
        else:
            await self._sessions.offer_to_continue(conversation)

    async def ask_for_trust(self) -> None:
        if self._start.project is not None:
            project = self._start.project()
            if project.offer is not None:
                project.answer(is_trusted=await self.asker.trust(project.offer))

    async def close(self) -> None:
        """Save the draft and close the conversation; still writes its notices."""
        conversation = self.controller.conversation
        self.source.stop()
        if conversation is not None:
            if not self.source.is_script:
                conversation.unsent.save_draft(self.source.draft)
            conversation.unsent.close()
            conversation.subscribe(notice_sink(self.notify_user))
        await self.controller.close()
        for task in list(self._tasks):
            task.cancel()

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return self._keys

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self.notify_user(text, tone=tone)

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self.asker.pick(title, choices, current=current)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self.asker.question(questions)

    def set_input(self, text: str) -> None:
        self.give_back(text)

    async def open(self, session_id: str | None) -> Conversation:
        return await self._sessions.switch_to(session_id)

    async def open_in(self, folder: Path, session_id: str | None = None) -> Conversation:
        return await self._sessions.switch_to(session_id, folder)

    def quit(self, code: int = 0) -> None:
        """End the program soon."""
        if self._exit_code is None:
            self._exit_code = code
        self.source.stop()
        self._changed.set()

    def interrupt(self) -> None:
        """Handle Ctrl+C on an empty line: stop the run, else quit at the second press."""
        if self.controller.interrupt():
            self.notify_user("Interrupting.")
            return
        now = time.monotonic()
        was_pressed, self._stopped_at = now - self._stopped_at < QUIT_WITHIN_S, now
        if was_pressed:
            self.quit(0)
        else:
            self.notify_user("Press Ctrl+C again to quit.")

    def _may_quit(self) -> bool:
        """Whether the end of the input quits: during a run only a second Ctrl+D does."""
        if self.source.is_script or self._exit_code is not None or not self.controller.is_busy:
            return True
        now = time.monotonic()
        was_pressed, self._ended_at = now - self._ended_at < QUIT_WITHIN_S, now
        if not was_pressed:
            self.notify_user("Still working. Press Ctrl+D again to stop and quit.")
        return was_pressed

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` while lines are read."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def label(self) -> str:
        """The label before the line: `> `, with the state unless it is `ready`."""
        return f"{self.controller.state}> ".removeprefix("ready")

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> Conversation:
        return self._start.open_other(self.asker, session_id, way)

    def adopt(self, conversation: Conversation) -> None:
        self.renderer = LineRenderer(self.writer, show_thinking=self._show_thinking)
        self.controller.adopt(conversation, self._on_event)

    def replay(
        self, conversation: Conversation, besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        self.renderer.replay(conversation.messages, besides)
        self.notify_user(f"Resumed this session with {_model_and_mode(conversation)}.")

    def greet(self, conversation: Conversation) -> None:
        facts = f"{_model_and_mode(conversation)}, in {conversation.cwd}"
        self.notify_user(f"dirge {__version__}: {facts}.")
        self.notify_user("/help lists the commands and keys. A line sent during a run steers it.")
        if self._shows_tips and not self.source.is_script:
            mode = conversation.settings.mode
            self.notify_user(f"Mode {mode}: {MODES[mode]}; /mode changes it.")
            self.notify_user("@ attaches a file. Ctrl+C interrupts a run. /undo reverses a prompt.")
        self._shows_tips = False

    def use_extensions(self, conversation: Conversation) -> Sequence[str]:
        return self.commands.use_extensions(conversation.extensions.commands())

    def on_shown(self, conversation: Conversation) -> None:
        """Offer earlier prompts, and restore unsent input."""
        if self.source.is_script:
            return
        unsent = conversation.unsent
        unsent.adopt_abandoned()
        if unsent.prompts is not None:
            self.source.remember(unsent.prompts.load())
        typed = [m for m in conversation.messages if m.role == "user" and m.origin == "user"]
        self.source.remember(map(typed_text, typed))
        if unsent.draft:
            self.give_back(unsent.draft)

    @property
    def is_ready(self) -> bool:
        """Whether no run is active and no sent line is still being handled."""
        return self._sends == 0 and self.controller.state == "ready"

    async def send(self, line: str) -> None:
        """Handle a line; notifies the user if it has to wait."""
        before = len(self.controller.waiting)
        self._sends += 1
        conversation = self.controller.conversation
        if conversation is not None and conversation.unsent.prompts is not None:
            conversation.unsent.prompts.add(line)
        try:
            await self.controller.submit(line, "now")
        finally:
            self._sends -= 1
            self.refresh_status()
        waiting = self.controller.waiting
        kind = waiting[-1].kind if len(waiting) > before else ""
        if kind == "steering":
            self.notify_user("Queued to steer the run: delivered before the next turn.")
        elif kind == "next_run":
            self.notify_user("Queued for the next run.")

    def _on_event(self, event: LoopEvent) -> None:
        if isinstance(event, AgentEnd):
            self._has_failed = not isinstance(event.outcome, Done)
        self.renderer.on_event(event)

    def _note_asking(self, is_asking: bool) -> None:
        self.controller.is_asking = is_asking
        self.refresh_status()

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        self.writer.line({"error": "Error: ", "warning": "Warning: "}.get(tone, "") + text)

    def give_back(self, text: str) -> None:
        self.source.put(text)

    def flush_events(self) -> None:
        """Does nothing: every event is written at once."""

    def refresh_status(self) -> None:
        self._changed.set()
        self.source.refresh()


def _model_and_mode(conversation: Conversation) -> str:
    return f"model {conversation.settings.model}, mode {conversation.settings.mode}"


# A command of line mode alone: in the terminal UI a key does this.
@command("queue", "queue a prompt until the run ends", usage="[TEXT]")
async def queue(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not args:
        waiting = [f"{item.kind}: {item.message.text}" for item in conversation.queued()]
        front.show("\n".join(waiting) or "Nothing is queued.")
        return
    if not conversation.is_running:
        raise UsageError("/queue works only during a run.", hint="Send it as a normal prompt.")
    conversation.follow_up(await conversation.attach(args))
    front.show(f"Queued until the run ends: {args}")


def run_line(start: LineOptions) -> int:
    """Run line mode until the input ends or the user quits; returns the exit code.

    A signal also shuts it down cleanly, with exit code 128 + its number.

    Raises:
        DirgeError: the conversation couldn't be opened.
        OSError: the output of a script couldn't be written.
    """
    return asyncio.run(_run(start))


async def _run(start: LineOptions) -> int:
    is_edited = not start.is_dumb and os.isatty(0) and os.isatty(1)
    with ExitStack() as opened:
        if is_edited:
            repl = _edited_repl(start, opened)
        else:
            writer = LineWriter()
            # A printed label can't be changed: it only appears once a line can be sent.
            repl = Repl(
                start, writer, lambda r: PlainLines(writer, label=lambda: "> " * r.is_ready)
            )
        opened.callback(_listen_to_signals(repl))
        try:
            code = await repl.run()
        finally:
            left = repl.controller.conversation
            await repl.close()
        if left is not None and left.session_id and left.messages:
            repl.writer.line(f"To come back: {own_command()} --line -r {left.session_id}")
    if repl.source.is_script and repl.writer.problem is not None:
        raise repl.writer.problem
    return _HUNG_UP if repl.source.is_gone else code


def _edited_repl(start: LineOptions, opened: ExitStack) -> Repl:
    """The REPL at a terminal, which dirge controls until `opened` is closed."""
    lines: list[TerminalLines] = []

    def make(repl: Repl) -> "TerminalLines":
        source = TerminalLines(
            label=lambda: repl.label,
            interrupt=repl.interrupt,
            commands=repl.commands,
            conversation=lambda: repl.controller.conversation,
        )
        lines.append(opened.enter_context(source))
        return source

    writer = LineWriter(lambda text: lines[0].write(text), columns=lambda: lines[0].columns)
    return Repl(start, writer, make, has_keys=True)


def _listen_to_signals(repl: Repl) -> Callable[[], object]:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        source = repl.source
        if source.is_script:
            repl.quit(128 + signal.SIGINT)
        elif not (isinstance(source, PlainLines) and source.interrupt()):
            repl.interrupt()

    numbers = {
        signal.SIGINT: stop,
        signal.SIGTERM: lambda: repl.quit(128 + signal.SIGTERM),
        signal.SIGHUP: lambda: repl.quit(_HUNG_UP),
    }
    for number, action in numbers.items():
        loop.add_signal_handler(number, action)

    return lambda: [loop.remove_signal_handler(number) for number in numbers]
