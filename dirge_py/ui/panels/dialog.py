"""The base of all dialogs above the input, with its scrolling text and its key hints.

The app calls `handle_input` for each key, and typed text goes to the input in the same step, so
that letters stay in order.
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
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.lazy import late_pattern
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.terminal.app_base import ScreenAction
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import HINT_JOINT, Line, chop, clip, pack_hints, strip

Role = Literal["text", "select", "use", "confirm", "act", "none"]
"""What a key would do at this question now.

text: only write; select: highlight a choice; use: scroll or tick, for a blank; confirm: Enter;
act: an arrow, Esc and other keys that are no text; none: nothing.
"""

Meaning = Literal["type", "select", "use", "confirm", "act", "deselect", "nothing"]

PAUSE_S = 0.3
"""How long the person must pause typing before a key counts."""

FASTEST = 1 / 6
"""The part of the pause within which a second key belongs to a paste."""


@dataclass(frozen=True, slots=True)
class GuardedKey:
    """The meaning of a key while a question is open."""

    meaning: Meaning
    text: str = ""
    """The typed text, with earlier keys that had selected something."""
    undone: int = 0
    """How many keys with the role `use` are part of the text and have to be undone."""
    was_open: bool = True
    """Keys counted when the key was pressed."""


class AnswerGuard:
    """Tells answers to a question from text for the input, by the keys and their times.

    * A key counts only after a pause in the typing (`pause_s`). An earlier key is text, and starts
      the pause again.
    * A printable key alone answers nothing: the key of a choice selects it, and Enter confirms.
    * Any other printable key is text, and so is a second key of a choice. Keys that had selected
      something become part of the text, and nothing stays selected.
    * Enter right after another key belongs to a paste and confirms nothing.
    """

    def __init__(self, *, pause_s: float, now: float) -> None:
        self._pause_s = pause_s
        self.close(now)

    def close(self, now: float) -> None:
        """Wait for a pause from now on, and forget what was selected."""
        self._last_at = now
        self._used = 0
        self.held = ""
        """Keys that selected or used something; further keys may turn them into text."""
        self.opens_at = now + self._pause_s
        """When keys begin to count if none is pressed before."""

    def is_open(self, now: float) -> bool:
        """Whether keys count now."""
        return now >= self.opens_at

    def is_paste(self, since_last_s: float) -> bool:
        """Whether a key so soon after another one belongs to a paste."""
        return since_last_s < self._pause_s * FASTEST

    def press(self, role: Role, text: str, now: float) -> GuardedKey:
        """Return the meaning of a key; `text` is what it would write, if anything."""
        since_last_s = now - self._last_at
        self._last_at = now
        if not self.is_open(now):
            return self._typed(text, now, was_open=False)
        if self.held.isspace() and since_last_s >= self._pause_s:
            self.held, self._used = "", 0  # Those blanks were no text.
        if role == "text" or (role == "select" and self.held):
            return self._typed(text, now)
        if role in ("select", "use"):
            self.held += text
            self._used += role == "use"
            return GuardedKey(role)
        if role == "confirm" and self.is_paste(since_last_s):
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
"""What a key does, in more and in fewer words."""
_KEY_OF_HINT = late_pattern(r"(\w+, then )(\S+)|()(\S+?(?: or \S+?)?)(?=: | to )")
"""The key in hints such as `Tab: complete`, `Space or y/n: accept` and `Esc to interrupt`."""


def paint_key_hints(
    hints: Sequence[KeyHint], width: int, styles: Styles, *, most: int = 2, indent: str = ""
) -> list[Strip]:
    """Paint the hints in at most `most` lines: the long or short ones, or as many as fit."""
    width = max(1, width - len(indent))

    def fits(rows: Sequence[str]) -> bool:
        return len(rows) <= most and all(cell_len(row) <= width for row in rows)

    rows, count = pack_hints([long for long, _ in hints], width), len(hints)
    while not fits(rows) and count:
        rows = pack_hints([short for _, short in hints[:count]], width)
        count -= 1
    shown = rows if fits(rows) else [chop(rows[0], width)[0]]
    return [strip([(indent, styles.dim), *hint_line(row, styles)]) for row in shown]


def hint_line(text: str, styles: Styles) -> Line:
    """Return hints that ` · ` separates as a line with bold keys."""
    line: Line = []
    for hint in text.split(HINT_JOINT):
        line += [(HINT_JOINT, styles.dim)] if line else []
        if match := _KEY_OF_HINT.match(hint):
            line.append((match[1] or "", styles.dim))
            line.append((match[2] or match[4], styles.text + styles.strong))
        line.append((hint[match.end() :] if match else hint, styles.dim))
    return line


def fit_hints(text: str, width: int) -> str:
    """Return as many hints of `text` as fit into a line; another text is clipped."""
    rows = pack_hints(text.split(HINT_JOINT), width)
    return rows[0] if cell_len(rows[0]) <= width else clip(text, width)


_LEAST_HINT = 20
"""Columns below which the hint about selecting is shorter."""


def select_hint(enter: str, width: int, *, is_chosen: bool) -> KeyHint:
    """Return what to do for an answer; `enter` is the key that confirms it."""
    verb = "select" if width >= _LEAST_HINT else "pick"
    words = f"{enter}: answer" if is_chosen else f"{verb}, then {enter}"
    return (words, words)


def has_air(needed: int, rows: int) -> bool:
    """Whether a question of `needed` rows gets blank lines, where it may take `rows`."""
    return needed + 2 <= rows * 2 // 3


Answer = TypeVar("Answer")
_OF_THE_PROGRAM = {("screen", "stop"), ("screen", "suspend"), ("screen", "redraw")}
"""Keys that the app handles even while a question is open."""
_SCROLLING = {
    ("screen", "toggle_all"), ("screen", "find"), ("screen", "go_to_start"),
    ("screen", "go_to_end"),
}  # fmt: skip
"""Keys that work on the transcript while a question is open."""
_OF_TEXT: dict[Role, Role] = {"act": "use", "confirm": "text", "none": "text"}
"""Replaced roles of printable keys, which may be text."""
_OF_OTHERS: dict[Role, Role] = {"use": "act", "text": "none"}
"""Replaced roles of other keys."""


class DialogOptions(TypedDict):
    """The parameters of every dialog."""

    styles: Styles
    """The styles of the theme."""
    keymap: Keymap
    """The active keys."""
    guard_s: float
    """How long the person must pause typing before a key counts."""
    clock: Callable[[], float]
    """Seconds; `time.monotonic` except in tests."""


class Dialog(Vertical, Generic[Answer], can_focus=True):
    """A question above the input; the future `answer` gets the person's decision."""

    DEFAULT_CSS = """
    Dialog {
        height: auto; background: $surface; border-top: solid $dirge-warning; padding: 0 1;
        & Input { display: none; }
        &.writing Input { display: block; }
        &.flat { border-top: none; }
        & .menu { height: 1; overflow: hidden hidden; }
    }
    """
    BINDINGS: ClassVar = []
    SCOPE: ClassVar[Scope] = "dialog"

    def __init__(self, *, placeholder: str = "", **options: Unpack[DialogOptions]) -> None:
        super().__init__(id="question")
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.wants_stop = False
        self.refit: Callable[[], object] = lambda: None
        """Set by `DialogHost`: fit the panel to its content again."""
        self.give_to_input: Callable[[str], object] = lambda text: None
        """Set by `DialogHost`: put text into the input, and give the keyboard to it."""
        self.takes_keyboard = True
        """False if the person is writing in the input when the question appears."""
        self._styles, self._keymap = options["styles"], options["keymap"]
        self._clock = options["clock"]
        self._guard = AnswerGuard(pause_s=options["guard_s"], now=self._clock())
        self._body = ScrollingLines(self._paint_body, self._styles, on_end=self._on_read)
        self._body.add_class("body")
        self._menu = ScrollingLines(self._paint_menu, self._styles).add_class("menu")
        self._input = Input(placeholder=placeholder, select_on_focus=False)
        """A line of text, in dialogs that compose it."""
        self._input.cursor_blink = False
        self.has_keyboard = False
        """Whether keys go to the dialog, not to the input."""
        self.pressed = ""
        """The name of the key that is being handled."""

    def compose(self) -> ComposeResult:
        return (self._body, self._menu)

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
        """Whether the end of the question was in view."""
        return self._body.seen_end

    def _on_read(self) -> None:
        self.repaint_menu()

    def _paint_body(self, width: int) -> Sequence[Strip]:
        """Paint the question, which scrolls."""
        raise NotImplementedError

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        """Paint the answers and the keys, all of which are seen."""
        raise NotImplementedError

    @property
    def scope(self) -> Scope:
        return self.SCOPE

    def fit(self, rows: int) -> int:
        """Set the height to the needed part of `rows`, and return it."""
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
        """Count the lines of the question; `others` of the `rows` are used for the rest."""
        return len(self._paint_body(width))

    def role_of(self, action: str, *, is_text: bool) -> Role:
        """Return the role of a key for `action`; `is_text`: the key is printable."""
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
        """Select what Enter will do."""
        raise NotImplementedError

    def deselect(self, undone: int = 0) -> None:
        """Select nothing, and undo the last `undone` keys with the role `use`."""
        raise NotImplementedError

    def confirm(self) -> None:
        """Do what is selected."""
        raise NotImplementedError

    def act(self, action: str) -> None:
        """Do an action of the keymap."""
        raise NotImplementedError

    def move_choice(self, step: int) -> None:
        """Select the next answer, or with -1 the previous one."""

    def scroll_body(self, action: str) -> None:
        """Scroll the question, or move the choice once its end was in view."""
        if action in ("page_up", "page_down") and self._body.max_scroll_y == 0:
            self.post_message(ScreenAction(action))  # The question is in view: scroll the rest.
            return
        if action not in ("line_up", "line_down"):
            self._body.scroll_page(action)
            return
        step = -1 if action == "line_up" else 1
        if self._body.max_scroll_y > 0 and not self.may_approve:
            self._body.move(step)
        else:
            self.move_choice(step)

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        for lines in self.query(ScrollingLines):
            lines.use_styles(styles)

    def repaint_menu(self) -> None:
        self._menu.repaint()

    def write(self, outcome: GuardedKey) -> None:
        """Handle typed text: put it into the input."""
        self._give(outcome.text)

    def key_while_writing(self, event: events.Key) -> None:
        """Handle a key that isn't text while a line of text is written."""

    @property
    def is_writing(self) -> bool:
        return self.app.focused is self._input

    def start_writing(self) -> None:
        self.add_class("writing")
        # `focus` would take effect only after pending keys.
        self.screen.set_focus(self._input)
        self.refit()

    def stop_writing(self) -> None:
        self.remove_class("writing")
        self.screen.set_focus(self)
        self.refit()

    def settle(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

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
        """Let keys count only after another pause."""
        self._guard.close(self._clock())
        self._repaint_when_open()
        self.repaint_menu()

    def on_focus(self) -> None:
        self.has_keyboard = True
        self.guard_again()

    def on_blur(self) -> None:
        if not self.app.screen_stack or self.is_writing:
            return
        # None means that the terminal lost the focus, which comes back.
        self.has_keyboard = self.has_keyboard and self.app.focused in (None, self)
        self.deselect()
        self.guard_again()

    def _repaint_when_open(self) -> None:
        wait_s = self._guard.opens_at - self._clock()
        if wait_s > 0 and self.is_running:
            self.set_timer(wait_s + 0.01, self.repaint_menu)

    def handle_input(self, event: events.Key | events.Paste) -> bool:
        """Handle a key or a paste; return False if it is for others."""
        if isinstance(event, events.Paste):
            held = self._guard.held
            self.deselect()
            self._give(held + event.text)
            return True
        binding = self._keymap.action(event.key, self.scope, "screen")
        if binding is not None and binding in _OF_THE_PROGRAM:
            return False
        if binding is not None and binding in _SCROLLING:
            self.post_message(ScreenAction(binding[1]))
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
        # The time of the key itself, as the screen may have been busy since.
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
            event.stop().prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        if not self.is_writing:
            self.handle_input(event)


Paint = Callable[[int], Sequence[Strip]]
"""Lines for a width."""


class ScrollingLines(ScrollView, can_focus=False):
    """Shows the lines from `paint`; calls `on_end` when their end is in view the first time."""

    DEFAULT_CSS = """
    ScrollingLines { height: 1fr; overflow: hidden auto; scrollbar-size-vertical: 1; }
    """

    def __init__(
        self, paint: Paint, styles: Styles, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._on_end, self._paint, self._styles = on_end, paint, styles
        self._strips: Sequence[Strip] = ()
        self._unsettled = 0
        self.seen_end = False

    def on_resize(self, event: events.Resize) -> None:
        self.repaint()
        if len(self._strips) <= self.size.height:
            # It appeared for the previous height, and would stay until the text changes.
            self.show_vertical_scrollbar = False

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self.repaint()

    def repaint(self) -> None:
        # One column stays free for the scrollbar, so that its appearance wraps no text again.
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
        """Scroll these lines into view, at least the first of them."""
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
            return  # The new height isn't known yet.
        height = self.size.height
        is_end = height > 0 and self.scroll_offset.y + height >= len(self._strips)
        if is_end and not self.seen_end:
            self.seen_end = True
            self._on_end()

    def move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def scroll_page(self, action: str) -> None:
        """Do the action `page_up`, `page_down` or `end`."""
        page = max(1, self.size.height - 1)
        self.move({"page_up": -page, "page_down": page}.get(action, 1_000_000))

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.size.width
        if at >= len(self._strips):
            return Strip.blank(width, self._styles.text)
        return self._strips[at].crop_extend(0, width, self._styles.text)
