"""`! command` and `!! command`: the person's own commands, run in a terminal above the input."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from textual.geometry import Size
from textual.widget import Widget

from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.event_text import format_shell_message
from dirge_py.slash.base import Tone
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageEnd
from dirge_py.types.messages import UserMessage
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.shell_box import ShellBox
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.theme.styles import Styles

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.running_command import CommandResult


SHOWN_AFTER_S = 0.12
"""A command that ends before this is never shown at work."""

_MOST_BEGUN = 16 * 1024
_TOLD = "runs in your shell; the model sees it"
_UNTOLD = "runs in your shell; the model does not see it"


class ShellApp(Protocol):
    """What a command of the person's uses of the app."""

    keymap: Keymap
    controller: ChatController
    composer: Composer

    @property
    def panel_styles(self) -> Styles: ...
    @property
    def size(self) -> Size: ...
    @property
    def is_running(self) -> bool: ...
    def set_focus(self, widget: Widget | None) -> None: ...
    def show_sign(self, sign: str) -> None: ...
    def show_message(self, message: UserMessage) -> None: ...
    def notify_user(self, text: str, *, tone: Tone = "plain") -> None: ...
    def hint(self, text: str) -> None: ...
    def give_back(self, text: str) -> None: ...


class UserShell:
    """Runs one such command at a time. What it wrote is shown; of `!` the model is told, too."""

    def __init__(self, app: ShellApp) -> None:
        self._app = app
        self.box = ShellBox(app.panel_styles, app.keymap)
        self._begun = b""
        self._is_busy = False
        self._sign = ""
        self._shown: list[UserMessage] = []

    def takes(self, text: str) -> bool:
        """Whether what was typed is a command for the shell."""
        return text.startswith("!")

    def look(self) -> str:
        """Show by the sign before the input where it would go; returns a hint about that."""
        text = self._app.composer.text
        sign = "!" if self.takes(text) else "❯"
        if sign != self._sign:
            self._sign = sign
            self._app.show_sign(sign)
        if not self.takes(text):
            return ""
        return _UNTOLD if text.startswith("!!") else _TOLD

    async def run(self, text: str) -> None:
        """Run the command that was typed, to its end."""
        app = self._app
        is_told = not text.startswith("!!")
        command = text[1 if is_told else 2 :].strip()
        conversation = app.controller.conversation
        if conversation is None or not command:
            app.hint("! COMMAND runs it in your shell; of !! COMMAND the model is not told.")
            return
        if self._is_busy:
            app.notify_user("Another command of yours runs; end it first.", tone="warning")
            app.give_back(text)
            return
        self._is_busy = True
        try:
            finished = await self._finish(command, text, conversation)
            if app.controller.conversation is conversation:
                await self._show_result(command, finished, conversation, is_told=is_told)
        except DirgeError as error:
            app.notify_user(
                "\n".join(part for part in (error.message, error.hint) if part), tone="error"
            )
            app.give_back(text)
        finally:
            self._is_busy = False

    def has_shown(self, event: LoopEvent) -> bool:
        """Whether this tells of a command whose output stands in the transcript already."""
        if not isinstance(event, MessageEnd) or event.message not in self._shown:
            return False
        self._shown = [message for message in self._shown if message != event.message]
        return True

    def focus_input(self) -> None:
        """Give the keys to the command that runs, if one is to be seen, else to the input."""
        if self._app.is_running:
            # At once: `focus` would leave what is typed meanwhile to whatever Textual chooses.
            self._app.set_focus(self.box if self.box.is_open else self._app.composer)

    async def _finish(
        self, command: str, typed: str, conversation: "Conversation"
    ) -> "CommandResult":
        if conversation.environment.shells is None:
            raise DirgeError("no commands are run here.")
        box = self.box
        self._begun = b""
        rows, columns = box.room(self._app.size)
        running = conversation.environment.shells.start_for_person(
            command,
            cwd=str(conversation.cwd),
            rows=rows,
            columns=columns,
            on_bytes=self._on_output,
        )
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

    async def _show_result(
        self,
        command: str,
        finished: "CommandResult",
        conversation: "Conversation",
        *,
        is_told: bool,
    ) -> None:
        """Show what it came to, now; a run may take it up later."""
        app = self._app
        message = format_shell_message(command, finished)
        app.show_message(message)
        if not is_told:
            return
        self._shown.append(message)
        try:
            await conversation.inserts.add(message)
        except DirgeError as error:
            self._shown.remove(message)
            app.notify_user(error.message, tone="warning")
        if message in conversation.inserts.waiting:
            app.hint("The model is told at the next boundary.")
