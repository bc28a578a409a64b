"""`! command` and `!! command`: the person's own commands, run in a terminal above the input."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.widgets import Static

from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.event_text import format_shell_message
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageEnd
from dirge_py.types.messages import UserMessage
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.panels.shell_box import ShellBox
from dirge_py.ui.prompt.composer import Composer

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.running_command import CommandResult


SHOWN_AFTER_S = 0.12
"""Seconds that a command runs before its box appears."""

_MOST_BEGUN = 16 * 1024
_SIGN = "❯"
_HINT = "runs in your shell; the model sees it"
_PRIVATE_HINT = "runs in your shell; the model does not see it"


class UserShell:
    """Runs one command at a time, and shows its output; the model gets that of `!`."""

    def __init__(
        self,
        box: ShellBox,
        composer: Composer,
        controller: ChatController,
        feed: TranscriptFeed,
        hint: Callable[[str], None],
    ) -> None:
        self.box = box
        self.sign = Static(_SIGN, id="sign")
        """The sign in front of the input."""
        self._composer, self._controller = composer, controller
        self._feed, self._hint = feed, hint
        self._begun = b""
        self._is_busy = False
        self._shown: list[UserMessage] = []

    def update_sign(self) -> str:
        """Update the sign in front of the input; return a hint about a shell command."""
        text = self._composer.text
        sign = "!" if text.startswith("!") else _SIGN
        if sign != self.sign.content:
            self.sign.update(sign)
        if not text.startswith("!"):
            return ""
        return _PRIVATE_HINT if text.startswith("!!") else _HINT

    async def run(self, text: str) -> None:
        """Run a typed command to its end."""
        is_for_model = not text.startswith("!!")
        command = text[1 if is_for_model else 2 :].strip()
        conversation = self._controller.conversation
        if conversation is None or not command:
            self._hint("! COMMAND runs in your shell; the model doesn't see !! COMMAND.")
            return
        if self._is_busy:
            self._feed.notify("Another command of yours is running. End it first.", tone="warning")
            self._composer.put_before(text)
            return
        self._is_busy = True
        try:
            finished = await self._finish(command, text, conversation)
            if self._controller.conversation is conversation:
                message = format_shell_message(command, finished)
                self._feed.show(MessageEnd(message))
                if is_for_model:
                    await self._give_to_model(message, conversation)
        except DirgeError as error:
            self._feed.notify_error(error)
            self._composer.put_before(text)
        finally:
            self._is_busy = False

    def has_shown(self, event: LoopEvent) -> bool:
        """Whether the transcript has the output that this event reports."""
        if not isinstance(event, MessageEnd) or event.message not in self._shown:
            return False
        self._shown = [message for message in self._shown if message != event.message]
        return True

    async def _finish(
        self, command: str, typed: str, conversation: "Conversation"
    ) -> "CommandResult":
        if conversation.environment.shells is None:
            raise DirgeError("Commands can't run in this conversation.")
        box = self.box
        self._begun = b""
        rows, columns = box.terminal_size(self.box.app.size)
        start, cwd = conversation.environment.shells.start_for_person, str(conversation.cwd)
        running = start(command, cwd=cwd, rows=rows, columns=columns, on_bytes=self._on_output)
        try:
            await asyncio.wait({running.finished}, timeout=SHOWN_AFTER_S)
            if not running.finished.done():
                box.open(running, typed, self._begun)
                if not self._controller.is_asking:
                    box.focus()
                await asyncio.wait({running.finished})
        finally:
            running.stop()
            has_focus = box.has_focus
            box.close()
            if has_focus:
                self._composer.focus()
        return running.finished.result()

    def _on_output(self, chunk: bytes) -> None:
        if self.box.is_open:
            self.box.feed(chunk)
        else:
            self._begun = (self._begun + chunk)[-_MOST_BEGUN:]

    async def _give_to_model(self, message: UserMessage, conversation: "Conversation") -> None:
        self._shown.append(message)
        try:
            await conversation.inserts.add(message)
        except DirgeError as error:
            self._shown.remove(message)
            self._feed.notify(error.message, tone="warning")
        if message in conversation.inserts.waiting:
            self._hint("The model gets it at the next boundary.")
