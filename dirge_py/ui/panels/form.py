"""The questions of the model and the question of trust; `permission.py` has those about calls.

Nothing is selected at first, so that Enter alone answers nothing.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Literal, Unpack

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, plural, visible_name
from dirge_py.types.questions import ActingFile, Question, QuestionAnswer, TrustOffer
from dirge_py.ui.keymap import Scope
from dirge_py.ui.panels.dialog import (
    Dialog,
    DialogOptions,
    GuardedKey,
    KeyHint,
    Role,
    has_air,
    paint_key_hints,
    select_hint,
)
from dirge_py.ui.terminal.app_base import ScreenAction
from dirge_py.ui.transcript.lines import Line, selected_row, strip, wrap

_HASH_SHOWN = 12
"""Hex digits of a hash, to compare with `sha256sum`."""


class TrustDialog(Dialog[bool]):
    """Asks whether to trust a project; "yes" works only after the whole list was in view."""

    SCOPE: ClassVar[Scope] = "trust"

    def __init__(self, offer: TrustOffer, **options: Unpack[DialogOptions]) -> None:
        super().__init__(**options)
        self._offer = offer
        self._chosen: Literal["deny", "trust", ""] = ""
        self._is_airy = False

    def _body_height(self, width: int, rows: int, others: int) -> int:
        self._is_airy = False
        self._is_airy = has_air(len(self._paint_body(width)) + others, rows)
        return len(self._paint_body(width))

    def _paint_body(self, width: int) -> Sequence[Strip]:
        styles, files = self._styles, self._offer.files
        strips = wrap([("Trust this project?", styles.strong + styles.text)], width)
        strips += wrap([(visible_name(self._offer.project), styles.tool)], width)
        count = plural(len(files), "file")
        why = f"{count} in it would be read as settings or instructions, or run as code."
        strips += wrap([(why, styles.text)], width)
        air = [Strip.blank(width, styles.text)] if self._is_airy else []
        strips += air
        for file in files:
            strips += self._file(file, width)
        without = "Without trust none of them is used; everything else works."
        return [*strips, *wrap([(without, styles.dim)], width), *air]

    def _file(self, file: ActingFile, width: int) -> list[Strip]:
        styles = self._styles
        size = f"{file.size:,} byte{'s' * (file.size != 1)}"
        facts = f"  {visible_name(file.kind)}  {size}  {visible_name(file.sha256[:_HASH_SHOWN])}  "
        state = (file.state, styles.dim if file.state == "trusted" else styles.warning)
        name = (visible_name(file.path), styles.strong + styles.text)
        line: Line = [name, (facts, styles.dim), state]
        return wrap(line, width, first=[("  ", styles.text)], rest=[("    ", styles.text)])

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        words = {"deny": "No, leave it restricted", "trust": "Yes, trust exactly these"}
        lines = [strip(self._option(action, words[action])) for action in words]
        hints = self.hints_of_typing
        if self.is_open and not self.may_approve:
            hints = [("Space: read to the end to say yes", "Space: read to the end")]
        elif self.is_open:
            key = self._keymap.name_of("trust", "choose")
            hints.insert(0, select_hint(key, width, is_chosen=bool(self._chosen)))
        return lines + paint_key_hints(hints, width, self._styles, most=1, indent="  ")

    def _option(self, action: str, words: str) -> Line:
        styles, is_chosen = self._styles, action == self._chosen
        is_possible = self.is_open and (action == "deny" or self.may_approve)
        style = styles.accent + styles.strong if is_chosen else styles.text
        mark = "▸ " if is_chosen and self.is_open else "  "
        key = self._keymap.name_of("trust", action)
        line: Line = [
            (mark, styles.accent),
            (key, (style if is_possible else styles.dim) + styles.strong),
            (f" {words}", style if is_possible else styles.dim),
        ]
        if mark.strip():
            width = max(1, self._menu.size.width - 1)
            row = selected_row(strip(line), width, styles.accent)
            return [(segment.text, segment.style or style) for segment in row]
        return line

    def role_of(self, action: str, *, is_text: bool) -> Role:
        if action == "trust":
            return "select" if self.may_approve else "none"
        return super().role_of(action, is_text=is_text)

    def select(self, action: str) -> None:
        self._chosen = "trust" if action == "trust" else "deny"

    def deselect(self, undone: int = 0) -> None:
        self._chosen = ""

    def confirm(self) -> None:
        if self._chosen == "deny" or (self._chosen == "trust" and self.may_approve):
            self.settle(self._chosen == "trust")

    def act(self, action: str) -> None:
        match action:
            case "deny":
                self.settle(False)
            case "previous" | "next":
                self.move_choice(1 if action == "next" else -1)
            case "line_up" | "line_down" | "page_up" | "page_down" | "end":
                self.scroll_body(action)

    def move_choice(self, step: int) -> None:
        is_yes = self._chosen == "deny" or (not self._chosen and step < 0)
        self._chosen = "trust" if is_yes else "deny"


@dataclass(slots=True)
class _Answering:
    """The state of one question in the form."""

    question: Question
    cursor: int | None = None
    """The selected option; the number behind the last is the person's own words."""
    ticked: set[int] = field(default_factory=set)
    text: str = ""

    @property
    def is_open(self) -> bool:
        # A question without options needs another way to answer.
        return self.question.is_open or not self.question.options

    @property
    def rows(self) -> int:
        return len(self.question.options) + self.is_open

    @property
    def is_on_own_words(self) -> bool:
        return self.cursor is not None and self.cursor >= len(self.question.options)

    @property
    def answer(self) -> QuestionAnswer:
        chosen = tuple(self.question.options[at].label for at in sorted(self.ticked))
        return QuestionAnswer(chosen=chosen, text=self.text)


