"""The dialog that asks whether tool calls may run: everything they would do, word for word.

Nothing is cut: what does not fit is scrolled to, and the approving keys work only once the end was
in view. Of several calls one is shown and the others are listed; each has an answer of its own.
Nothing is selected at first, so that Enter alone answers nothing. Below the call stand its keys,
its rules and the other questions.
"""

import time
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.text import visible, visible_name
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.panels import permission as below
from dirge_py.ui.panels.answer_guard import Role
from dirge_py.ui.panels.dialog import Dialog, KeyHint, ScrollingLines, paint_key_hints
from dirge_py.ui.panels.hunk_view import EditFile, HunkView
from dirge_py.ui.panels.permission_request import (
    WORDS,
    Option,
    PermissionChoice,
    paint_reach,
    paint_request,
)
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_MOST_OTHERS = 5
"""Rows for the other questions; the list moves with the one that is shown."""
_ROWS_WITH_REACH = 9
"""Rows beyond the options from which on it is said below them what their rules would match."""
_NARROW = 60
"""Columns below which the keys that are named take one line."""


class PermissionDialog(Dialog[Sequence[PermissionAnswer]]):
    """Asks about calls. `answer` has one for each request, in their order."""

    DEFAULT_CSS = """
    PermissionDialog {
        & .others { height: 0; overflow: hidden hidden; }
        &.choosing .body, &.choosing .menu, &.choosing .others { display: none; }
    }
    """

    def __init__(
        self,
        requests: Sequence[PermissionRequest],
        edit_file: EditFile,
        *,
        styles: Styles,
        keymap: Keymap,
        guard_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(styles=styles, keymap=keymap, guard_s=guard_s, clock=clock)
        self._all = [PermissionChoice(request) for request in requests]
        self._detour = ""
        self._edit_file = edit_file
        self._at = 0
        self._is_flat = False
        self._has_room_for_reach = True
        self._body = ScrollingLines(self._paint_body, styles, on_end=self._note_read)
        self._body.add_class("body")
        self._others = ScrollingLines(self._paint_others, styles)
        self._others.add_class("others")
        self._menu = ScrollingLines(self._paint_menu, styles)
        self._menu.add_class("menu")
        self._hunks: HunkView | None = None
        self._comment = Input(
            placeholder="why not, for the model; Enter denies", select_on_focus=False
        )

    @property
    def _asked(self) -> PermissionChoice:
        return self._all[self._at]

    @property
    def may_approve(self) -> bool:
        """Was everything in view?"""
        return self._body.seen_end

    @property
    def is_writing(self) -> bool:
        return self.app.focused is self._comment

    def compose(self) -> ComposeResult:
        yield self._body
        yield self._menu
        yield self._others
        yield self._comment

    def on_mount(self) -> None:
        self._comment.cursor_blink = False
        self._asked.was_shown = True
        super().on_mount()

    def use_styles(self, styles: Styles) -> None:
        if self._hunks is not None:
            self._hunks.use_styles(styles)
        super().use_styles(styles)

    def fit(self, rows: int) -> int:
        width = self.app.size.width - 3
        self._is_flat = rows < len(self._asked.options) + 5
        self._has_room_for_reach = rows >= len(self._asked.options) + _ROWS_WITH_REACH
        self.set_class(self._is_flat, "flat")
        border = 0 if self._is_flat else 1
        if self._hunks is not None:
            taken = min(self._hunks.fit(rows - border) + border, rows)
        else:
            taken = self._fit_question(rows, border, width)
        self.styles.height = taken
        return taken

    def _fit_question(self, rows: int, border: int, width: int) -> int:
        menu = len(self._paint_menu(width))
        others = 0 if self._is_flat else min(len(self._all) - 1, _MOST_OTHERS, rows // 4)
        self._menu.styles.height = menu
        self._others.styles.height = others
        self._body.repaint()
        self._others.repaint()
        self.repaint_menu()
        comment = int(self.has_class("writing"))
        return min(len(self._paint_body(width)) + menu + others + comment + border, rows)

    # -- what it shows

    def _paint_body(self, width: int) -> Sequence[Strip]:
        asked = self._asked
        place = f"{self._at + 1} of {len(self._all)}" if len(self._all) > 1 else ""
        strips = paint_request(
            asked.request, place, width, self._styles, files=asked.selection.files
        )
        if asked.rules and not self._has_room_for_rules(width):
            strips += wrap([(f"Would be stored: {asked.rules_shown}", self._styles.dim)], width)
            if not self._is_flat and not self._has_room_for_reach and asked.reach:
                words = Reach(words=asked.reach.words)
                strips += paint_reach(words, width, self._styles)
        return strips

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        if self._is_flat:
            return below.flat_menu(
                self._asked.options, self._keymap, self._style_of, width, self._styles
            )
        lines = [strip(self._option_line(option, width)) for option in self._asked.options]
        most = 1 if width < _NARROW else 2
        hints, usual = (
            paint_key_hints(hints, width, self._styles, most=most, indent="  ")
            for hints in (self._hints, self._usual_hints)
        )
        # As many lines at any time: a line more would push the end of the call out of view.
        blank = [Strip.blank(width)] * (len(usual) - len(hints))
        if self._has_room_for_reach:
            lines += below.about_rules(self._asked, self._keymap, width, self._styles)
        return [*lines, *hints[: len(usual)], *blank]

    def _paint_others(self, width: int) -> Sequence[Strip]:
        room = (max(1, self._others.size.height), width)
        return below.paint_others(self._all, self._at, room, self._styles)

    @property
    def _usual_hints(self) -> Sequence[KeyHint]:
        hints = below.usual_hints(self._asked, self._keymap, has_others=bool(self._open_others()))
        return [*hints, *self.hints_of_typing]

    @property
    def _hints(self) -> Sequence[KeyHint]:
        if not self.is_open:
            return self.hints_of_typing
        if self._detour:
            enter = self._keymap.name_of("dialog", "choose")
            return [(f"{enter}: {below.DETOURS[self._detour]}",) * 2, *self.hints_of_typing]
        if not self.may_approve:
            hint = ("read on to the end to approve: Space", "Space: read to the end")
            return [hint, *self.hints_of_typing]
        return self._usual_hints

    def _style_of(self, option: Option) -> Style:
        if not self.is_open or (option != "deny" and not self.may_approve):
            return self._styles.dim
        is_chosen = option == self._asked.chosen
        return self._styles.accent + self._styles.strong if is_chosen else self._styles.text

    def _option_line(self, option: Option, width: int) -> Line:
        mark = "▸ " if option == self._asked.chosen and self.is_open else "  "
        key = self._keymap.name_of("dialog", option)
        words = below.words_of(option, self._asked, key, has_rules=self._has_room_for_rules(width))
        return [(mark, self._styles.accent), (words, self._style_of(option))]

    def _has_room_for_rules(self, width: int) -> bool:
        """What would be stored is never cut: it goes above where it is too long."""
        return not self._is_flat and below.width_with_rules(self._asked) <= width

    def repaint_menu(self) -> None:
        if self._hunks is not None:
            enter = [(f"Enter: {below.DETOURS[self._detour]}",) * 2] if self._detour else []
            away = [] if self.has_keyboard else self.hints_of_typing
            self._hunks.repaint_menu(enter or away)
        self._menu.repaint()

    def _note_read(self) -> None:
        self._asked.is_read = True
        if self._hunks is None:
            self.refit()  # Other keys are named now, and may take another line.
        self.repaint_menu()

    # -- keys

    @property
    def scope(self) -> Scope:
        return self.SCOPE if self._hunks is None else "hunks"

    def role_of(self, action: str, *, is_text: bool) -> Role:
        if self._hunks is not None:
            return self._hunks.role_of(action)
        return below.role_of(action, self._asked, self._body, is_text=is_text)

    def select(self, action: str) -> None:
        match action:
            case "once" | "session" | "always" | "deny":
                self._asked.chosen, self._detour = action, ""
            case _:
                self._asked.chosen, self._detour = None, action

    def deselect(self, undone: int = 0) -> None:
        self._detour = ""
        if self._hunks is not None:
            self._hunks.forget_cursor(undone)
        else:
            self._asked.chosen = None

    def confirm(self) -> None:
        detour, self._detour = self._detour, ""
        if self._hunks is not None:
            self._hunks.act(detour or "choose")
        elif detour:
            self.act(detour)
        elif self._asked.chosen:
            self._choose(self._asked.chosen)

    def act(self, action: str) -> None:
        if self._hunks is not None and action != "deny_and_stop":
            self._detour = ""
            self._hunks.act(action)
            return
        self._detour = ""
        match action:
            case "deny":
                self._choose("deny")
            case "deny_and_stop":
                self._deny_all()
            case "previous" | "next":
                self._asked.move(-1 if action == "previous" else 1)
            case "previous_question" | "next_question":
                self._turn(-1 if action == "previous_question" else 1)
            case "wider":
                self._switch_width()
            case "choose_hunks":
                self._choose_hunks()
            case "comment":
                self.add_class("writing")
                self.refit()
                self.screen.set_focus(self._comment)
            case _:
                self._scroll(action)

    def _scroll(self, action: str) -> None:
        page = max(1, self._body.size.height - 1)
        match action:
            case "line_up" | "line_down":
                step = -1 if action == "line_up" else 1
                # Up and down scroll while there is something to read, else they move the choice.
                if self._body.max_scroll_y > 0 and not self.may_approve:
                    self._body.move(step)
                else:
                    self._asked.move(step)
            case "page_up" | "page_down":
                self._body.move(-page if action == "page_up" else page)
            case "end":
                self._body.move(1_000_000)

    def key_while_writing(self, event: events.Key) -> None:
        found = self._keymap.action(event.key, "dialog")
        if found is None or event.is_printable:
            return
        action = found[1]
        if action not in ("choose", "deny", "comment", "deny_and_stop", "wider"):
            return
        event.stop()
        event.prevent_default()
        if action == "choose":
            self._stop_writing()
            self._settle_one(PermissionAnswer(effect="deny", comment=self._comment.value.strip()))
        elif action == "deny_and_stop":
            self._deny_all(self._comment.value.strip())
        else:
            self._stop_writing()

    def _stop_writing(self) -> None:
        self.remove_class("writing")
        self.refit()
        self.screen.set_focus(self)

    def _switch_width(self) -> None:
        asked = self._asked
        if not asked.has_two_widths:
            return
        asked.is_wide = not asked.is_wide
        if not self._has_room_for_rules(self._body.size.width - 1):
            # It stands at the end, which is another one now.
            asked.is_read = self._body.seen_end = False
        self.refit()

    # -- several questions

    def _open_others(self) -> Sequence[int]:
        return [n for n, asked in enumerate(self._all) if asked.answer is None and n != self._at]

    def _turn(self, step: int) -> None:
        """Show the next or previous question that is open; with one, it moves the choice."""
        others = self._open_others()
        if not others:
            self._asked.move(step)
            return
        ahead = [n for n in others if (n - self._at) * step > 0]
        self._show((ahead or others)[0 if step > 0 else -1])

    def _show(self, number: int) -> None:
        self._at = number
        asked = self._asked
        asked.chosen = None
        self._comment.value = ""
        self.refit()
        self._body.turn(was_read=asked.is_read)
        if not asked.was_shown:
            asked.was_shown = True
            self.guard_again()
        self.repaint_menu()

    # -- hunks

    def _choose_hunks(self) -> None:
        if self._hunks is not None or not self._asked.selection.places:
            return
        self._hunks = HunkView(
            self._asked.selection,
            self._finish_hunks,
            self._edit_file,
            styles=self._styles,
            keymap=self._keymap,
            was_read=self.may_approve,
        )
        self.add_class("choosing")
        self.mount(self._hunks)
        self.refit()

    def _finish_hunks(self, *, is_taken: bool) -> None:
        """The hunk view is done: back to the question, or with its outcome as the answer."""
        if self._hunks is None:
            return
        self._hunks.remove()
        self._hunks = None
        self.remove_class("choosing")
        self.guard_again()
        selection = self._asked.selection
        if not is_taken:
            selection.reset_all()
            self.refit()
        elif selection.accepted == 0:
            self._settle_one(PermissionAnswer(effect="deny"))
        else:
            self._settle_one(self._asked.allow("once", selection.outcome()))

    # -- answers

    def _choose(self, option: Option) -> None:
        if option == "deny":
            self._settle_one(PermissionAnswer(effect="deny"))
        elif option in self._asked.options and self.may_approve:
            self._settle_one(self._asked.allow(option))

    def _settle_one(self, answer: PermissionAnswer) -> None:
        self._asked.answer = answer
        others = self._open_others()
        if others:
            later = [number for number in others if number > self._at]
            self._show((later or others)[0])
            return
        self.settle([asked.answer for asked in self._all if asked.answer is not None])

    def _deny_all(self, comment: str = "") -> None:
        """Interrupt: nothing that is still open may run."""
        self.wants_stop = True
        self._asked.answer = PermissionAnswer(effect="deny", comment=comment)
        denied = PermissionAnswer(effect="deny")
        self.settle([asked.answer or denied for asked in self._all])


_STORING: Sequence[Option] = ("session", "always")
DETOURS = {
    "comment": "write a comment and deny",
    "choose_hunks": "choose hunks",
    "accept": "accept this hunk",
    "refuse": "refuse this hunk",
    "edit": "edit the file",
}
"""What Enter does once a key has selected it that is no answer itself."""


def usual_hints(asked: PermissionChoice, keymap: Keymap, *, has_others: bool) -> list[KeyHint]:
    """The keys of the question as it stands. `has_others`: more than this one are open."""
    name = keymap.name_of
    enter, comment = name("dialog", "choose"), name("dialog", "comment")
    words = f"{enter}: answer" if asked.chosen else f"select, then {enter}"
    hints = [(words, words), (f"{comment}: deny with a comment", f"{comment}: comment")]
    if asked.has_two_widths:
        width = "exact rule" if asked.is_wide else "wider rule"
        article = "the" if asked.is_wide else "a"
        key = name("dialog", "wider")
        hints.append((f"{key}: {article} {width}", f"{key}: {width.split()[0]}"))
    if asked.selection.places:
        key = name("dialog", "choose_hunks")
        hints.append((f"{key}: choose hunks", f"{key}: hunks"))
    if has_others:
        keys = "/".join(name("dialog", f"{way}_question") for way in ("previous", "next"))
        hints.append((f"{keys}: the others", f"{keys}: others"))
    return hints


def about_rules(asked: PermissionChoice, keymap: Keymap, width: int, styles: Styles) -> list[Strip]:
    """What the rules that would be stored would match, and whether wider ones are worth it."""
    strips = paint_reach(asked.reach, width, styles) if asked.reach else []
    if asked.request.alike and asked.has_two_widths and not asked.is_wide:
        key = keymap.name_of("dialog", "wider")
        words = f"{asked.request.alike} like it were allowed one by one; {key}: a rule for all"
        indent: Line = [("  ", styles.text)]
        strips += wrap([(words, styles.warning)], width, first=indent, rest=indent)
    return strips


def paint_others(
    questions: Sequence[PermissionChoice], at: int, room: tuple[int, int], styles: Styles
) -> Sequence[Strip]:
    """The questions that are not shown, a line each; `room` is rows and columns."""
    rows, width = room
    others = [number for number in range(len(questions)) if number != at]
    first = max(0, min(at - rows // 2, len(others) - rows))
    return [
        strip(_other(number, questions[number], width, styles))
        for number in others[first : first + rows]
    ]


def _other(number: int, asked: PermissionChoice, width: int, styles: Styles) -> Line:
    marks = {"allow": ("✓", styles.good), "deny": ("⊘", styles.warning)}
    mark, style = marks.get(asked.answer.effect if asked.answer else "", ("?", styles.dim))
    words = f"{number + 1} {visible_name(asked.request.tool_name)} {visible(asked.subject)}"
    return [(f"{mark} ", style), (clip(words, max(1, width - 2)), styles.dim)]


def flat_menu(
    options: Sequence[Option],
    keymap: Keymap,
    style_of: Callable[[Option], Style],
    width: int,
    styles: Styles,
) -> list[Strip]:
    """The options side by side, for a screen with few rows."""
    flat: Line = []
    for option in options:
        key = keymap.name_of("dialog", option)
        flat += [(f"{key}\u00a0{option}", style_of(option)), ("  ", styles.text)]
    return wrap(flat[:-1], width)


def words_of(option: Option, asked: PermissionChoice, key: str, *, has_rules: bool) -> str:
    """An option with its key; `has_rules`: with the rules that it would store."""
    words = f"{key} {WORDS[option]}"
    return f"{words}: {asked.rules_shown}" if has_rules and option in _STORING else words


def width_with_rules(asked: PermissionChoice) -> int:
    """Cells that the options take with the rules that they would store."""
    storing = [len(WORDS[option]) for option in asked.options if option in _STORING]
    return len("▸ x : ") + max(storing, default=0) + cell_len(asked.rules_shown)


def role_of(action: str, asked: PermissionChoice, body: ScrollingLines, *, is_text: bool) -> Role:
    """What a key does at this question, as `Dialog.role_of`; `body` shows the call."""
    match action:
        case "once" | "session" | "always":
            return "select" if action in asked.options and body.seen_end else "none"
        case "deny":
            return "select" if is_text else "act"
        case "comment":
            return "select"
        case "choose_hunks":
            return "select" if asked.selection.places else "none"
        case "page_down" | "line_down" if is_text:
            return "use" if body.scroll_offset.y < body.max_scroll_y else "none"
        case "choose":
            return "confirm"
    return "act" if action else "none"
