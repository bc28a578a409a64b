"""`! command` and `!! command`: the person's own commands, in a terminal above the input."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.geometry import Size
from textual.timer import Timer
from textual.widgets import Static

from dirge_py.frontend.controller import ChatController
from dirge_py.frontend.event_text import format_shell_message
from dirge_py.lib.lazy import late
from dirge_py.lib.text import clean
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import LoopEvent, MessageEnd
from dirge_py.types.messages import UserMessage
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.panels.dialog import fit_hints, hint_line
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.pty import PtyCommand
    from dirge_py.processes.running_command import CommandResult
    from dirge_py.ui.panels.emulator import Emulator
else:
    Emulator = late("dirge_py.ui.panels.emulator", "Emulator")


ROWS = 12
"""Rows of its terminal on a screen with enough rows."""
_ROWS_FOR_OTHERS = 8
_LEAST_ROWS = 3
_LEAST_COLUMNS = 10
_DRAW_S = 1 / 30
_WORK_S = 0.006
"""Longest time of one drawing, so that the screen stays responsive."""


class ShellBox(LinesWidget, can_focus=True):
    """A terminal for a running command; all keys but those of the scope `shell` go to it."""

    DEFAULT_CSS = "ShellBox { height: auto; padding: 0 1; background: $surface; display: none; }"
    BINDINGS: ClassVar = []

    def __init__(self, styles: Styles, keymap: Keymap) -> None:
        super().__init__(styles, "shell")
        self._keymap = keymap
        self._command: PtyCommand | None = None
        self._emulator: Emulator | None = None
        self._title = ""
        self._back = 0
        self._drawing: Timer | None = None

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def terminal_size(self, screen: Size) -> tuple[int, int]:
        """Return the rows and columns of the terminal on a screen of this size."""
        rows = max(_LEAST_ROWS, min(ROWS, screen.height - _ROWS_FOR_OTHERS))
        return rows, max(_LEAST_COLUMNS, screen.width - 2)

    def begin(self, command: "PtyCommand", title: str) -> None:
        """Take the output of a command, hidden until `open`."""
        self._command, self._title, self._back = command, clean(title), 0
        rows, columns = self.terminal_size(self.app.size)
        self._emulator = Emulator(rows=rows, columns=columns, answer=command.send_keys)

    def open(self) -> None:
        self.display = True
        self.refresh(layout=True)

    def feed(self, chunk: bytes) -> None:
        if self._emulator is not None:
            self._emulator.feed(chunk)
            if self._drawing is None:
                self._drawing = self.set_timer(_DRAW_S, self._draw)

    def close(self) -> None:
        self._command = self._emulator = None
        self.display = False

    def _draw(self) -> None:
        self._drawing = None
        if self._emulator is not None and self._emulator.work(_WORK_S):
            self._drawing = self.set_timer(_DRAW_S, self._draw)
        self.refresh()

    def fit(self, screen: Size) -> None:
        """Resize the terminal to fit a screen of this size."""
        if self._emulator is not None and self._command is not None:
            rows, columns = self.terminal_size(screen)
            self._emulator.resize(rows=rows, columns=columns)
            self._command.resize(rows=rows, columns=columns)
            self.refresh(layout=True)

    async def _on_key(self, event: events.Key) -> None:
        event.stop().prevent_default()
        if self._command is None or self._emulator is None:
            return
        self._look_back(0)
        if self._keymap.action(event.key, self._scope) is not None:
            self._command.stop()
        else:
            application = self._emulator.has_application_keys
            self._command.send_keys(bytes_of(event, application=application))

    @property
    def _scope(self) -> Scope:
        is_full = self._emulator is not None and self._emulator.has_own_screen
        return "fullscreen" if is_full else "shell"

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop().prevent_default()
        if self._command is not None and self._emulator is not None:
            self._command.send_keys(paste_of(event.text, brackets=self._emulator.brackets_pastes))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._look_back(self._back + 3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._look_back(self._back - 3)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _look_back(self, lines: int) -> None:
        most = self._emulator.scrolled if self._emulator is not None else 0
        self._back = max(0, min(lines, most))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._emulator.rows + 1 if self._emulator is not None else 0

    def line_at(self, y: int) -> Line:
        emulator, styles, width = self._emulator, self._styles, self.size.width
        if emulator is None or y > emulator.rows:
            return []
        if y:
            return emulator.line(y - 1, styles.text, back=self._back, shows_cursor=self.has_focus)
        hint = "click to type into it"
        if self.has_focus:
            hint = f"{self._keymap.name_of(self._scope, 'end_command')} ends it"
        title = clip(self._title, max(8, width - len(hint) - 4))
        return [
            (title, styles.accent),
            (" · ", styles.dim),
            *hint_line(fit_hints(hint, width), styles),
        ]


_MOVING = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_NUMBERED = {"insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f11": 23, "f12": 24}
_NUMBERED |= {f"f{number}": number + 11 for number in range(6, 11)}
_OF_F_KEYS = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_PLAIN = {
    "enter": "\r", "shift+enter": "\r", "tab": "\t", "shift+tab": "\x1b[Z", "space": " ",
    "backspace": "\x7f", "ctrl+h": "\x08", "escape": "\x1b", "ctrl+space": "\0", "ctrl+@": "\0",
    "ctrl+backslash": "\x1c", "ctrl+right_square_bracket": "\x1d",
    "ctrl+circumflex_accent": "\x1e", "ctrl+underscore": "\x1f",
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def bytes_of(event: events.Key, *, application: bool = False) -> bytes:
    """Return the bytes of a key; b"" for an unknown one. `application`: DECCKM is set."""
    if event.is_printable and event.character:
        return event.character.encode("utf-8", "replace")
    return _bytes_of(event.key, application=application)


def _bytes_of(key: str, *, application: bool) -> bytes:
    if key in _PLAIN:
        return _PLAIN[key].encode()
    *held, last = key.split("+")
    number = 1 + sum(_MODIFIERS.get(name, 0) for name in held)
    if last in _MOVING:
        lead = "\x1bO" if application and number == 1 else "\x1b["
        return f"{lead}{f'1;{number}' if number > 1 else ''}{_MOVING[last]}".encode()
    if last in _OF_F_KEYS:
        lead = f"\x1b[1;{number}" if number > 1 else "\x1bO"
        return f"{lead}{_OF_F_KEYS[last]}".encode()
    if last in _NUMBERED:
        return f"\x1b[{_NUMBERED[last]}{f';{number}' if number > 1 else ''}~".encode()
    if held and held[0] == "alt":
        rest = _bytes_of("+".join([*held[1:], last]), application=application)
        return b"\x1b" + rest if rest else b""
    if held == ["ctrl"] and len(last) == 1 and "a" <= last <= "z":
        return bytes([ord(last) - 96])
    return last.encode() if not held and len(last) == 1 else b""


def paste_of(text: str, *, brackets: bool) -> bytes:
    """Return the bytes of a paste; no text in it can end the brackets early."""
    typed = text.replace("\r\n", "\n").replace("\n", "\r")
    if not brackets:
        return typed.encode("utf-8", "replace")
    return b"\x1b[200~" + typed.replace("\x1b[201~", "").encode("utf-8", "replace") + b"\x1b[201~"


SHOWN_AFTER_S = 0.12
"""Seconds that a command runs before its box appears."""

_SIGN = "❯"


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
        return f"runs in your shell; the model {'does not see' if text[1:2] == '!' else 'sees'} it"

    async def run(self, text: str) -> None:
        """Run a typed command to its end."""
        is_for_model = not text.startswith("!!")
        command = text[1 if is_for_model else 2 :].strip()
        conversation = self._controller.conversation
        if conversation is None or not command:
            self._hint("! COMMAND runs in your shell; !! COMMAND hides it from the model.")
            return
        if self._is_busy:
            self._feed.notify(
                "Another shell command of yours is running. End it first.", tone="warning"
            )
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
            raise DirgeError("Commands cannot run in this conversation.")
        box = self.box
        rows, columns = box.terminal_size(box.app.size)
        start, cwd = conversation.environment.shells.start_for_person, str(conversation.cwd)
        running = start(command, cwd=cwd, rows=rows, columns=columns, on_bytes=box.feed)
        try:
            box.begin(running, typed)
            await asyncio.wait({running.finished}, timeout=SHOWN_AFTER_S)
            if not running.finished.done():
                box.open()
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

    async def _give_to_model(self, message: UserMessage, conversation: "Conversation") -> None:
        self._shown.append(message)
        try:
            await conversation.inserts.add(message)
        except DirgeError as error:
            self._shown.remove(message)
            self._feed.notify(error.message, tone="warning")
        if message in conversation.inserts.waiting:
            self._hint("The model sees it at the next tool boundary.")
