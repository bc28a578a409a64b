"""The question whether a tool call may run: everything it would do, word for word.

Nothing is cut: what does not fit is scrolled to, and the approving keys work only once the end was
in view. Who was typing when it appeared goes on typing: until a pause, keys are no answers.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.clean import visible
from dirge_py.questions import PermissionAnswer, PermissionRequest
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.asked import paint_request
from dirge_py.ui.panels.sheet import Sheet
from dirge_py.ui.transcript.lines import Line, strip, wrap

GUARD_S = 0.3
"""How long nothing may be typed before a key counts as an answer."""

_LONGEST_GUARD = 5
"""How many times that long at most: a person may just be pressing `y` again and again."""

Option = Literal["once", "session", "deny"]

_WORDS: dict[Option, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "deny": "Deny",
}


class PermissionDialog(Vertical, can_focus=True):
    """Asks about one call. `answer` is done once the person has decided."""

    DEFAULT_CSS = """
    PermissionDialog {
        height: auto; background: $surface; border-top: solid $dirge-warning; padding: 0 1;
        & Input { display: none; height: 1; border: none; padding: 0; background: $surface; }
        & Input:focus { border: none; }
        &.commenting Input { display: block; }
        &.flat { border-top: none; }
        & #options { height: 3; overflow: hidden hidden; }
    }
    """
    BINDINGS: ClassVar = []

    @dataclass
    class Strayed(Message):
        """Typed or pasted for the input, while the question had the keyboard."""

        text: str

    def __init__(
        self, request: PermissionRequest, place: str, *, ink: Ink, keymap: Keymap, guard_s: float
    ) -> None:
        super().__init__(id="permission")
        self.answer: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()
        self.wants_stop = False
        self._request = request
        self._place = place
        self._ink = ink
        self._keymap = keymap
        self._guard_s = guard_s
        self._opens_at = self._appeared_at = time.monotonic()
        self._options: list[Option] = ["once", "session", "deny"]
        if not request.grant:
            self._options.remove("session")
        self._chosen: Option = "once"
        self._is_flat = False
        self._body = Sheet(self._paint_body, ink, on_end=self._repaint_menu)
        self._menu = Sheet(self._paint_menu, ink)
        self._menu.id = "options"
        self._comment = Input(
            placeholder="why not, for the model; Enter denies", select_on_focus=False
        )

    @property
    def may_approve(self) -> bool:
        """Was everything in view?"""
        return self._body.seen_end

    def compose(self) -> ComposeResult:
        yield self._body
        yield self._menu
        yield self._comment

    def on_mount(self) -> None:
        self._comment.cursor_blink = False
        self.focus()
        self._guard()

    def fit(self, rows: int) -> int:
        """Take as much of `rows` as there is to show; returns how much that is."""
        width = self.app.size.width - 3
        self._is_flat = rows < len(self._options) + 5
        self.set_class(self._is_flat, "flat")
        menu = len(self._paint_menu(width))
        border = 0 if self._is_flat else 1
        taken = min(len(self._paint_body(width)) + menu + border, rows)
        self._menu.styles.height = menu
        self.styles.height = taken
        self._body.repaint()
        self._repaint_menu()
        return taken

    # -- what it shows

    def _paint_body(self, width: int) -> Sequence[Strip]:
        strips = paint_request(self._request, self._place, width, self._ink)
        if self._request.grant and not self._has_room_for_grant(width):
            strips += wrap([(f"For this session: {self._grant}", self._ink.dim)], width)
        return strips

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        hint = "" if self.may_approve else "read on to the end to approve: Space"
        if self._is_flat:
            return self._flat_menu(width)
        hint = hint or f"{self._keymap.name_of('dialog', 'comment')}: deny with a comment"
        lines = [self._option_line(option, width) for option in self._options]
        return [strip(line) for line in (*lines, [("  " + hint, self._ink.dim)])]

    def _flat_menu(self, width: int) -> list[Strip]:
        """The options side by side, for a screen with few rows."""
        flat: Line = []
        for option in self._options:
            key = self._keymap.name_of("dialog", option)
            flat += [(f"{key}\u00a0{option}", self._style_of(option)), ("  ", self._ink.text)]
        return wrap(flat[:-1], width)

    def _style_of(self, option: Option) -> Style:
        if not self._is_open or (option != "deny" and not self.may_approve):
            return self._ink.dim
        return self._ink.accent + self._ink.strong if option == self._chosen else self._ink.text

    def _option_line(self, option: Option, width: int) -> Line:
        mark = "▸ " if option == self._chosen and self._is_open else "  "
        key = self._keymap.name_of("dialog", option)
        words = f"{key} {_WORDS[option]}"
        if option == "session" and self._has_room_for_grant(width):
            words += f": {self._grant}"
        return [(mark, self._ink.accent), (words, self._style_of(option))]

    @property
    def _grant(self) -> str:
        return ", ".join(visible(rule) for rule in self._request.grant)

    def _has_room_for_grant(self, width: int) -> bool:
        """What "for this session" would store is never cut: it goes above where it is too long."""
        option = f"  x {_WORDS['session']}: {self._grant}"
        return not self._is_flat and cell_len(option) <= width

    def _repaint_menu(self) -> None:
        self._menu.repaint()

    # -- keys

    @property
    def _is_open(self) -> bool:
        return time.monotonic() >= self._opens_at

    def _guard(self) -> None:
        """Wait for a pause in the typing; that the keys are answers is seen by the mark."""
        latest = self._appeared_at + self._guard_s * _LONGEST_GUARD
        self._opens_at = min(time.monotonic() + self._guard_s, latest)
        if not self._is_open:
            self.set_timer(self._opens_at - time.monotonic() + 0.01, self._repaint_menu)

    async def _on_key(self, event: events.Key) -> None:
        if self._comment.has_focus:
            self._key_in_comment(event)
            return
        event.stop()
        event.prevent_default()
        found = self._keymap.action(event.key, "dialog", "screen")
        action = found[1] if found else ""
        if not self._is_open and action != "deny_and_stop":
            self._guard()
            if event.is_printable and event.character:
                self.post_message(self.Strayed(event.character))
            return
        self._act(action)
        self._repaint_menu()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        if not self._comment.has_focus:
            self.post_message(self.Strayed(event.text))

    def _key_in_comment(self, event: events.Key) -> None:
        found = self._keymap.action(event.key, "dialog")
        if found is None or found[1] not in ("choose", "deny", "comment", "deny_and_stop"):
            return
        if event.is_printable:
            return
        event.stop()
        event.prevent_default()
        if found[1] in ("choose", "deny_and_stop"):
            self.wants_stop = found[1] == "deny_and_stop"
            self._deny(self._comment.value)
        else:
            self.remove_class("commenting")
            self.focus()

    def _act(self, action: str) -> None:
        match action:
            case "once" | "session" | "deny":
                self._take(action)
            case "choose":
                self._take(self._chosen)
            case "deny_and_stop":
                self.wants_stop = True
                self._deny()
            case "previous" | "next":
                at = self._options.index(self._chosen) + (1 if action == "next" else -1)
                self._chosen = self._options[at % len(self._options)]
            case "comment":
                self.add_class("commenting")
                self._comment.focus()
            case "line_up" | "line_down":
                self._step(-1 if action == "line_up" else 1)
            case "page_up" | "page_down":
                page = max(1, self._body.size.height - 1)
                self._body.move(-page if action == "page_up" else page)
            case "end":
                self._body.move(1_000_000)

    def _step(self, step: int) -> None:
        """Up and down scroll while there is something to scroll, else they move the choice."""
        if self._body.max_scroll_y > 0 and not self.may_approve:
            self._body.move(step)
        else:
            self._act("next" if step > 0 else "previous")

    def _take(self, option: Option) -> None:
        if option == "deny":
            self._deny()
        elif option in self._options and self.may_approve:
            remember: Literal["once", "session"] = option
            self._settle(PermissionAnswer(effect="allow", remember=remember))

    def _deny(self, comment: str = "") -> None:
        self._settle(PermissionAnswer(effect="deny", comment=comment.strip()))

    def _settle(self, answer: PermissionAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
