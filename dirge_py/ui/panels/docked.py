"""What all questions share that are docked above the input.

Who was typing when one appeared goes on typing: until a pause, keys are no answers. Cancelling
whoever waits for `answer` is no business of the panel: the asker takes it down.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.containers import Vertical
from textual.message import Message

from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.panels.sheet import Sheet

Answer = TypeVar("Answer")

GUARD_S = 0.3
"""How long nothing may be typed before a key counts as an answer."""

_LONGEST_GUARD = 5
"""How many times that long at most: a person may just be pressing `y` again and again."""

_OF_THE_PROGRAM = {("screen", "stop"), ("screen", "suspend"), ("screen", "redraw")}
"""What is no answer at any moment, and heard by the app even while a question is open."""

_LOOKING = {("screen", "toggle_all"), ("screen", "go_to_start"), ("screen", "go_to_end")}
"""What is no answer either: what the question is about may stand above it."""


class DockedPanel(Vertical, Generic[Answer], can_focus=True):
    """A question with the keyboard. `answer` is done once the person has decided."""

    DEFAULT_CSS = """
    DockedPanel {
        height: auto; background: $surface; border-top: solid $dirge-warning; padding: 0 1;
        & Input { display: none; height: 1; border: none; padding: 0; background: $surface; }
        & Input:focus { border: none; }
        &.writing Input { display: block; }
        &.flat { border-top: none; }
        & .menu { height: 1; overflow: hidden hidden; }
    }
    """
    BINDINGS: ClassVar = []
    SCOPE: ClassVar[Scope] = "dialog"

    @dataclass
    class Strayed(Message):
        """Typed or pasted for the input, while the question had the keyboard."""

        text: str

    @dataclass
    class Wants(Message):
        """A key asked for something that is done to the transcript; `action` as in the keymap."""

        action: str

    def __init__(self, *, ink: Ink, keymap: Keymap, guard_s: float) -> None:
        super().__init__(id="question")
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.wants_stop = False
        self.refit: Callable[[], object] = lambda: None
        """Set by the dock: the panel wants more or fewer rows now."""
        self._ink = ink
        self._keymap = keymap
        self._guard_s = guard_s
        self._opens_at = self._appeared_at = time.monotonic()
        self._is_first = True
        self.pressed = ""
        """The key that is being acted on, as the keymap names it."""

    def on_mount(self) -> None:
        self.focus()
        self._guard()

    # -- what each question is

    def fit(self, rows: int) -> int:
        """Take as much of `rows` as there is to show; returns how much that is."""
        raise NotImplementedError

    def act(self, action: str) -> None:
        """Do what a key asks for, by its name in the keymap."""
        raise NotImplementedError

    def set_ink(self, ink: Ink) -> None:
        """The theme has changed while the question waits."""
        self._ink = ink
        for sheet in self.query(Sheet):
            sheet.set_ink(ink)

    def repaint_menu(self) -> None:
        """Keys count from now on, or what they do has changed."""
        raise NotImplementedError

    def key_while_writing(self, event: events.Key) -> None:
        """A key that a line of text being written may not need itself."""

    @property
    def is_writing(self) -> bool:
        """Is a line of text being written?"""
        return False

    def settle(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    # -- keys

    @property
    def is_open(self) -> bool:
        """Do keys count as answers?"""
        return time.monotonic() >= self._opens_at

    def guard_again(self) -> None:
        """Another question has appeared: keys that were meant for the last one do not answer it."""
        self._appeared_at = time.monotonic()
        self._is_first = False
        self._guard()

    def _guard(self) -> None:
        """Wait for a pause in the typing; that the keys are answers is seen by the mark."""
        latest = self._appeared_at + self._guard_s * _LONGEST_GUARD
        self._opens_at = min(time.monotonic() + self._guard_s, latest)
        if not self.is_open:
            self.set_timer(self._opens_at - time.monotonic() + 0.01, self.repaint_menu)

    async def _on_key(self, event: events.Key) -> None:
        if self.is_writing:
            self.key_while_writing(event)
            return
        found = self._keymap.action(event.key, self.SCOPE, "screen")
        if found is not None and found in _OF_THE_PROGRAM:
            return
        event.stop()
        event.prevent_default()
        if found is not None and found in _LOOKING:
            self.post_message(self.Wants(found[1]))
            return
        action = found[1] if found else ""
        is_over = self.answer.done()
        if is_over or (not self.is_open and action != "deny_and_stop"):
            if not is_over:
                self._guard()
            # A key that was meant for the question before this one is meant for nobody.
            if (self._is_first or is_over) and event.is_printable and event.character:
                self.post_message(self.Strayed(event.character))
            return
        self.pressed = event.key
        self.act(action)
        self.repaint_menu()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        if not self.is_writing:
            self.post_message(self.Strayed(event.text))
