"""The question whether a tool call may run: everything it would do, word for word.

Nothing is cut: what does not fit is scrolled to, and the approving keys work only once the end was
in view. Keys pressed in the first moment are not answers; they were meant for the input.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar, Literal

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.clean import visible
from dirge_py.questions import PermissionAnswer, PermissionRequest
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.sheet import Sheet
from dirge_py.ui.transcript.diff import paint_diff
from dirge_py.ui.transcript.lines import Line, strip, wrap

GUARD_S = 0.3
"""How long after it appeared the dialog ignores keys."""

Option = Literal["once", "session", "deny"]


class PermissionDialog(Vertical, can_focus=True):
    """Asks about one call. `answer` is done once the person has decided."""

    DEFAULT_CSS = """
    PermissionDialog {
        height: auto; background: $surface; border-top: solid $dirge-warning; padding: 0 1;
        & Input { display: none; height: 1; border: none; padding: 0; background: $surface; }
        & Input:focus { border: none; }
        &.commenting Input { display: block; }
        & #options { height: 3; overflow: hidden hidden; }
    }
    """
    BINDINGS: ClassVar = []

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
        self._opens_at = time.monotonic() + guard_s
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

    def fit(self, rows: int) -> None:
        """Take as much of `rows` as there is to show."""
        width = self.app.size.width - 3
        menu = len(self._options) + 1
        self._is_flat = rows < menu + 3
        if self._is_flat:
            menu = len(self._flat_menu(width))
        self._menu.styles.height = menu
        self.styles.height = min(self._body.line_count(width) + menu + 1, rows)
        self._repaint_menu()

    # -- what it shows

    def _paint_body(self, width: int) -> Sequence[Strip]:
        request, ink = self._request, self._ink
        title: Line = [("Allow ", ink.text), (visible(request.tool_name), ink.tool)]
        title.append((f"?{self._place}", ink.text))
        strips = wrap(title, width)
        preview = request.preview
        if preview is not None and preview.kind == "diff":
            strips += wrap([(visible(preview.path), ink.strong + ink.text)], width)
            strips += paint_diff(visible(preview.text), width, ink)
        elif preview is not None:
            strips += self._paint_text(preview.text, width)
        for claim in request.claims:
            shown_already = preview is not None and preview.text.strip() == claim.resource.strip()
            if not shown_already:
                strips += self._paint_text(f"{claim.op} {claim.resource}", width)
            why = f"{claim.op}: {claim.effect} — {visible(claim.reason)}"
            strips += wrap([(why, ink.dim)], width)
        if request.cwd:
            strips += wrap([(f"in {visible(request.cwd)}", ink.dim)], width)
        return strips

    def _paint_text(self, text: str, width: int) -> list[Strip]:
        side = [("│ ", self._ink.warning)]
        return wrap([(visible(text), self._ink.text)], width, first=side, rest=side)

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        lines = [self._option_line(option) for option in self._options]
        hint = "" if self.may_approve else "read on to the end to approve: Space"
        if self._is_flat:
            return self._flat_menu(width)
        hint = hint or f"{self._keymap.name_of('dialog', 'comment')}: deny with a comment"
        return [strip(line) for line in lines] + [strip([("  " + hint, self._ink.dim)])]

    def _flat_menu(self, width: int) -> list[Strip]:
        """The options side by side, for a screen with few rows."""
        flat: Line = []
        for option in self._options:
            key = self._keymap.name_of("dialog", option)
            flat += [(f"{key}\u00a0{option}", self._style_of(option)), ("  ", self._ink.text)]
        return wrap(flat[:-1], width)

    def _style_of(self, option: Option) -> Style:
        if option != "deny" and not self.may_approve:
            return self._ink.dim
        return self._ink.accent + self._ink.strong if option == self._chosen else self._ink.text

    def _option_line(self, option: Option) -> Line:
        ink = self._ink
        key = self._keymap.name_of("dialog", option)
        words = {"once": "Allow once", "session": "Allow for this session", "deny": "Deny"}[option]
        style = self._style_of(option)
        mark = "▸ " if option == self._chosen else "  "
        line: Line = [(mark, ink.accent), (f"{key} {words}", style)]
        if option == "session":
            rules = ", ".join(visible(rule) for rule in self._request.grant)
            line.append((f": {rules}", style))
        return line

    def _repaint_menu(self) -> None:
        self._menu.repaint()

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        if self._comment.has_focus:
            self._key_in_comment(event)
            return
        event.stop()
        event.prevent_default()
        found = self._keymap.action(event.key, "dialog", "screen")
        if found is None or time.monotonic() < self._opens_at:
            return
        self._act(found[1])
        self._repaint_menu()

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
