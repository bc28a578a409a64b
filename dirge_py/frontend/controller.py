"""The controller of a chat, for both interactive front ends. It never loses typed text."""

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
from dirge_py.types.outcomes import Cancelled, NeedsMoreTurns

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run
    from dirge_py.types.events import LoopEvent, Sink


State = Literal[
    "starting", "no provider", "ready", "working", "asking", "interrupting", "compacting"
]

_logger = logging.getLogger(__name__)

_TYPED = ("steering", "follow_up")


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """One queued input."""

    kind: str
    """`steering` is sent at the next tool boundary, `follow_up` at the end of the run, `next_run`
    with the next run of the exclusive owner, or after all its runs.
    """
    text: str
    """The prompt as it was typed."""


class View(Protocol):
    """The interface of front ends that the controller uses."""

    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def give_back(self, text: str) -> None: ...
    def flush_events(self) -> None: ...
    def refresh_status(self) -> None: ...


class ChatController:
    """The conversation of a front end, its state, and the handling of typed lines."""

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
        self.lacks_provider = False
        """No conversation could be opened, as no provider is set up."""
        self.pictures_in: Callable[[str], Mapping[str, bytes]] = lambda text: {}
        """Returns the pictures that a text refers to, by their names in it; front ends set it."""
        self._runs = 0
        self._watched: Run | None = None
        self._sending = asyncio.Lock()
        self._command: asyncio.Task[None] | None = None
        self._has_held = False

    @property
    def state(self) -> State:
        if self.conversation is None:
            return "no provider" if self.lacks_provider else "starting"
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
        """Whether a run is active, or the conversation has an exclusive owner."""
        conversation = self.conversation
        return self.is_running or (
            conversation is not None and conversation.exclusive_owner is not None
        )

    @property
    def waiting(self) -> Sequence[QueuedPrompt]:
        """The queued inputs, as typed."""
        if self.conversation is None:
            return ()
        is_between = self.conversation.exclusive_owner is not None and not self.is_running
        return [
            QueuedPrompt(
                kind="next_run" if is_between and item.kind == "steering" else item.kind,
                text=self._typed.get(item.id) or typed_text(item.message),
            )
            for item in self.conversation.queued()
        ]

    def adopt(self, conversation: "Conversation", sink: "Sink") -> None:
        """Switch to this conversation; the caller closes the previous one."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.conversation = conversation
        conversation.extensions.start()
        self._typed.clear()
        unsubscribe = [
            # Watch first, so that the run counts as active when the screen gets the event.
            conversation.subscribe(lambda event: self._on_event(conversation, event)),
            conversation.subscribe(sink),
        ]
        self._unsubscribe = lambda: [undo() for undo in unsubscribe]
        self._view.refresh_status()

    async def submit(self, text: str, how: Literal["now", "later"]) -> None:
        """Handle a line: run a command, start a run, steer or queue."""
        conversation = self.conversation
        if conversation is None or not text.strip():
            return
        try:
            typed = self._registry.read(text) if text.startswith("/") else None
            if typed is not None:
                await self._run_command(typed, conversation)
            else:
                await self._prompt(conversation, as_prompt(text), how)
        except DirgeError as error:
            self._view.notify_user(f"{error.message}\n{error.hint}".strip(), tone="error")
            self._give_back_prompt(text)
        except Exception as error:
            # A command may come from a plugin; its errors must not end the program.
            _logger.exception("a command failed: %s", text.split()[0])
            self._view.notify_user(f"It failed: {type(error).__name__}: {error}", tone="error")
            self._give_back_prompt(text)
        finally:
            self._view.refresh_status()

    def _give_back_prompt(self, text: str) -> None:
        """Put a prompt back into the input. A command is among the earlier prompts.

        In the input, the next line would be glued to it.
        """
        if self._registry.read(text) is None:
            self._view.give_back(text)

    async def _prompt(
        self, conversation: "Conversation", text: str, how: Literal["now", "later"]
    ) -> None:
        # One at a time: reading an attachment takes a while, and prompts keep their order.
        async with self._sending:
            message = await conversation.attach(text, self.pictures_in(text))
            if conversation.is_compacting:
                # No run can start meanwhile; `_run_command` sends it when that is over.
                how, self._has_held = "later", True
            elif conversation.exclusive_owner is not None:
                # Between the owner's runs nothing reads the queue; the rest is sent after them.
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
        if conversation.exclusive_owner is None and not conversation.is_compacting:
            # Send what had to wait for the command; give it back if that was interrupted.
            was_held, self._has_held = self._has_held, False
            if was_held and self._is_interrupting:
                self.take_queue_back()
            elif was_held:
                self._send_late(conversation)
            self._is_interrupting = self._is_interrupting and self.is_running
        if not command.cancelled():
            command.result()

    def _send_late(self, conversation: "Conversation") -> None:
        """Start a run with inputs that were queued too late for the last one."""
        late = conversation.resume_queued() if conversation is self.conversation else None
        if late is not None:
            self._watch(conversation, late)

    def _on_event(self, conversation: "Conversation", event: "LoopEvent") -> None:
        self._watch_new_run(conversation)
        match event:
            case ForkEvent(event=AgentEnd(outcome=Cancelled())):
                # A cancelled fork ends the work it was made for, too.
                self._is_interrupting = True

    def _watch_new_run(self, conversation: "Conversation") -> None:
        """Watch a run that a command or the exclusive owner started."""
        if conversation.run is not None and conversation.run is not self._watched:
            is_typed = conversation.exclusive_owner is None
            self._watch(conversation, conversation.run, is_typed=is_typed)

    def _watch(self, conversation: "Conversation", run: "Run", *, is_typed: bool = True) -> None:
        self._runs += 1
        self._watched = run
        task = asyncio.create_task(self._await_end(conversation, run, is_typed=is_typed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await_end(self, conversation: "Conversation", run: "Run", *, is_typed: bool) -> None:
        """Wait for the end of a run; give back what was typed and not sent."""
        try:
            outcome = await run
        finally:
            self._runs -= 1
            # The exclusive owner may still be cleaning up.
            is_owned = conversation.exclusive_owner is not None
            self._is_interrupting = self._is_interrupting and is_owned
        self._view.flush_events()
        if unsent := [typed_text(m) for m in run.unsent if is_typed or m.origin in _TYPED]:
            self._view.give_back("\n".join(unsent))
        if isinstance(outcome, Cancelled | NeedsMoreTurns):
            self.take_queue_back()
        else:
            # Typed in the last moment, when the loop had already read its queues.
            self._send_late(conversation)
        self._view.refresh_status()

    def interrupt(self) -> bool:
        """Stop the run, a compaction, else a side question; the queue goes back to the input.

        The exclusive owner is interrupted first. False when there is nothing to stop.
        """
        conversation = self.conversation
        if conversation is None:
            return False
        owner = conversation.exclusive_owner
        has_side_question = conversation.side_questions > 0 and not self.is_running
        is_command = conversation.is_compacting or has_side_question
        if owner is None and self._command is not None and is_command:
            self.take_queue_back()
            self._command.cancel()
            return True
        if owner is None and not self.is_running:
            return False
        self.take_queue_back()
        self._is_interrupting = True
        if owner is not None:
            owner.interrupt("user")
        else:
            conversation.abort("user")
        self._view.refresh_status()
        return True

    def take_queue_back(self) -> bool:
        """Put the queue back into the input. False when it was empty."""
        taken = self.drop_queue()
        if taken:
            self._view.give_back("\n".join(taken))
        return bool(taken)

    def drop_queue(self) -> Sequence[str]:
        """Empty the queue; returns its inputs, as typed. The run continues."""
        if self.conversation is None:
            return ()
        taken = self.conversation.take_back()
        texts = [self._typed.pop(item.id, "") or typed_text(item.message) for item in taken]
        if texts:
            self._view.refresh_status()
        return texts

    async def close(self) -> None:
        """Stop the run and close the conversation."""
        conversation, self.conversation = self.conversation, None
        if conversation is not None:
            await conversation.close()
        for task in list(self._tasks):
            task.cancel()


def typed_text(message: UserMessage) -> str:
    """The text that the user typed, without attachments."""
    return next((block.text for block in message.content if isinstance(block, TextBlock)), "")
