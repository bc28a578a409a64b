"""The question whether tool calls may run: everything they would do, word for word.

Nothing is cut: what does not fit is scrolled to, and the approving keys work only once the end was
in view. Of several calls one is shown and the others are listed; each has an answer of its own.
"""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.clean import visible
from dirge_py.lib.spelled import visible_name
from dirge_py.questions import PermissionAnswer, PermissionRequest, Reach
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.asked import paint_reach, paint_request
from dirge_py.ui.panels.docked import DockedPanel
from dirge_py.ui.panels.hint import KeyHint, paint_hint
from dirge_py.ui.panels.hunk_view import EditFile, HunkView
from dirge_py.ui.panels.options import WORDS, Asked, Option
from dirge_py.ui.panels.sheet import Sheet
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_MOST_OTHERS = 5
"""Rows for the other questions; the list moves with the one that is shown."""

_STORING: Sequence[Option] = ("session", "always")

_ROWS_WITH_REACH = 9
"""Rows beyond the options from which on it is said below them what their rules would match."""

_NARROW = 60
"""Columns below which the keys that are named take one line."""


class PermissionDialog(DockedPanel[Sequence[PermissionAnswer]]):
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
        ink: Ink,
        keymap: Keymap,
        guard_s: float,
    ) -> None:
        super().__init__(ink=ink, keymap=keymap, guard_s=guard_s)
        self._all = [Asked(request) for request in requests]
        self._edit_file = edit_file
        self._at = 0
        self._is_flat = False
        self._has_room_for_reach = True
        self._body = Sheet(self._paint_body, ink, on_end=self._note_read)
        self._body.add_class("body")
        self._others = Sheet(self._paint_others, ink)
        self._others.add_class("others")
        self._menu = Sheet(self._paint_menu, ink)
        self._menu.add_class("menu")
        self._hunks: HunkView | None = None
        self._comment = Input(
            placeholder="why not, for the model; Enter denies", select_on_focus=False
        )

    @property
    def _asked(self) -> Asked:
        return self._all[self._at]

    @property
    def may_approve(self) -> bool:
        """Was everything in view?"""
        return self._body.seen_end

    @property
    def is_writing(self) -> bool:
        return self._comment.has_focus

    def compose(self) -> ComposeResult:
        yield self._body
        yield self._menu
        yield self._others
        yield self._comment

    def on_mount(self) -> None:
        self._comment.cursor_blink = False
        self._asked.was_shown = True
        super().on_mount()

    def set_ink(self, ink: Ink) -> None:
        if self._hunks is not None:
            self._hunks.set_ink(ink)
        super().set_ink(ink)

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
        strips = paint_request(asked.request, place, width, self._ink, files=asked.selection.files)
        if asked.rules and not self._has_room_for_rules(width):
            strips += wrap([(f"Would be stored: {asked.rules_shown}", self._ink.dim)], width)
            if not self._is_flat and not self._has_room_for_reach and asked.reach:
                words = Reach(words=asked.reach.words)
                strips += paint_reach(words, width, self._ink)
        return strips

    def _paint_others(self, width: int) -> Sequence[Strip]:
        """The questions that are not shown, a line each."""
        rows = max(1, self._others.size.height)
        others = [number for number in range(len(self._all)) if number != self._at]
        first = max(0, min(self._at - rows // 2, len(others) - rows))
        return [strip(self._other(number, width)) for number in others[first : first + rows]]

    def _other(self, number: int, width: int) -> Line:
        asked, ink = self._all[number], self._ink
        marks = {"allow": ("✓", ink.good), "deny": ("⊘", ink.warning)}
        mark, style = marks.get(asked.answer.effect if asked.answer else "", ("?", ink.dim))
        words = f"{number + 1} {visible_name(asked.request.tool_name)} {visible(asked.subject)}"
        return [(f"{mark} ", style), (clip(words, max(1, width - 2)), ink.dim)]

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        if self._is_flat:
            return self._flat_menu(width)
        lines = [strip(self._option_line(option, width)) for option in self._asked.options]
        most = 1 if width < _NARROW else 2
        hint = paint_hint(self._hints, width, self._ink, most=most, indent="  ")
        return [*lines, *self._about_rules(width), *hint]

    def _about_rules(self, width: int) -> list[Strip]:
        """What the rules that would be stored would match, and whether wider ones are worth it."""
        asked, ink = self._asked, self._ink
        if not self._has_room_for_reach:
            return []
        strips = paint_reach(asked.reach, width, ink) if asked.reach else []
        if asked.request.alike and asked.has_two_widths and not asked.is_wide:
            key = self._keymap.name_of("dialog", "wider")
            words = f"{asked.request.alike} like it were allowed one by one; {key}: a rule for all"
            indent: Line = [("  ", ink.text)]
            strips += wrap([(words, ink.warning)], width, first=indent, rest=indent)
        return strips

    @property
    def _hints(self) -> Sequence[KeyHint]:
        if not self.may_approve:
            return [("read on to the end to approve: Space", "Space: read to the end")]
        name = self._keymap.name_of
        asked = self._asked
        comment = name("dialog", "comment")
        hints = [(f"{comment}: deny with a comment", f"{comment}: comment")]
        if asked.has_two_widths:
            width = "exact rule" if asked.is_wide else "wider rule"
            article = "the" if asked.is_wide else "a"
            key = name("dialog", "wider")
            hints.append((f"{key}: {article} {width}", f"{key}: {width.split()[0]}"))
        if asked.selection.places:
            key = name("dialog", "choose_hunks")
            hints.append((f"{key}: choose hunks", f"{key}: hunks"))
        if self._open_others():
            keys = "/".join(name("dialog", f"{way}_question") for way in ("previous", "next"))
            hints.append((f"{keys}: the others", f"{keys}: others"))
        return hints

    def _flat_menu(self, width: int) -> list[Strip]:
        """The options side by side, for a screen with few rows."""
        flat: Line = []
        for option in self._asked.options:
            key = self._keymap.name_of("dialog", option)
            flat += [(f"{key}\u00a0{option}", self._style_of(option)), ("  ", self._ink.text)]
        return wrap(flat[:-1], width)

    def _style_of(self, option: Option) -> Style:
        if not self.is_open or (option != "deny" and not self.may_approve):
            return self._ink.dim
        is_chosen = option == self._asked.chosen
        return self._ink.accent + self._ink.strong if is_chosen else self._ink.text

    def _option_line(self, option: Option, width: int) -> Line:
        mark = "▸ " if option == self._asked.chosen and self.is_open else "  "
        words = f"{self._keymap.name_of('dialog', option)} {WORDS[option]}"
        if option in _STORING and self._has_room_for_rules(width):
            words += f": {self._asked.rules_shown}"
        return [(mark, self._ink.accent), (words, self._style_of(option))]

    def _has_room_for_rules(self, width: int) -> bool:
        """What would be stored is never cut: it goes above where it is too long."""
        storing = [WORDS[option] for option in self._asked.options if option in _STORING]
        longest = max((len(words) for words in storing), default=0)
        needed = len("▸ x : ") + longest + cell_len(self._asked.rules_shown)
        return not self._is_flat and needed <= width

    def repaint_menu(self) -> None:
        self._menu.repaint()

    def _note_read(self) -> None:
        self._asked.is_read = True
        if self._hunks is None:
            self.refit()  # Other keys are named now, and may take another line.
        self.repaint_menu()

    # -- keys

    def act(self, action: str) -> None:
        match action:
            case "once" | "session" | "always" | "deny":
                self._take(action)
            case "choose":
                self._take(self._asked.chosen)
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
                self._comment.focus()
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
        self.focus()

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
            self._take_hunks,
            self._edit_file,
            ink=self._ink,
            keymap=self._keymap,
            was_read=self.may_approve,
        )
        self.add_class("choosing")
        self.mount(self._hunks)
        self._hunks.focus()
        self.refit()

    def _take_hunks(self, *, is_taken: bool) -> None:
        """The hunk view is done: back to the question, or with its outcome as the answer."""
        if self._hunks is None:
            return
        self._hunks.remove()
        self._hunks = None
        self.remove_class("choosing")
        self.focus()
        selection = self._asked.selection
        if not is_taken:
            selection.take_all_as_shown()
            self.refit()
        elif selection.accepted == 0:
            self._settle_one(PermissionAnswer(effect="deny"))
        else:
            self._settle_one(self._asked.allow("once", selection.outcome()))

    # -- answers

    def _take(self, option: Option) -> None:
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
