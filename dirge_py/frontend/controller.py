"""The controller of a chat: sends what is typed, steers, queues and interrupts runs.

Both interactive front ends have one; nothing that was typed is lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from dirge_py.slash.base import FrontEnd, Tone
from dirge_py.slash.registry import Registry, TypedCommand, as_prompt
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import AgentEnd, ForkEvent
from dirge_py.types.messages import TextBlock, UserMessage
from dirge_py.types.outcomes import Cancelled

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run
    from dirge_py.types.events import LoopEvent, Sink


State = Literal["starting", "ready", "working", "asking", "interrupting", "compacting"]

_logger = logging.getLogger(__name__)

_TYPED = ("steering", "follow_up")


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """One queued input."""

    kind: str
    """`steering` enters at the next tool boundary, `follow_up` at the end of the run, `next_run`
    with the next run of the exclusive owner, or after all of them.
    """
    text: str
    """The prompt as it was typed."""


class View(Protocol):
    """What the controller needs of a front end."""

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def give_back(self, text: str) -> None: ...
    def flush_events(self) -> None: ...
    def refresh_status(self) -> None: ...


class ChatController:
    """The conversation of a front end, its state, and what becomes of the lines typed into it."""

    def __init__(self, view: View, registry: Registry, front: FrontEnd) -> None:
        self.conversation: Conversation | None = None
        self._view = view
        self._registry = registry
        self._front = front
        self._typed: dict[int, str] = {}
        self._is_interrupting = False
        self._unsubscribe: Callable[[], object] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_asking = False
        self.pictures_in: Callable[[str], Mapping[str, bytes]] = lambda text: {}
        """Pictures that a text stands for, by their names in it; a front end may have some."""
        self._runs = 0
        self._watched: Run | None = None
        self._sending = asyncio.Lock()
        self._command: asyncio.Task[None] | None = None
        self._has_held = False

    @property
    def state(self) -> State:
        if self.conversation is None:
            return "starting"
        if self._is_interrupting and self.is_busy:
            return "interrupting"
        if self.is_asking:
            return "asking"
        if self.conversation.is_compacting:
            return "compacting"
        return "working" if self.is_busy else "ready"

    @property
    def is_running(self) -> bool:
        return self._runs > 0

    @property
    def is_busy(self) -> bool:
        """Whether a run goes on, or somebody has the conversation to themselves."""
        return self.is_running or self._has_exclusive_owner(self.conversation)

    @staticmethod
    def _has_exclusive_owner(conversation: "Conversation | None") -> bool:
        return conversation is not None and conversation.exclusive_owner is not None

    @property
    def waiting(self) -> Sequence[QueuedPrompt]:
        """What is queued, as it was typed."""
        if self.conversation is None:
            return ()
        is_between = self._has_exclusive_owner(self.conversation) and not self.is_running
        return [
            QueuedPrompt(
                kind="next_run" if is_between and item.kind == "steering" else item.kind,
                text=self._typed.get(item.id) or typed_text(item.message),
            )
            for item in self.conversation.queued()
        ]

    def adopt(self, conversation: "Conversation", sink: "Sink") -> None:
        """Go on with this conversation; the one before is left to whoever closes it."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.conversation = conversation
        conversation.extensions.start()
        self._typed.clear()
        unsubscribe = [
            # First, so that it counts as running when the screen hears of it.
            conversation.subscribe(lambda event: self._on_event(conversation, event)),
            conversation.subscribe(sink),
        ]
        self._unsubscribe = lambda: [undo() for undo in unsubscribe]
        self._view.refresh_status()

    # -- what was typed

    async def submit(self, text: str, how: Literal["now", "later"]) -> None:
        """Do what a line asks for: run a command, start a run, steer or queue."""
        conversation = self.conversation
        if conversation is None or not text.strip():
            return
        try:
            typed = self._registry.read(text)
            if typed is not None:
                await self._run_command(typed, conversation)
            else:
                await self._prompt(conversation, as_prompt(text), how)
        except DirgeError as error:
            self._view.notify_user(
                "\n".join(p for p in (error.message, error.hint) if p), tone="error"
            )
            self._view.give_back(text)
        except Exception as error:
            # A command may come from a plugin; what it gets wrong must not end the program.
            _logger.exception("a command failed: %s", text.split()[0])
            self._view.notify_user(f"It failed: {type(error).__name__}: {error}", tone="error")
            self._view.give_back(text)
        finally:
            self._view.refresh_status()

    async def _prompt(
        self, conversation: "Conversation", text: str, how: Literal["now", "later"]
    ) -> None:
        # One at a time: reading an attachment takes a while, and prompts keep their order.
        async with self._sending:
            message = await conversation.attach(text, self.pictures_in(text))
            if conversation.is_compacting:
                # No run can start meanwhile; `_run_command` sends it when that is over.
                how, self._has_held = "later", True
            elif self._has_exclusive_owner(conversation):
                # Between its runs, nobody takes up what is queued; what is left goes its own way.
                self._has_held = True
            elif not conversation.is_running:
                self._watch(conversation, conversation.send(message))
                return
            queue = conversation.steer if how == "now" else conversation.follow_up
            self._typed[queue(message).id] = text

    async def _run_command(self, typed: TypedCommand, conversation: "Conversation") -> None:
        command = asyncio.ensure_future(self._registry.run(typed, conversation, self._front))
        if self._command is None:
            self._command = command
        try:
            await asyncio.wait({command})
        finally:
            command.cancel()
            if self._command is command:
                self._command = None
        if command.cancelled():
            self._view.notify_user("Interrupted.")
        self._watch_new_run(conversation)
        self._release_held(conversation)
        if not command.cancelled():
            command.result()

    def _release_held(self, conversation: "Conversation") -> None:
        """Send what had to wait until a command was over; give it back if that was interrupted."""
        if self._has_exclusive_owner(conversation) or conversation.is_compacting:
            return
        if self._has_held:
            self._has_held = False
            if self._is_interrupting:
                self.take_queue_back()
            else:
                self._send_late(conversation)
        self._is_interrupting = self._is_interrupting and self.is_running

    def _send_late(self, conversation: "Conversation") -> None:
        """Start a run with what was queued when nobody took it up any more, or could."""
        late = conversation.resume_queued() if conversation is self.conversation else None
        if late is not None:
            self._watch(conversation, late)

    # -- runs

    def _on_event(self, conversation: "Conversation", event: "LoopEvent") -> None:
        self._watch_new_run(conversation)
        match event:
            case ForkEvent(event=AgentEnd(outcome=Cancelled())):
                # However that was asked for, it ends what the fork was made for.
                self._is_interrupting = True

    def _watch_new_run(self, conversation: "Conversation") -> None:
        """Watch a run that was not started here, but by a command or the exclusive owner."""
        if conversation.run is not None and conversation.run is not self._watched:
            is_typed = not self._has_exclusive_owner(conversation)
            self._watch(conversation, conversation.run, is_typed=is_typed)

    def _watch(self, conversation: "Conversation", run: "Run", *, is_typed: bool = True) -> None:
        self._runs += 1
        self._watched = run
        ending = self._await_end(conversation, run, is_typed=is_typed)
        task = asyncio.get_running_loop().create_task(ending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await_end(self, conversation: "Conversation", run: "Run", *, is_typed: bool) -> None:
        """`is_typed`: what it began with is the person's, and theirs again if it came to nothing.

        What they sent while it ran is theirs in any case.
        """
        try:
            outcome = await run
        finally:
            self._runs -= 1
            # Whoever started it may still have something to leave in good order.
            self._is_interrupting = self._is_interrupting and self._has_exclusive_owner(
                conversation
            )
        self._view.flush_events()
        if unsent := [typed_text(m) for m in run.unsent if is_typed or m.origin in _TYPED]:
            self._view.give_back("\n".join(unsent))
        if isinstance(outcome, Cancelled):
            self.take_queue_back()
        else:
            # Typed in the last moment, when the loop had already looked into its queues.
            self._send_late(conversation)
        self._view.refresh_status()

    def interrupt(self) -> bool:
        """Stop the run, a compaction, else a side question; the queue goes back to the input.

        Who has the conversation to themselves leaves. False when there is nothing to stop.
        """
        if self.conversation is None:
            return False
        if self.conversation.exclusive_owner is not None:
            self.take_queue_back()
            self._is_interrupting = True
            self.conversation.exclusive_owner.interrupt("user")
            self._view.refresh_status()
            return True
        is_asking_aside = self.conversation.side_questions > 0 and not self.is_running
        if self._command is not None and (self.conversation.is_compacting or is_asking_aside):
            self.take_queue_back()
            self._command.cancel()
            return True
        if not self.is_running:
            return False
        self.take_queue_back()
        self._is_interrupting = True
        self.conversation.abort("user")
        self._view.refresh_status()
        return True

    def take_queue_back(self) -> bool:
        """Put what is queued back into the input. False when nothing was."""
        taken = self.drop_queue()
        if taken:
            self._view.give_back("\n".join(taken))
        return bool(taken)

    def drop_queue(self) -> Sequence[str]:
        """Empty the queue; returns what was in it, as it was typed. A run goes on without it."""
        if self.conversation is None:
            return ()
        taken = self.conversation.take_back()
        texts = [self._typed.pop(item.id, "") or typed_text(item.message) for item in taken]
        if texts:
            self._view.refresh_status()
        return texts

    async def close(self) -> None:
        """Stop what runs and close the conversation."""
        conversation, self.conversation = self.conversation, None
        if conversation is not None:
            await conversation.close()
        for task in list(self._tasks):
            task.cancel()


def typed_text(message: UserMessage) -> str:
    """What the person wrote, without what was attached to it."""
    return next((block.text for block in message.content if isinstance(block, TextBlock)), "")
