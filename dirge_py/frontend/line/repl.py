"""The REPL of line mode: reads lines, sends them, renders what comes of it, and ends in good order.

`LineFront` is what slash commands may ask of it, `LineSessionOpener` opens its sessions, and
`LineOptions` is what a start of it is given.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.controller import ChatController, typed_text
from dirge_py.frontend.line.asker import GUARD_S, LineAsker
from dirge_py.frontend.line.renderer import LineRenderer
from dirge_py.frontend.line.source import LineSource
from dirge_py.frontend.line.writer import LineWriter
from dirge_py.frontend.session_opener import (
    OpenFirst,
    OpenMode,
    OpenOther,
    SessionOpener,
    notice_sink,
)
from dirge_py.lib.version import __version__
from dirge_py.slash.base import Choice, FrontEnd, Tone, Unsupported
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.extensions import Command
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.session.history import PlanRecordEvent


QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""
KEYS = (
    ("Enter", "send; during a run: steer it"),
    ("Alt+Enter", "a new line"),
    ("Tab", "complete a command or an @file"),
    ("Up, Down, Ctrl+R", "earlier prompts"),
    ("Ctrl+C", "clear the line, else interrupt, else quit at the second press"),
    ("Ctrl+D", "quit, on an empty line"),
    ("Ctrl+Z", "suspend"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    """What the settings say about line mode."""

    show_thinking: bool = False
    """Whether thinking is shown."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The person's own names for slash commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """How one start of line mode goes."""

    open_first: OpenFirst
    """Opens the conversation that the command line asks for, after the question about trust."""
    open_other: OpenOther
    """Opens a stored session, or a new one, later on."""
    prepare: Callable[[], LineSettings] = LineSettings
    """Reads the settings; called first."""
    project: "Callable[[], TrustGate] | None" = None
    """What the project brings along; the person is asked whether it is trusted."""
    first_prompt: str = ""
    """The prompt to begin with, or ""."""
    pick_session: bool = False
    """Whether the list of sessions is shown first (`-r` without an id)."""
    is_dumb: bool = False
    """The terminal can do no more than show what is written: it edits its line itself."""


class MakeSource(Protocol):
    """Makes the source of lines of a REPL, which it may ask for its state."""

    def __call__(self, repl: "Repl") -> LineSource: ...


class Repl:
    """One conversation after the other, as lines. Implements `controller.View`."""

    def __init__(
        self,
        start: LineOptions,
        writer: LineWriter,
        make_source: MakeSource,
        *,
        has_keys: bool = False,
        guard_s: float = GUARD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.writer = writer
        self.has_keys = has_keys
        self._clock = clock
        self.commands = discover(slash)
        for command in COMMANDS:
            self.commands.add(command)
        self.front = LineFront(self, self.commands)
        self.controller = ChatController(self, self.commands, self.front)
        self.source = make_source(self)
        self.asker = LineAsker(
            self.source,
            writer,
            on_stop=self.controller.interrupt,
            on_asking=self._note_asking,
            guard_s=guard_s,
        )
        self.session_opener = LineSessionOpener(self, start)
        self.opened: Conversation | None = None
        """The conversation that was closed at the end."""
        self._show_thinking = False
        self.renderer = self._new_renderer()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exit_code: int | None = None
        self._stopped_at = -QUIT_WITHIN_S
        self._has_failed = False
        self._sends = 0

    # -- how it goes

    async def run(self) -> int:
        """Until the input ends or the person leaves; returns the exit code.

        Raises:
            DirgeError: there is no conversation to begin with.
        """
        await self.session_opener.begin()
        while self._exit_code is None:
            if self.source.is_script:
                await self._rested()
                if self.writer.problem is not None:
                    break  # What the rest of it asks for would be paid for, and told to nobody.
            line = await self.source.line()
            if line is None:
                break
            self.later(self.send(line))
            await asyncio.sleep(0)  # From now on it counts as sent.
        if self._exit_code is not None:
            return self._exit_code
        return 1 if self.source.is_script and self._has_failed else 0

    async def close(self) -> None:
        """Keep the draft, and close the conversation. What that tells is told."""
        conversation = self.opened = self.controller.conversation
        self.source.stop()
        if conversation is not None:
            if not self.source.is_script:
                conversation.unsent.save_draft(self.source.draft)
            conversation.unsent.close()
            conversation.subscribe(notice_sink(self.notify_user))
        await self.controller.close()
        for task in list(self._tasks):
            task.cancel()

    def leave(self, code: int) -> None:
        """End the program soon."""
        if self._exit_code is None:
            self._exit_code = code
        self.source.stop()
        self._changed.set()

    def interrupt(self) -> bool:
        """Ctrl+C where nothing is typed: stop what runs. Whether it is to leave instead."""
        if self.controller.interrupt():
            self.notify_user("Interrupting.")
            return False
        now = self._clock()
        was_pressed, self._stopped_at = now - self._stopped_at < QUIT_WITHIN_S, now
        if was_pressed:
            self.leave(0)
            return True
        self.notify_user("Ctrl+C again quits.")
        return False

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Let this go on beside the reading of lines."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def label(self) -> str:
        """What stands before the line: the state, where it is not simply ready."""
        state = self.controller.state
        return "> " if state == "ready" else f"{state}> "

    # -- the conversation

    def take_settings(self, settings: LineSettings) -> None:
        self._show_thinking = settings.show_thinking
        for warning in self.commands.use_own_names(settings.aliases):
            self.notify_user(f"[aliases]: {warning}")

    def adopt(self, conversation: Conversation) -> None:
        """Go on with this conversation."""
        self.renderer = self._new_renderer()
        self.controller.adopt(conversation, self._on_event)

    @property
    def is_ready(self) -> bool:
        """Nothing goes on, and nothing that was sent is still being read."""
        return self._sends == 0 and self.controller.state == "ready"

    async def send(self, line: str) -> None:
        """Do what a line asks for; one that waits is told of."""
        before = len(self.controller.waiting)
        self._sends += 1
        self._keep_prompt(line)
        try:
            await self.controller.submit(line, "now")
        finally:
            self._sends -= 1
            self.refresh_status()
        waiting = self.controller.waiting
        kind = waiting[-1].kind if len(waiting) > before else ""
        if kind == "steering":
            self.notify_user("Waits to steer the run: it is read before the next turn.")
        elif kind == "next_run":
            self.notify_user("Waits for the next run, which reads it.")

    def _keep_prompt(self, line: str) -> None:
        conversation = self.controller.conversation
        if conversation is not None and conversation.unsent.prompts is not None:
            conversation.unsent.prompts.add(line)

    async def _rested(self) -> None:
        """Wait until nothing goes on."""
        while self._exit_code is None and not self.is_ready:
            self._changed.clear()
            await self._changed.wait()

    def _on_event(self, event: LoopEvent) -> None:
        if isinstance(event, AgentEnd):
            self._has_failed = not isinstance(event.outcome, Done)
        self.renderer.on_event(event)

    def _new_renderer(self) -> LineRenderer:
        return LineRenderer(self.writer, show_thinking=self._show_thinking, clock=self._clock)

    def _note_asking(self, is_asking: bool) -> None:
        self.controller.is_asking = is_asking
        self.refresh_status()

    # -- controller.View

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        words = {"error": "Error: ", "warning": "Warning: "}.get(tone, "")
        self.writer.line(words + text)

    def give_back(self, text: str) -> None:
        self.source.put(text)

    def flush_events(self) -> None:
        """Does nothing: every event is written at once."""

    def refresh_status(self) -> None:
        self._changed.set()
        self.source.refresh()


class LineFront:
    """The `slash.base.FrontEnd` of line mode. What needs a screen raises `Unsupported`."""

    def __init__(self, repl: Repl, commands: Registry) -> None:
        self._repl = repl
        self._commands = commands

    @property
    def commands(self) -> Registry:
        return self._commands

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return KEYS if self._repl.has_keys else ()

    def show(self, text: str, *, tone: Tone = "plain") -> None:
        self._repl.notify_user(text, tone=tone)

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        return await self._repl.asker.pick(title, choices, current=current)

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        return await self._repl.asker.question(questions)

    async def edit_text(self, text: str) -> str | None:
        raise Unsupported("editing text")

    def set_input(self, text: str) -> None:
        self._repl.give_back(text)

    async def open(self, session_id: str | None) -> Conversation:
        return await self._repl.session_opener.switch_to(session_id)

    def quit(self) -> None:
        self._repl.leave(0)

    def theme(self, name: str) -> None:
        raise Unsupported("a theme")

    def copy(self, text: str) -> str:
        raise Unsupported("the clipboard")

    def show_diff(self, diff: str) -> None:
        self._repl.notify_user(diff)

    async def read_on(self, text: str) -> None:
        self._repl.notify_user(text)


class LineSessionOpener:
    """Opens the conversation of a REPL, and every later one. Implements `SessionView`."""

    def __init__(self, repl: Repl, start: LineOptions) -> None:
        self._repl = repl
        self._start = start
        self._sessions = SessionOpener(self, repl.controller, repl.asker)

    async def begin(self) -> None:
        """Open the first conversation. Raises DirgeError: there is none to go on with then."""
        repl, start = self._repl, self._start
        settings = start.prepare()
        repl.take_settings(settings)
        if start.project is not None:
            door = start.project()
            if door.offer is not None:
                door.answer(is_trusted=await repl.asker.trust(door.offer))
        conversation = await self._sessions.open_first(lambda: start.open_first(repl.asker))
        self._sessions.adopt(conversation)
        if start.first_prompt:
            # A command may take its time, and is told things meanwhile.
            repl.later(repl.send(start.first_prompt))
            await asyncio.sleep(0)  # From now on it counts as sent.
        elif start.pick_session:
            await repl.controller.submit("/sessions", "now")
        else:
            await self._sessions.offer_to_continue(conversation)

    async def switch_to(self, session_id: str | None) -> Conversation:
        """Go on in another session, or a new one: see `SessionOpener.switch_to`."""
        return await self._sessions.switch_to(session_id)

    # -- SessionView

    def open_other(self, session_id: str | None, way: OpenMode = "write") -> Conversation:
        return self._start.open_other(self._repl.asker, session_id, way)

    def adopt(self, conversation: Conversation) -> None:
        self._repl.adopt(conversation)

    def replay(
        self, conversation: Conversation, besides: "Sequence[tuple[int, PlanRecordEvent]]"
    ) -> None:
        self._repl.renderer.replay(conversation.messages, besides)
        self._repl.notify_user(f"Back in this session, with {_model_and_mode(conversation)}.")

    def greet(self, conversation: Conversation) -> None:
        repl, facts = self._repl, _model_and_mode(conversation)
        repl.notify_user(f"dirge {__version__}: {facts}, in {conversation.cwd}.")
        repl.notify_user("/help lists the commands and keys. A line sent during a run steers it.")

    def use_extensions(self, conversation: Conversation) -> Sequence[str]:
        return self._repl.commands.use_extensions(conversation.extensions.commands())

    def on_shown(self, conversation: Conversation) -> None:
        if not self._repl.source.is_script:
            self._give_back(conversation)

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None:
        """Write `text` as it stands: notices get no word in front of them."""
        self._repl.notify_user(text)

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._repl.later(work)

    def _give_back(self, conversation: Conversation) -> None:
        """What was typed before: earlier prompts, and what was never sent."""
        unsent = conversation.unsent
        unsent.adopt_abandoned()
        if unsent.prompts is not None:
            self._repl.source.remember(unsent.prompts.load())
        said = [m for m in conversation.messages if m.role == "user" and m.origin == "user"]
        self._repl.source.remember(map(typed_text, said))
        if unsent.draft:
            self._repl.give_back(unsent.draft)


def _model_and_mode(conversation: Conversation) -> str:
    return f"model {conversation.settings.model}, mode {conversation.settings.mode}"


async def queue(args: str, conversation: Conversation, front: FrontEnd) -> None:
    """Queue a prompt for when the run is over; without one, show what waits."""
    if not args:
        waiting = [f"{item.kind}: {item.message.text}" for item in conversation.queued()]
        front.show("\n".join(waiting) or "Nothing waits.")
        return
    if not conversation.is_running:
        raise UsageError("/queue is for during a run.", hint="Send the words as they are.")
    conversation.follow_up(await conversation.attach(args))
    front.show(f"Waits until the run is over: {args}")


COMMANDS = (
    Command(name="queue", summary="a prompt for when the run is over", usage="[TEXT]", run=queue),
)
"""Commands of line mode alone: on the screen a key does this."""
