"""Lists of choices for completion and pickers, and a question whose answer is a line of text."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.fuzzy import fuzzy_score
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.slash.base import NO_ACTIONS, Choice, PickerAction
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.dialog import FASTEST, KeyHint, ScrollingLines, fit_hints, hint_line
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import (
    HINT_JOINT,
    Line,
    LinesWidget,
    clip,
    clip_words,
    selected_row,
    strip,
)

_MOST_ROWS = 10
_LOW_SCREEN = 16
_COLUMN = late_pattern(r"\S+(?: \S+)*(?: {2,}|$)")
_LEAST_COLUMN = 12
"""Cells that the start of a column needs."""


class ChoiceList(LinesWidget):
    """A list of choices with a cursor, in at most half of a small screen."""

    DEFAULT_CSS = "ChoiceList { height: auto; padding: 0 1; background: $surface; display: none; }"

    def __init__(self, styles: Styles, name: str) -> None:
        super().__init__(styles, name)
        self.choices: Sequence[Choice] = ()
        self.keys: Sequence[KeyHint] = ()
        """What its key line says."""
        self._cursor = 0
        self._title = ""
        self._longest_label = self._longest_detail = 0
        self._has_key_line = False

    @property
    def chosen(self) -> Choice | None:
        return self.choices[self._cursor] if self.choices else None

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def offer(self, choices: Sequence[Choice], *, title: str = "", current: str = "") -> None:
        """Show these choices; hide the list if there are none and no title."""
        self.choices, self._title = choices, title
        with_detail = [choice for choice in choices if choice.detail]
        self._longest_label = max((cell_len(_label(c)) for c in with_detail), default=0)
        self._longest_detail = max((cell_len(clean(c.detail)) for c in with_detail), default=0)
        ids = [choice.id for choice in choices]
        self._cursor = ids.index(current) if current in ids else 0
        self.display = bool(choices or title)
        self.refresh(layout=True)

    def move(self, step: int) -> None:
        if self.choices:
            self._cursor = (self._cursor + step) % len(self.choices)
            self.refresh()

    def move_page(self, step: int) -> None:
        """Move the cursor by the rows in view, at most to the first or the last choice."""
        rows = max(1, self.size.height - bool(self._title) - self._has_key_line)
        self._cursor = max(0, min(len(self.choices) - 1, self._cursor + step * rows))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        is_low = viewport.height <= _LOW_SCREEN
        self._has_key_line = bool(self.keys)
        most = viewport.height // 2 - self._has_key_line if is_low else _MOST_ROWS
        rows = min(most, len(self.choices) + bool(self._title))
        return max(1 + bool(self.choices and self._title), rows) + self._has_key_line

    def line_at(self, y: int) -> Line:
        styles, width = self._styles, self.size.width
        if self._has_key_line and y == self.size.height - 1:
            return self._key_line(width)
        if self._title:
            if y == 0:
                return [(clip(clean(self._title), width), styles.heading)]
            y -= 1
        rows = self.size.height - bool(self._title) - self._has_key_line
        index = y + max(0, min(self._cursor - rows + 1, len(self.choices) - rows))
        if index >= len(self.choices):
            return []
        choice, is_chosen = self.choices[index], index == self._cursor
        style = styles.accent + styles.strong if is_chosen else styles.text
        detail = styles.accent if is_chosen else styles.dim
        is_cut = is_chosen and len(self.choices) > rows
        count = f"  {index + 1}/{len(self.choices)}" if is_cut else ""
        line: Line = [("▸ " if is_chosen else "  ", styles.accent)]
        line += self._columns(choice, width, style, detail, kept=len(count))
        blank = width - sum(cell_len(text) for text, _ in line) - len(count)
        if count and blank >= 0:
            line.append((" " * blank + count, detail))
        if is_chosen:
            return [
                (segment.text, segment.style or style)
                for segment in selected_row(strip(line), width, styles.accent)
            ]
        return line

    def _columns(
        self, choice: Choice, width: int, style: Style, detail_style: Style, *, kept: int
    ) -> Line:
        """Return the label, and the detail in a column of its own that leaves `kept` cells."""
        label = _label(choice)
        if not choice.detail:
            return [(clip(label, max(1, width - 2)), style)]
        # Labels get half of the width at least, and more if the details are short.
        most = max(width // 2, width - 4 - self._longest_detail)
        size = max(1, min(self._longest_label, most, width - 2))
        label = clip_words(label, size)
        detail = _fit_columns(clean(choice.detail), width - 4 - size - kept)
        return [(label + " " * (size - cell_len(label) + 2), style), (detail, detail_style)]

    def _key_line(self, width: int) -> Line:
        words = HINT_JOINT.join(long for long, _ in self.keys)
        if cell_len(words) > width:
            shorts = [short for _, short in self.keys]
            # The first key is the one that people guess.
            is_narrow = cell_len(HINT_JOINT.join(shorts[:2])) > width
            words = fit_hints(HINT_JOINT.join(shorts[is_narrow:]), width)
        return hint_line(words, self._styles)


def _label(choice: Choice) -> str:
    return clean(choice.label).rstrip()


def _fit_columns(detail: str, width: int) -> str:
    """Return as many columns of `detail` as fit; two blanks and more separate them."""
    if cell_len(detail) <= width:
        return detail
    shown = ""
    for column in _COLUMN.findall(detail):
        if cell_len(shown + column.rstrip()) > width:
            left = width - cell_len(shown)
            return shown + (clip_words(column, left) if left >= _LEAST_COLUMN else "")
        shown += column
    return shown


class Picker(ChoiceList, can_focus=True):
    """A list that returns a choice; typing narrows it, and Enter counts only after `guard_s`.

    Keys of the scope "picker" return an action with the choice at the cursor, if `ask` names it.
    """

    def __init__(
        self,
        styles: Styles,
        keymap: Keymap,
        *,
        guard_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(styles, "picker")
        self._keymap = keymap
        self._guard_s = self._pause_s = guard_s
        self._clock = clock
        self._opens_at = self._last_key_at = 0.0
        self._all: Sequence[Choice] = ()
        self._question = self._typed = ""
        self._answer: asyncio.Future[str | None] | None = None
        self._on_move: Callable[[str], object] | None = None
        self._actions = NO_ACTIONS
        self.action: PickerAction | None = None
        """The action that the last answer was given with; None for Enter."""

    async def ask(
        self,
        title: str,
        choices: Sequence[Choice],
        current: str,
        on_move: Callable[[str], object] | None = None,
        actions: Mapping[PickerAction, str] = NO_ACTIONS,
    ) -> str | None:
        """Return the id of the choice, or None; `on_move` previews each choice at the cursor.

        `actions` maps each further key to its words.
        """
        self._dismiss(None)
        self._all, self._question, self._typed = choices, title, ""
        self._actions, self.action = actions, None
        self.keys = self._key_hints()
        self._answer = asyncio.get_running_loop().create_future()
        self._on_move, self._pause_s = on_move, 0.0 if on_move else self._guard_s
        self._opens_at = self._clock() + self._pause_s
        self.offer(choices, title=title, current=current)
        self._preview()
        self.focus()
        try:
            return await self._answer
        finally:
            self.offer(())

    def _key_hints(self) -> Sequence[KeyHint]:
        name = self._keymap.name_of
        choose, cancel = name("list", "choose"), name("list", "close")
        keys = [(choose, "choose", "choose"), (cancel, "cancel", "cancel")]
        keys += [
            (name("picker", action), words, words.partition(" ")[0])
            for action, words in self._actions.items()
        ]
        keys += [("↑↓", "move", "move"), ("type", "filter", "filter")]
        return [(f"{key}: {long}", f"{key}: {short}") for key, long, short in keys]

    async def _on_key(self, event: events.Key) -> None:
        if self._answer is None or self._answer.done():
            return  # The list is closing.
        binding = self._keymap.action(event.key, "picker", "list", "screen")
        if binding and binding[0] == "picker" and binding[1] not in self._actions:
            binding = self._keymap.action(event.key, "list", "screen")
        if binding == ("screen", "suspend"):
            return
        event.stop().prevent_default()
        now = event.time if self._clock is time.monotonic else self._clock()
        is_meant = now >= self._opens_at and now - self._last_key_at >= self._pause_s * FASTEST
        self._last_key_at = now
        scope, action = binding or ("", "")
        match action if scope != "screen" or action.startswith("page_") else "":
            case "rename" | "delete" | "all_projects" as wanted:
                if is_meant and (self.chosen is not None or wanted == "all_projects"):
                    self.action = wanted
                    self._dismiss(self.chosen.id if self.chosen else "")
            case "previous" | "next" as way:
                self.move(1 if way == "next" else -1)
                self._preview()
            case "page_up" | "page_down" as way:
                self.move_page(1 if way == "page_down" else -1)
                self._preview()
            case "choose" | "complete":
                if is_meant:
                    self._dismiss(self.chosen.id if self.chosen else None)
            case "close":
                self._dismiss(None)
            case "erase":
                self._narrow(self._typed[:-1])
            case _ if event.is_printable and event.character:
                self._narrow(self._typed + event.character)

    def _narrow(self, typed: str) -> None:
        self._typed = typed
        choices, words = list(self._all), typed.lower().split()
        for word in words:
            choices = _with_word(word, choices)
        # "fix 2" is about a name, not about "2 messages" in the details.
        choices.sort(key=lambda choice: not all(word in choice.label.lower() for word in words))
        self.offer(choices, title=f"{self._question}  {typed}".rstrip())
        self._preview()

    def _preview(self) -> None:
        if self._on_move is not None and self.chosen is not None:
            self._on_move(self.chosen.id)

    def _dismiss(self, answer: str | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


def _with_word(word: str, choices: Sequence[Choice]) -> list[Choice]:
    """The choices with this word; without any, those whose label has its letters in order."""
    having = [c for c in choices if word in f"{c.label} {c.detail}".lower()]
    if having:
        return having
    scored = [(fuzzy_score(word, c.label.lower()), c) for c in choices]
    fitting = [(score, c) for score, c in scored if score is not None]
    return [choice for _, choice in sorted(fitting, key=lambda row: row[0])]


class _LineInput(Input):
    """An input that takes the first line of a paste that isn't blank."""

    def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the method of the base class next, which takes the first line.
        event.text = event.text.strip()


