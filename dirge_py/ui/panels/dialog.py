"""The base of all dialogs above the input, with its scrolling text and its line of key hints.

Keys come to `handle_input` straight from the app, and what is typed goes to the input in the same
step: a queue between them could put letters in another order. `AnswerGuard` decides which key is an
answer. Cancelling the task that waits for `answer` does not remove the panel: `DialogHost` does.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import chop, clip, strip

Role = Literal["text", "select", "use", "confirm", "act", "none"]
"""What a key would do at this question now.

text: nothing but write; select: highlight a choice; use: a blank that scrolls or ticks;
confirm: Enter; act: an arrow, Esc and the like, which no text contains; none: nothing at all.
"""

Meaning = Literal["type", "select", "use", "confirm", "act", "deselect", "nothing"]

PAUSE_S = 0.3
"""How long nothing may be typed before a key counts."""

FASTEST = 1 / 6
"""The part of the pause within which a second key comes from a paste, not from a person."""


@dataclass(frozen=True, slots=True)
class GuardedKey:
    """What a key means while a question is open."""

    meaning: Meaning
    text: str = ""
    """What was typed, in order, with the keys that had selected something."""
    undone: int = 0
    """How many keys with the role `use` are part of that text, and are taken back."""
    was_open: bool = True
    """The pause was over when the key came."""


class AnswerGuard:
    """Tells an answer to a question from text that was typed for the input.

    It sees every key that reaches a question, with the time at which it was pressed:

    * A key counts only after a pause in the typing (`pause_s`). Text that comes before is typing,
      and starts the pause again.
    * A printable key answers nothing by itself: the key of a choice selects it, Enter
      confirms.
    * Any other printable key is typing, and so is a second one that would select: the keys that had
      selected something become part of the text, and nothing stays selected.
    * Enter right behind another key, faster than a hand, comes from a paste and confirms nothing.
    """

    def __init__(self, *, pause_s: float, now: float) -> None:
        self._pause_s = pause_s
        self._last_at = now
        self.held = ""
        """Keys that selected or used something, and may still turn out to be text."""
        self._used = 0
        self.opens_at = now + pause_s
        """When keys count, unless another one comes before."""

    def close(self, now: float) -> None:
        """Wait for a pause from now on; what was selected is forgotten."""
        self._last_at = now
        self.held, self._used = "", 0
        self.opens_at = now + self._pause_s

    def is_open(self, now: float) -> bool:
        """Whether a key would count now."""
        return now >= self.opens_at

    def press(self, role: Role, text: str, now: float) -> GuardedKey:
        """Judge a key. `text` is what it would write, empty for keys that write nothing."""
        since_last_s = now - self._last_at
        self._last_at = now
        if not self.is_open(now):
            return self._typed(text, now, was_open=False)
        if self.held.isspace() and since_last_s >= self._pause_s:
            self.held, self._used = "", 0  # They scrolled or ticked, and that was all.
        if role == "text" or (role == "select" and self.held):
            return self._typed(text, now)
        if role in ("select", "use"):
            self.held += text
            self._used += role == "use"
            return GuardedKey(role)
        if role == "confirm" and since_last_s < self._pause_s * FASTEST:
            return self._typed("", now)
        meant: Meaning = "deselect" if role == "none" else role
        if role == "none" and not self.held:
            meant = "nothing"
        self.held, self._used = "", 0
        return GuardedKey(meant)

    def _typed(self, text: str, now: float, *, was_open: bool = True) -> GuardedKey:
        text, undone = self.held + text, self._used
        self.close(now)
        meaning: Meaning = "type" if text else "nothing"
        return GuardedKey(meaning, text, undone=undone, was_open=was_open)


KeyHint: TypeAlias = tuple[str, str]
"""A key and what it does, and the same in fewer words."""
_JOINT = " · "


def paint_key_hints(
    hints: Sequence[KeyHint], width: int, styles: Styles, *, most: int = 2, indent: str = ""
) -> list[Strip]:
    """The keys in at most `most` lines, in short where they don't fit; none is cut.

    Where even the short ones don't fit the last ones, which matter least, are left out.
    """
    width = max(1, width - len(indent))

    def fits(rows: Sequence[str]) -> bool:
        return len(rows) <= most and all(cell_len(row) <= width for row in rows)

    rows, count = _packed([long for long, _ in hints], width), len(hints)
    while not fits(rows) and count:
        rows = _packed([short for _, short in hints[:count]], width)
        count -= 1
    shown = rows if fits(rows) else [chop(rows[0], width)[0]]
    return [strip([(indent + row, styles.dim)]) for row in shown]


def fit_hints(text: str, width: int) -> str:
    """As many of the keys in `text` as fit into a line; a text of another kind is clipped."""
    rows = _packed(text.split(_JOINT), width)
    return rows[0] if cell_len(rows[0]) <= width else clip(text, width)


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """As many on a line as fit."""
    rows: list[str] = []
    for part in parts:
        if rows and cell_len(rows[-1] + _JOINT + part) <= width:
            rows[-1] += _JOINT + part
        else:
            rows.append(part)
    return rows


Answer = TypeVar("Answer")
_OF_THE_PROGRAM = {("screen", "stop"), ("screen", "suspend"), ("screen", "redraw")}
"""Keys that never answer: the app handles them even while a question is open."""
_SCROLLING = {("screen", "toggle_all"), ("screen", "go_to_start"), ("screen", "go_to_end")}
"""Keys that scroll the transcript: what the question is about may be shown there."""
_OF_TEXT: dict[Role, Role] = {"act": "use", "confirm": "text", "none": "text"}
"""The role of a printable key instead: it may be part of a sentence."""
_OF_OTHERS: dict[Role, Role] = {"use": "act", "text": "none"}


class DialogOptions(TypedDict):
    """What every dialog is made with."""

    styles: Styles
    keymap: Keymap
    guard_s: float
    """How long nothing may be typed before a key counts."""
    clock: Callable[[], float]
    """Seconds; `time.monotonic` except in tests."""


class Dialog(Vertical, Generic[Answer], can_focus=True):
    """A question above the input. `answer` is done once the person has decided."""

    DEFAULT_CSS = """
    Dialog {
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
    class KeyPassedThrough(Message):
        """A key asked for something that is done to the transcript; `action` as in the keymap."""

        action: str

    def __init__(self, *, placeholder: str = "", **options: Unpack[DialogOptions]) -> None:
        super().__init__(id="question")
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.wants_stop = False
        self.refit: Callable[[], object] = lambda: None
        """Set by `DialogHost`: the panel wants more or fewer rows now."""
        self.give_to_input: Callable[[str], object] = lambda text: None
        """Set by `DialogHost`: put this text into the input, which has the keyboard from now on."""
        self.takes_keyboard = True
        """False: the person is writing in the input when the question appears, and may continue."""
        self._styles, self._keymap = options["styles"], options["keymap"]
        self._clock = options["clock"]
        self._guard = AnswerGuard(pause_s=options["guard_s"], now=self._clock())
        self._body = ScrollingLines(self._paint_body, self._styles, on_end=self._on_read)
        self._body.add_class("body")
        self._menu = ScrollingLines(self._paint_menu, self._styles)
        self._menu.add_class("menu")
        self._input = Input(placeholder=placeholder, select_on_focus=False)
        """For a line of text; a dialog that has one composes it."""
        self._input.cursor_blink = False
        self.has_keyboard = False
        """False while the input has it."""
        self.pressed = ""
        """The key that is being acted on, as the keymap names it."""

    def compose(self) -> ComposeResult:
        yield self._body
        yield self._menu

    def on_mount(self) -> None:
        if self.takes_keyboard:
            self.focus_dialog()

    def focus_dialog(self) -> None:
        """Take the keyboard; keys count after a pause."""
        self.has_keyboard = True
        self.screen.set_focus(self)
        self.guard_again()

    @property
    def may_approve(self) -> bool:
        """Whether all of the question was in view."""
        return self._body.seen_end

    def _on_read(self) -> None:
        """Handle that the end of the question came into view."""
        self.repaint_menu()

    # -- what each question is

    def _paint_body(self, width: int) -> Sequence[Strip]:
        """Paint the question, which scrolls."""
        raise NotImplementedError

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        """Paint the answers and the keys, all of which are seen."""
        raise NotImplementedError

    @property
    def scope(self) -> Scope:
        """The scope of the keymap that has the keys of this question now."""
        return self.SCOPE

    def fit(self, rows: int) -> int:
        """Use as many of `rows` as there is to show; returns how many that are."""
        width = self.app.size.width - 3
        menu = len(self._paint_menu(width))
        is_flat = rows < menu + 5
        self.set_class(is_flat, "flat")
        self._menu.styles.height = menu
        others = menu + (not is_flat) + self.has_class("writing")
        height = min(self._body_height(width, rows, others) + others, rows)
        self.styles.height = height
        self._body.repaint()
        self._menu.repaint()
        return height

    def _body_height(self, width: int, rows: int, others: int) -> int:
        """How many lines the question has; `others` of the `rows` are used for the rest."""
        return len(self._paint_body(width))

    def role_of(self, action: str, *, is_text: bool) -> Role:
        """What a key would do that the keymap has for `action`; `is_text`: it is printable."""
        body = self._body
        match action:
            case "deny":
                return "select" if is_text else "act"
            case "page_down" | "line_down" if is_text:
                return "use" if body.scroll_offset.y < body.max_scroll_y else "none"
            case "choose":
                return "confirm"
        return "act"

    def select(self, action: str) -> None:
        """Highlight what Enter is to do."""
        raise NotImplementedError

    def deselect(self, undone: int = 0) -> None:
        """Highlight nothing; the last `undone` keys with the role `use` are taken back."""
        raise NotImplementedError

    def confirm(self) -> None:
        """Do what is selected, if anything is."""
        raise NotImplementedError

    def act(self, action: str) -> None:
        """Do what a key asks for, by its name in the keymap."""
        raise NotImplementedError

    def move_choice(self, step: int) -> None:
        """Highlight the next answer, or with -1 the one before."""

    def scroll_body(self, action: str) -> None:
        """Scroll the question, or move the choice where there is nothing left to read."""
        if action not in ("line_up", "line_down"):
            self._body.scroll_page(action)
            return
        step = -1 if action == "line_up" else 1
        if self._body.max_scroll_y > 0 and not self.may_approve:
            self._body.move(step)
        else:
            self.move_choice(step)

    def use_styles(self, styles: Styles) -> None:
        """Apply another theme."""
        self._styles = styles
        for lines in self.query(ScrollingLines):
            lines.use_styles(styles)

    def repaint_menu(self) -> None:
        """Paint the menu again: keys count from now on, or their meaning has changed."""
        self._menu.repaint()

    def write(self, outcome: GuardedKey) -> None:
        """Put text that was typed into the input."""
        self._give(outcome.text)

    def key_while_writing(self, event: events.Key) -> None:
        """Handle a key while a line of text is written, unless it belongs to the text."""

    @property
    def is_writing(self) -> bool:
        """Whether a line of text is being written."""
        return self.app.focused is self._input

    def start_writing(self) -> None:
        self.add_class("writing")
        # `focus` would come after keys that are waiting already.
        self.screen.set_focus(self._input)
        self.refit()

    def stop_writing(self) -> None:
        self.remove_class("writing")
        self.screen.set_focus(self)
        self.refit()

    def settle(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    # -- keys

    @property
    def is_open(self) -> bool:
        """Whether keys count as answers."""
        return self.has_keyboard and self._guard.is_open(self._clock())

    @property
    def hints_of_typing(self) -> list[KeyHint]:
        """Hints about where typed text goes."""
        if self.has_keyboard:
            return [("text you type goes to the input", "text: to the input")]
        key = self._keymap.name_of("screen", "interrupt")
        return [(f"you are writing in the input; {key}: answer here", f"{key}: answer here")]

    def guard_again(self) -> None:
        """Let keys count only after a pause: they may be meant for the last question."""
        self._guard.close(self._clock())
        self._repaint_when_open()
        self.repaint_menu()

    def on_focus(self) -> None:
        self.has_keyboard = True
        self.guard_again()

    def on_blur(self) -> None:
        if not self.app.screen_stack or self.is_writing:
            return
        # None: the terminal has lost the focus, and gives it back to us.
        self.has_keyboard = self.has_keyboard and self.app.focused in (None, self)
        self.deselect()
        self.guard_again()

    def _repaint_when_open(self) -> None:
        """Paint the menu again when keys begin to count, which it shows."""
        wait_s = self._guard.opens_at - self._clock()
        if wait_s > 0 and self.is_running:
            self.set_timer(wait_s + 0.01, self.repaint_menu)

    def handle_input(self, event: events.Key | events.Paste) -> bool:
        """Handle a key or a paste while the panel has the keyboard; False: it is for others."""
        if isinstance(event, events.Paste):
            held = self._guard.held
            self.deselect()
            self._give(held + event.text)
            return True
        binding = self._keymap.action(event.key, self.scope, "screen")
        if binding is not None and binding in _OF_THE_PROGRAM:
            return False
        if binding is not None and binding in _SCROLLING:
            self.post_message(self.KeyPassedThrough(binding[1]))
            return True
        text = event.character if event.is_printable and event.character else ""
        if self.answer.done():
            # The dialog is closing: further text belongs to the input.
            if text:
                self._give(text)
            return True
        self._press(event, binding[1] if binding else "", text)
        return True

    def _press(self, event: events.Key, action: str, text: str) -> None:
        self.pressed = event.key
        if action == "deny_and_stop":
            self.act(action)
            return
        role = self.role_of(action, is_text=bool(text)) if action else "none"
        role = (_OF_TEXT if text else _OF_OTHERS).get(role, role)
        # When the key came, not when it is handled: the screen may have been busy in between.
        now = event.time if self._clock is time.monotonic else self._clock()
        outcome = self._guard.press(role, text, now)
        match outcome.meaning:
            case "type":
                self.deselect(outcome.undone)
                self.write(outcome)
            case "deselect":
                self.deselect()
            case "select":
                self.select(action)
            case "confirm":
                self.confirm()
            case "use" | "act":
                self.act(action)
        if not self._guard.is_open(self._clock()):
            self._repaint_when_open()
        self.repaint_menu()

    def _give(self, text: str) -> None:
        self.has_keyboard = False
        self._guard.close(self._clock())
        self.give_to_input(text)

    async def _on_key(self, event: events.Key) -> None:
        if self.is_writing:
            self.key_while_writing(event)
        elif self.handle_input(event):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        if not self.is_writing:
            self.handle_input(event)


Paint = Callable[[int], Sequence[Strip]]
"""Lines for a width."""


class ScrollingLines(ScrollView, can_focus=False):
    """Shows what `paint` returns for its width; calls `on_end` when its end is first in view."""

    DEFAULT_CSS = """
    ScrollingLines {
        height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    """

    def __init__(
        self, paint: Paint, styles: Styles, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._on_end = on_end
        self._paint = paint
        self._styles = styles
        self._strips: Sequence[Strip] = ()
        self._unsettled = 0
        self.seen_end = False

    def on_resize(self, event: events.Resize) -> None:
        self.repaint()
        if len(self._strips) <= self.size.height:
            # It came for the height of a moment ago, and would stay until the text changes.
            self.show_vertical_scrollbar = False

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self.repaint()

    def repaint(self) -> None:
        """Ask `paint` again."""
        # One column is left for the scrollbar, so that no text wraps again when it appears.
        width = max(1, self.size.width - 1)
        self._strips = self._paint(width)
        self.virtual_size = Size(width, len(self._strips))
        self.refresh()
        self._unsettled += 1
        self.call_after_refresh(self._settle)

    def turn(self, *, was_read: bool = False) -> None:
        """Show other lines, from their beginning."""
        self.seen_end = was_read
        self.repaint()
        self.scroll_to(y=0, animate=False, immediate=True)

    def show(self, first: int, last: int) -> None:
        """Bring these lines into view, the first of them above all."""
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        if last >= top + height:
            top = last - height + 1
        self.scroll_to(y=max(0, min(top, first)), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.note_end()

    def _settle(self) -> None:
        self._unsettled -= 1
        self.note_end()

    def note_end(self) -> None:
        if self._unsettled:
            return  # The height for these lines is not known yet.
        height = self.size.height
        is_end = height > 0 and self.scroll_offset.y + height >= len(self._strips)
        if is_end and not self.seen_end:
            self.seen_end = True
            self._on_end()

    def move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def scroll_page(self, action: str) -> None:
        """Do what the keymap calls `page_up`, `page_down` or `end`."""
        page = max(1, self.size.height - 1)
        self.move({"page_up": -page, "page_down": page}.get(action, 1_000_000))

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.size.width
        if at >= len(self._strips):
            return Strip.blank(width, self._styles.text)
        return self._strips[at].crop_extend(0, width, self._styles.text)