class QuestionForm(Dialog[Sequence[QuestionAnswer] | None]):
    """Asks one question at a time. `answer` is None if the person cancels.

    Typed text is an answer in one's own words if the question allows it, else it goes to the input.
    """

    SCOPE: ClassVar[Scope] = "form"

    def __init__(self, questions: Sequence[Question], **options: Unpack[DialogOptions]) -> None:
        super().__init__(placeholder="in your own words", **options)
        self._all = [_Answering(question) for question in questions]
        self._at = self._reached = 0
        self._is_tight = self._is_airy = False
        self._lines: list[tuple[int, int]] = []

    def compose(self) -> ComposeResult:
        return (self._body, self._input, self._menu)

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(self._write_if_that_is_all)

    def _body_height(self, width: int, rows: int, others: int) -> int:
        self._is_tight = self._is_airy = False
        self._is_tight = len(self._paint_body(width)) + others > rows // 2
        self._is_airy = has_air(len(self._paint_body(width)) + others, rows)
        return len(self._paint_body(width))

    @property
    def _now(self) -> _Answering:
        return self._all[self._at]

    def _paint_body(self, width: int) -> Sequence[Strip]:
        styles, now = self._styles, self._now
        title: Line = [(clean(now.question.header), styles.dim)] if now.question.header else []
        if len(self._all) > 1:
            title.append((f"{'  ' if title else ''}{self._at + 1} of {len(self._all)}", styles.dim))
        strips = wrap(title, width) if title else []
        question, newline, more = clean(now.question.question).partition("\n")
        strips += wrap([(question, styles.heading), (newline + more, styles.text)], width)
        air = [Strip.blank(width, styles.text)] if self._is_airy else []
        strips += air
        self._lines = []
        for at in range(now.rows):
            first = len(strips)
            # The line of text below says the same as the only row of a question without options.
            if now.question.options or not self.has_class("writing"):
                strips += self._option(at, width)
            self._lines.append((first, max(first, len(strips) - 1)))
        return strips if self.has_class("writing") else [*strips, *air]

    def _option(self, at: int, width: int) -> list[Strip]:
        styles, now = self._styles, self._now
        is_at = at == now.cursor and self.is_open
        head: Line = [("▸ " if is_at else "  ", styles.accent)]
        head.append((f"{at + 1} " if at < 9 else "  ", styles.text + styles.strong))
        style = styles.accent + styles.strong if is_at else styles.text
        if at >= len(now.question.options):
            is_stored = now.text and not self.has_class("writing")
            words = clean(now.question.text_label) + (f": {clean(now.text)}" if is_stored else "")
            strips = wrap([(words, style)], width, first=head, rest=[("    ", styles.text)])
            return self._as_selected(strips, width) if is_at else strips
        option = now.question.options[at]
        if now.question.is_multiple:
            head.append(("[✓] " if at in now.ticked else "[ ] ", styles.good))
        rest: Line = [(" " * sum(len(text) for text, _ in head), styles.text)]
        label, about = clean(option.label), clean(option.description)
        column = self._label_column(width)
        if about and (column or self._is_tight):
            gap = " " * (max(0, column - cell_len(label)) + 2)
            beside = [(label, style), (f"{gap}{about}", styles.dim)]
            strips = wrap(beside, width, first=head, rest=rest)
            if len(strips) == 1:
                return self._as_selected(strips, width) if is_at else strips
        strips = wrap([(label, style)], width, first=head, rest=rest)
        strips = self._as_selected(strips, width) if is_at else strips
        return strips + (wrap([(about, styles.dim)], width, first=rest, rest=rest) if about else [])

    def _as_selected(self, strips: Sequence[Strip], width: int) -> list[Strip]:
        return [selected_row(line, width, self._styles.accent) for line in strips]

    def _label_column(self, width: int) -> int:
        """Return the cells of the longest label if all descriptions fit beside it, else 0."""
        options = self._now.question.options
        column = max(cell_len(clean(option.label)) for option in options)
        about = max(cell_len(clean(option.description)) for option in options)
        marks = len("▸ 1 [ ] ") if self._now.question.is_multiple else len("▸ 1 ")
        return column if marks + column + 2 + about <= width else 0

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        def key(action: str) -> str:
            return self._keymap.name_of("form", action)

        choose, close = key("choose"), key("close")
        if not self.is_open and not self.has_class("writing"):
            return paint_key_hints(self.hints_of_typing, width, self._styles)
        hints: list[KeyHint] = [(f"{choose}: {self._what_enter_answers()}", f"{choose}: answer")]
        if self._now.cursor is None and not self.has_class("writing"):
            hints = [select_hint(choose, width, is_chosen=False)]
        if self._now.question.is_multiple and self._now.question.options:
            hints.insert(0, (f"{key('toggle')}: tick",) * 2)
        is_detour = self.has_class("writing") and self._now.question.options
        leave = "back to the options" if is_detour else "cancel"
        hints.append((f"{close}: {leave}", f"{close}: {leave.partition(' ')[0]}"))
        if self._at > 0:
            hints.append((f"{key('previous_question')}: back",) * 2)
        if not self.has_class("writing"):
            hints += self.hints_of_typing
        return paint_key_hints(hints, width, self._styles)

    @property
    def hints_of_typing(self) -> list[KeyHint]:
        if self.is_open and self._now.is_open:
            return [("type: answer in your own words", "type: own words")]
        return super().hints_of_typing

    def _what_enter_answers(self) -> str:
        if self._now.question.options and self._now.is_on_own_words:
            return "answer in your own words"
        if self._now.question.options and self._now.question.is_multiple:
            return f"answer ({len(self._now.ticked) or 'none'} ticked)"
        return "answer"

    def _repaint(self) -> None:
        self._body.repaint()
        self._menu.repaint()

    def _on_read(self) -> None:
        pass  # The person may answer before the end of the question was in view.

    def repaint_menu(self) -> None:
        self._repaint()
        self.call_after_refresh(self._write_if_that_is_all)

    def role_of(self, action: str, *, is_text: bool) -> Role:
        match action:
            case "pick":
                is_there = self.pressed.isdecimal() and int(self.pressed) <= self._now.rows
                return "select" if is_there else "none"
            case "toggle":
                return "use" if self._can_tick else "none"
        return "confirm" if action == "choose" else "act"

    @property
    def _can_tick(self) -> bool:
        is_on_option = self._now.cursor is not None and not self._now.is_on_own_words
        return self._now.question.is_multiple and is_on_option

    def select(self, action: str) -> None:
        self._now.cursor = int(self.pressed) - 1
        self._show_cursor(self._now.cursor)

    def deselect(self, undone: int = 0) -> None:
        for _ in range(undone):
            self._toggle()
        self._now.cursor = None

    def confirm(self) -> None:
        now = self._now
        if now.is_on_own_words:
            self._write()
        elif now.cursor is not None:
            if not now.question.is_multiple:
                now.ticked, now.text = {now.cursor}, ""
            self._show_next()

    def write(self, outcome: GuardedKey) -> None:
        # Text typed before keys count is meant for the input.
        if outcome.was_open and self._now.is_open:
            self._now.text += outcome.text
            self._write()
        else:
            super().write(outcome)

    def act(self, action: str) -> None:
        match action:
            case "previous" | "next":
                self._move(-1 if action == "previous" else 1)
            case "toggle":
                self._toggle()
            case "previous_question" | "next_question":
                at = self._at + (1 if action == "next_question" else -1)
                if 0 <= at <= self._reached:
                    self._show(at)
            case "page_up" | "page_down":
                if self._body.virtual_size.height > self._body.size.height:
                    self._body.scroll_page(action)
                else:
                    self.post_message(ScreenAction(action))
            case "close":
                self.settle(None)
            case "deny_and_stop":
                self.wants_stop = True
                self.settle(None)

    def key_while_writing(self, event: events.Key) -> None:
        _, action = self._keymap.action(event.key, "form") or ("", "")
        known = ("choose", "close", "deny_and_stop", "previous", "next", "page_up", "page_down")
        if event.is_printable:
            return
        # At the start of the text, the left arrow goes to the previous question.
        goes_back = action == "previous_question" and self._input.cursor_position == 0
        if action not in known and not (goes_back and self._at > 0):
            return
        event.stop().prevent_default()
        match action:
            case "choose":
                self._finish_writing()
            case "previous_question":
                self._now.text = self._input.value.strip()
                self.stop_writing()
                self.act(action)
            case "close" | "previous" | "next" if self._now.question.options:
                self._now.text = self._input.value.strip()
                self.stop_writing()
                if action != "close":
                    self.act(action)
                    self._repaint()
            case "previous" | "next":
                pass
            case _:
                self.act(action)

    def _move(self, step: int) -> None:
        cursor = self._now.cursor
        self._now.cursor = (min(step, 0) if cursor is None else cursor + step) % self._now.rows
        self._show_cursor(self._now.cursor)

    def _show_cursor(self, cursor: int) -> None:
        self._body.repaint()
        self._body.show(*self._lines[cursor])

    def _toggle(self) -> None:
        now = self._now
        if self._can_tick and now.cursor is not None:
            now.ticked ^= {now.cursor}

    def _show_next(self) -> None:
        if self._at + 1 == len(self._all):
            self.settle([answering.answer for answering in self._all])
            return
        self._reached = max(self._reached, self._at + 1)
        self._show(self._at + 1)

    def _show(self, number: int) -> None:
        is_new = number == self._reached
        self._at = number
        self.refit()
        self._body.turn()
        if is_new:
            self.guard_again()
        self.repaint_menu()

    def _write(self) -> None:
        self._now.cursor = len(self._now.question.options)
        self._input.value = self._now.text
        self._input.cursor_position = len(self._now.text)
        self.start_writing()

    def _write_if_that_is_all(self) -> None:
        if self._now.question.options or self.has_class("writing") or self.answer.done():
            return
        if self.is_open and self.app.screen_stack and self.app.focused is self:
            self._write()

    def _finish_writing(self) -> None:
        now = self._now
        now.text = self._input.value.strip()
        if now.text or now.question.options:
            self.stop_writing()
        if now.text:
            if not now.question.is_multiple:
                now.ticked = set()
            self._show_next()