class LineQuestion(Vertical):
    """A question above the input whose answer is a line of text."""

    DEFAULT_CSS = """
    LineQuestion { height: auto; padding: 0 1; background: $surface; display: none; }
    LineQuestion ScrollingLines { height: 1; }
    """
    BINDINGS: ClassVar = []

    def __init__(self, styles: Styles, keymap: Keymap) -> None:
        super().__init__(id="line-question")
        self._styles = styles
        self._keymap = keymap
        self._title = ""
        self._title_line = ScrollingLines(self._paint, styles)
        self._key_line = ScrollingLines(self._paint_keys, styles)
        self._input = _LineInput(select_on_focus=False)
        self._input.cursor_blink = False
        self._answer: asyncio.Future[str | None] | None = None

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self._title_line.use_styles(styles)
        self._key_line.use_styles(styles)

    def compose(self) -> ComposeResult:
        return (self._title_line, self._input, self._key_line)

    def _paint(self, width: int) -> list[Strip]:
        return [strip([(clip(self._title, width), self._styles.heading)])]

    def _paint_keys(self, width: int) -> list[Strip]:
        names = ((self._keymap.name_of("list", each), each) for each in ("choose", "close"))
        words = {"choose": "confirm", "close": "cancel"}
        hints = [f"{key}: {words[action]}" for key, action in names]
        return [strip(hint_line(fit_hints(HINT_JOINT.join(hints), width), self._styles))]

    async def ask(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        """Return the typed text, or None if the person cancels."""
        self._title = clean(title)
        self._input.password = hidden
        self._input.value = value
        self._input.cursor_position = len(value)
        self._answer = asyncio.get_running_loop().create_future()
        self.display = True
        self._title_line.repaint()
        self._key_line.repaint()
        self._input.focus()
        try:
            return await self._answer
        finally:
            self._input.value = ""
            self.display = False

    async def _on_key(self, event: events.Key) -> None:
        binding = self._keymap.action(event.key, "list")
        if binding is None or binding[1] not in ("choose", "close"):
            return
        event.stop().prevent_default()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._input.value if binding[1] == "choose" else None)
