"""A question that is answered with one line."""

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.sheet import Sheet
from dirge_py.ui.transcript.lines import clip, strip


class LineQuestion(Vertical):
    """Docked above the input while it waits for its answer."""

    DEFAULT_CSS = """
    LineQuestion {
        height: 2; padding: 0 1; background: $surface; display: none;
        & Sheet { height: 1; }
        & Input { height: 1; border: none; padding: 0; background: $surface; }
        & Input:focus { border: none; }
    }
    """
    BINDINGS: ClassVar = []

    def __init__(self, ink: Ink, keymap: Keymap) -> None:
        super().__init__(id="line-question")
        self._ink = ink
        self._keymap = keymap
        self._title = ""
        self._sheet = Sheet(self._paint, ink)
        self._input = Input(select_on_focus=False)
        self._input.cursor_blink = False
        self._answer: asyncio.Future[str | None] | None = None

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self._sheet.set_ink(ink)

    def compose(self) -> ComposeResult:
        yield self._sheet
        yield self._input

    def _paint(self, width: int) -> list[Strip]:
        return [strip([(clip(self._title, width), self._ink.heading)])]

    async def ask(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        """What was typed, or None if the person would rather not."""
        self._title = clean(title)
        self._input.password = hidden
        self._input.value = value
        self._input.cursor_position = len(value)
        self._answer = asyncio.get_running_loop().create_future()
        self.display = True
        self._sheet.repaint()
        self._input.focus()
        try:
            return await self._answer
        finally:
            self._input.value = ""
            self.display = False

    async def _on_key(self, event: events.Key) -> None:
        found = self._keymap.action(event.key, "list")
        if found is None or found[1] not in ("choose", "close"):
            return
        event.stop()
        event.prevent_default()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._input.value if found[1] == "choose" else None)
