"""`! command` and `!! command`: the person's own commands, run in a terminal above the input."""

import asyncio
from typing import TYPE_CHECKING

from textual.widgets import Static

from dirge_py.frontend.event_text import format_shell_message
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageEnd
from dirge_py.types.messages import UserMessage
from dirge_py.ui.panels.shell_box import ShellBox
from dirge_py.ui.screen_app import ScreenApp

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.running_command import CommandResult


SHOWN_AFTER_S = 0.12
"""Seconds that a command runs before its box appears."""

_MOST_BEGUN = 16 * 1024
_HINT = "runs in your shell; the model sees it"
_PRIVATE_HINT = "runs in your shell; the model does not see it"


class UserShell:
    """Runs one command at a time, and shows its output; the model gets that of `!`."""

    def __init__(self, app: ScreenApp) -> None:
        self._app = app
        self.box = ShellBox(app.panel_styles, app.keymap)
        self._begun = b""
        self._is_busy = False
        self._sign = ""
        self._shown: list[UserMessage] = []

    def update_sign(self) -> str:
        """Update the sign in front of the input; return a hint about a shell command."""
        text = self._app.composer.text
        sign = "!" if text.startswith("!") else "❯"
        if sign != self._sign:
            self._sign = sign
            # While the program ends, the widget may be gone.
            for shown in self._app.query("#sign").results(Static):
                shown.update(sign)
        if not text.startswith("!"):
            return ""
        return _PRIVATE_HINT if text.startswith("!!") else _HINT

    async def run(self, text: str) -> None:
        """Run a typed command to its end."""
        app = self._app
        is_for_model = not text.startswith("!!")
        command = text[1 if is_for_model else 2 :].strip()
        conversation = app.controller.conversation
        if conversation is None or not command:
            app.hint("! COMMAND runs in your shell; the model doesn't see !! COMMAND.")
            return
        if self._is_busy:
            app.notify_user("Another command of yours is running. End it first.", tone="warning")
            app.composer.put_before(text)
            return
        self._is_busy = True
        try:
            finished = await self._finish(command, text, conversation)
            if app.controller.conversation is conversation:
                message = format_shell_message(command, finished)
                app.flush_events()
                app.renderer.on_event(MessageEnd(message))
                app.transcript.redraw()
                if is_for_model:
                    await self._give_to_model(message, conversation)
        except DirgeError as error:
            app.show_error(error)
            app.composer.put_before(text)
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
        rows, columns = box.terminal_size(self._app.size)
        start, cwd = conversation.environment.shells.start_for_person, str(conversation.cwd)
        running = start(command, cwd=cwd, rows=rows, columns=columns, on_bytes=self._on_output)
        try:
            await asyncio.wait({running.finished}, timeout=SHOWN_AFTER_S)
            if not running.finished.done():
                box.open(running, typed, self._begun)
                if not self._app.controller.is_asking:
                    box.focus()
                await asyncio.wait({running.finished})
        finally:
            running.stop()
            has_focus = box.has_focus
            box.close()
            if has_focus:
                self._app.composer.focus()
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
            self._app.notify_user(error.message, tone="warning")
        if message in conversation.inserts.waiting:
            self._app.hint("The model gets it at the next boundary.")
