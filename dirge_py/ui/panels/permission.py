"""The dialog that asks whether tool calls may run, and shows everything they would do.

Nothing is cut: the person scrolls a long call, and can approve it only after its end was in view.
Nothing is selected at first, so that Enter alone answers nothing.
"""

from collections.abc import Sequence
from typing import Literal, Unpack

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.widgets import Input

from dirge_py.lib.text import visible, visible_name
from dirge_py.types.errors import DirgeError
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach, RuleOffer
from dirge_py.ui.keymap import Scope
from dirge_py.ui.panels.dialog import (
    Dialog,
    DialogOptions,
    KeyHint,
    Role,
    ScrollingLines,
    has_air,
    paint_key_hints,
    select_hint,
)
from dirge_py.ui.panels.hunk_view import EditFile, HunkView
from dirge_py.ui.panels.permission_request import (
    STORING,
    WORDS,
    Option,
    PermissionChoice,
    paint_reach,
    paint_request,
)
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, clip, selected_row, strip, wrap

_DETOURS = {
    "comment": "write a comment and deny",
    "edit_rule": "change the rule",
    "edit_command": "change the command",
    "choose_hunks": "choose hunks",
    "accept": "accept this hunk",
    "refuse": "reject this hunk",
    "edit": "edit the file",
}


Writing = Literal["comment", "edit_rule", "edit_command"]
_PLACEHOLDERS: dict[Writing, str] = {
    "comment": "Tell the model why (Enter to deny)",
    "edit_rule": "The rule to store, such as execute:make test *",
    "edit_command": "The command to run instead",
}
_FINISHES: dict[Writing, str] = {
    "comment": "deny with this comment",
    "edit_rule": "use this rule",
    "edit_command": "run this instead",
}
_BETWEEN_RULES = " ; "
"""Separates rules while they are edited; no command pattern contains it."""
_MOST_OTHERS = 5
"""Rows for the list of the other questions."""
_LONGEST_NAMED = 40
"""Cells of rules that a key hint names."""
_ROWS_WITH_REACH = 9
"""Rows beside the options from which the reach of their rules is shown."""
_NARROW = 60
"""Columns below which the key hints have one line."""


class PermissionDialog(Dialog[Sequence[PermissionAnswer]]):
    """Asks about calls. `answer` has one for each request, in their order."""

    DEFAULT_CSS = """
    PermissionDialog .others { height: 0; overflow: hidden hidden; }
    PermissionDialog.choosing { & .body, & .menu, & .others { display: none; } }
    """

    def __init__(
        self,
        requests: Sequence[PermissionRequest],
        edit_file: EditFile,
        **options: Unpack[DialogOptions],
    ) -> None:
        super().__init__(placeholder=_PLACEHOLDERS["comment"], **options)
        self._all = [PermissionChoice(request) for request in requests]
        self._at = 0
        self._edit_file = edit_file
        self._detour = ""
        """What Enter does if a key of `_DETOURS` was selected instead of an answer."""
        self._writing: Writing = "comment"
        """What the line of text is for."""
        self._own: RuleOffer | None = None
        """The rules in that line, if they are valid."""
        self._problem = ""
        """Why they are not."""
        self._written_at = 0.0
        """When that line changed last."""
        self._is_flat = self._is_airy = False
        self._shows_reach = True
        self._others = ScrollingLines(self._paint_others, self._styles).add_class("others")
        self._hunks: HunkView | None = None

    @property
    def _asked(self) -> PermissionChoice:
        return self._all[self._at]

    def compose(self) -> ComposeResult:
        return (*super().compose(), self._others, self._input)

    def on_mount(self) -> None:
        self._asked.was_shown = True
        self._asked.has_others = len(self._all) > 1
        super().on_mount()

    def use_styles(self, styles: Styles) -> None:
        if self._hunks is not None:
            self._hunks.use_styles(styles)
        super().use_styles(styles)

    def fit(self, rows: int) -> int:
        width = self.app.size.width - 3
        self._is_flat = rows < len(self._asked.options) + 5
        self._shows_reach = rows >= len(self._asked.options) + _ROWS_WITH_REACH
        self.set_class(self._is_flat, "flat")
        border = 0 if self._is_flat else 1
        if self._hunks is not None:
            needed = self._hunks.fit(rows - border)
        else:
            self._is_airy = False
            body, menu = len(self._paint_body(width)), len(self._paint_menu(width))
            self._is_airy = not self._is_flat and has_air(body + menu + border, rows)
            menu = len(self._paint_menu(width))
            others = 0 if self._is_flat else min(len(self._all) - 1, _MOST_OTHERS, rows // 4)
            self._menu.styles.height, self._others.styles.height = menu, others
            self._body.repaint()
            self._others.repaint()
            self.repaint_menu()
            needed = body + menu + others + self.has_class("writing")
        height = min(needed + border, rows)
        self.styles.height = height
        return height

    def _paint_body(self, width: int) -> Sequence[Strip]:
        asked = self._asked
        place = f"{self._at + 1} of {len(self._all)}" if len(self._all) > 1 else ""
        files = asked.selection.files
        strips = paint_request(asked.request, place, width, self._styles, files=files)
        if asked.rules and not self._shows_rules(width):
            words = (f"Will be stored: {asked.rules_shown}", self._styles.dim)
            strips += wrap([words], width, indent=("  ", self._styles.text))
            if not self._is_flat and not self._shows_reach and asked.reach:
                strips += paint_reach(Reach(words=asked.reach.words), width, self._styles)
        return strips

    def _paint_menu(self, width: int) -> Sequence[Strip]:
        asked, name = self._asked, self._keymap.name_of
        if self._is_flat:
            flat: Line = []
            for option in asked.options:
                words = f"{name('dialog', option)}\u00a0{option}"
                flat += [(words, self._style_of(option)), ("  ", self._styles.text)]
            return wrap(flat[:-1], width)
        shows_rules = self._shows_rules(width)
        air = [Strip.blank(width, self._styles.text)] if self._is_airy else []
        lines: list[Strip] = [*air]
        for option in asked.options:
            mark = "▸ " if option == asked.chosen and self.is_open else "  "
            words = f" {WORDS[option]}"
            if shows_rules and option in STORING:
                words += f": {asked.rules_shown}"
            if option == "all":
                words += f" ({len(self._open_others()) + 1})"
            is_selected = mark.strip() != ""
            style = self._style_of(option)
            key = (name("dialog", option), style + self._styles.strong)
            line = strip([(mark, self._styles.accent), key, (words, style)])
            lines.append(selected_row(line, width, self._styles.accent) if is_selected else line)
        most = 1 if width < _NARROW else 2
        usual = self._usual_hints(width)
        shown, wanted = (
            paint_key_hints(hints, width, self._styles, most=most, indent="  ")
            for hints in (self._hints(usual), usual)
        )
        # Always the same number of lines, as another one would push the call's end out of view.
        blank = [Strip.blank(width, self._styles.text)] * (len(wanted) - len(shown))
        lines += air
        if self._shows_reach:
            lines += self._paint_rules(width)
        return [*lines, *shown[: len(wanted)], *blank]

    def _paint_rules(self, width: int) -> list[Strip]:
        asked, styles = self._asked, self._styles
        indent = ("  ", styles.text)
        if self._writes_rule and self._problem:
            return wrap([(self._problem, styles.error)], width, indent=indent)
        reach = self._own.reach if self._writes_rule and self._own else asked.reach
        strips = paint_reach(reach, width, styles) if reach else []
        if asked.request.no_wider and asked.at == 0:
            what = "No wider rule" if asked.offers else "Can be allowed only once"
            words = f"{what}: {visible(asked.request.no_wider)}"
            strips += wrap([(words, styles.dim)], width, indent=indent)
        if asked.request.alike and asked.next_rules and asked.at == 0:
            key = self._keymap.name_of("dialog", "wider")
            alike = asked.request.alike
            words = f"you allowed {alike} similar calls one by one; {key}: one rule for all"
            strips += wrap([(words, styles.warning)], width, indent=indent)
        return strips

    def _paint_others(self, width: int) -> Sequence[Strip]:
        styles, rows = self._styles, max(1, self._others.size.height)
        marks = {"allow": ("✓", styles.good), "deny": ("⊘", styles.warning)}
        others = [number for number in range(len(self._all)) if number != self._at]
        first = max(0, min(self._at - rows // 2, len(others) - rows))
        strips: list[Strip] = []
        for number in others[first : first + rows]:
            asked = self._all[number]
            mark, style = marks.get(asked.answer.effect if asked.answer else "", ("?", styles.dim))
            words = clip(self._listed(number), max(1, width - 2))
            strips.append(strip([(f"{mark} ", style), (words, styles.dim)]))
        return strips

    def _usual_hints(self, width: int) -> Sequence[KeyHint]:
        asked, name = self._asked, self._keymap.name_of
        enter, comment = name("dialog", "choose"), name("dialog", "comment")
        hints = [select_hint(enter, width, is_chosen=bool(asked.chosen))]
        hints.append((f"{comment}: deny with a comment", f"{comment}: comment"))
        if rules := asked.next_rules:
            key = name("dialog", "wider")
            kind = "the exact" if asked.at + 1 == len(asked.offers) else "a wider"
            words = f"store {rules}" if len(rules) <= _LONGEST_NAMED else f"{kind} rule"
            hints.append((f"{key}: {words}", f"{key}: {kind.split()[1]}"))
        if asked.offers:
            hints.append((f"{name('dialog', 'edit_rule')}: change the rule",) * 2)
        if asked.request.command:
            hints.append((f"{name('dialog', 'edit_command')}: change the command",) * 2)
        if asked.selection.places:
            key = name("dialog", "choose_hunks")
            hints.append((f"{key}: choose hunks", f"{key}: hunks"))
        if self._open_others():
            keys = "/".join(name("dialog", f"{way}_question") for way in ("previous", "next"))
            hints.append((f"{keys}: the others", f"{keys}: others"))
        return [*hints, *self.hints_of_typing]

    def _hints(self, usual: Sequence[KeyHint]) -> Sequence[KeyHint]:
        if self.has_class("writing"):
            enter = f"{self._keymap.name_of('dialog', 'choose')}: {_FINISHES[self._writing]}"
            return [(enter, enter), ("Esc: back", "Esc: back")]
        if not self.is_open:
            return self.hints_of_typing
        if self._detour:
            enter = self._keymap.name_of("dialog", "choose")
            return [(f"{enter}: {_DETOURS[self._detour]}",) * 2, *self.hints_of_typing]
        if not self.may_approve:
            hint = ("Space: read to the end to approve", "Space: read to the end")
            return [hint, *self.hints_of_typing]
        return usual

    def _style_of(self, option: Option) -> Style:
        may_select = self._may_approve_all if option == "all" else self.may_approve
        if not self.is_open or (option != "deny" and not may_select):
            return self._styles.dim
        is_chosen = option == self._asked.chosen
        return self._styles.accent + self._styles.strong if is_chosen else self._styles.text

    def _shows_rules(self, width: int) -> bool:
        """Whether the rules fit behind the options; if not, the body shows them."""
        storing = [len(WORDS[option]) for option in self._asked.options if option in STORING]
        needed = len("▸ x : ") + max(storing, default=0) + cell_len(self._asked.rules_shown)
        return not self._is_flat and needed <= width

    def repaint_menu(self) -> None:
        if self._hunks is not None:
            enter = [(f"Enter: {_DETOURS[self._detour]}",) * 2] if self._detour else []
            away = [] if self.has_keyboard else self.hints_of_typing
            self._hunks.repaint_menu(enter or away)
        self._menu.repaint()

    def _on_read(self) -> None:
        self._asked.is_read = True
        if self._hunks is None:
            self.refit()  # The key hints change, and may need another line.
        self.repaint_menu()

    @property
    def scope(self) -> Scope:
        return self.SCOPE if self._hunks is None else "hunks"

    def role_of(self, action: str, *, is_text: bool) -> Role:
        if self._hunks is not None:
            return self._hunks.role_of(action)
        match action:
            case "once" | "session" | "always":
                return "select" if action in self._asked.options and self.may_approve else "none"
            case "all":
                return "select" if self._may_approve_all else "none"
            case "comment":
                return "select"
            case "edit_rule":
                return "select" if self._asked.offers else "none"
            case "edit_command":
                return "select" if self._asked.request.command else "none"
            case "choose_hunks":
                return "select" if self._asked.selection.places else "none"
        return super().role_of(action, is_text=is_text)

    def select(self, action: str) -> None:
        self._asked.chosen = next((option for option in WORDS if option == action), None)
        self._detour = "" if self._asked.chosen else action

    def deselect(self, undone: int = 0) -> None:
        self._detour = ""
        if self._hunks is not None:
            self._hunks.forget_cursor(undone)
        else:
            self._asked.chosen = None

    def confirm(self) -> None:
        chosen = self._asked.chosen
        detour, self._detour = self._detour, ""
        if self._hunks is not None:
            self._hunks.act(detour or "choose")
        elif detour:
            self.act(detour)
        elif chosen == "deny":
            self._settle_one(PermissionAnswer(effect="deny"))
        elif chosen == "all":
            if self._may_approve_all:
                self._allow_all()
        elif chosen and chosen in self._asked.options and self.may_approve:
            self._settle_one(self._asked.allow(chosen))

    def move_choice(self, step: int) -> None:
        self._asked.move(step)

    def act(self, action: str) -> None:
        self._detour = ""
        if self._hunks is not None and action != "deny_and_stop":
            self._hunks.act(action)
            return
        match action:
            case "deny":
                self._settle_one(PermissionAnswer(effect="deny"))
            case "deny_and_stop":
                self._deny_all()
            case "previous" | "next":
                self._asked.move(-1 if action == "previous" else 1)
            case "previous_question" | "next_question":
                self._turn(-1 if action == "previous_question" else 1)
            case "wider":
                self._show_next_offer()
            case "choose_hunks":
                self._choose_hunks()
            case "comment" | "edit_rule" | "edit_command":
                self._write(action)
            case "line_up" | "line_down" | "page_up" | "page_down" | "end":
                self.scroll_body(action)

    def key_while_writing(self, event: events.Key) -> None:
        _, action = self._keymap.action(event.key, "dialog") or ("", "")
        known = ("choose", "deny", "comment", "deny_and_stop", "wider")
        if action not in known or event.is_printable:
            return
        event.stop().prevent_default()
        if action == "choose":
            self._finish_writing()
        elif action == "deny_and_stop":
            self._deny_all(self._input.value.strip() if self._writing == "comment" else "")
        else:
            self.stop_writing()

    def _write(self, what: Writing) -> None:
        """Let the person write a line: a comment, a rule, or another command."""
        asked = self._asked
        if what == "edit_command" and "\n" in asked.request.command:
            self.run_worker(self._edit_long_command(), exclusive=True)
            return
        texts: dict[Writing, str] = {
            "comment": self._input.value if self._writing == "comment" else "",
            "edit_rule": _BETWEEN_RULES.join(asked.rules),
            "edit_command": asked.request.command,
        }
        self._writing, self._own, self._problem = what, None, ""
        self._input.placeholder = _PLACEHOLDERS[what]
        self._input.value = texts[what]
        self._input.cursor_position = len(self._input.value)
        self.start_writing()

    @property
    def _writes_rule(self) -> bool:
        return self._writing == "edit_rule" and self.has_class("writing")

    def _finish_writing(self) -> None:
        text = self._input.value.strip()
        if self._writing == "comment":
            self.stop_writing()
            self._settle_one(PermissionAnswer(effect="deny", comment=text))
        elif self._writing == "edit_rule":
            self._try_rules()
            if self._own is not None:
                self._asked.use_own_rules(self._own)
                self.stop_writing()
            self.refit()
        elif not self._guard.is_paste(self._clock() - self._written_at):
            self.stop_writing()
            self._run_instead(text)

    def _run_instead(self, command: str) -> None:
        if command and command != self._asked.request.command:
            self._settle_one(PermissionAnswer(effect="allow", command=command))

    async def _edit_long_command(self) -> None:
        asked = self._asked
        try:
            edited = await self._edit_file(asked.request.command, "command.sh")
        except DirgeError as error:
            self.app.notify(error.in_one_line())
            return
        if edited is not None and asked is self._asked and not self.answer.done():
            self._run_instead(edited.strip())

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._written_at = self._clock()
        if self._writes_rule:
            self._try_rules()
            self.refit()

    def _try_rules(self) -> None:
        """Check the rules in the line of text."""
        self._own, self._problem = None, ""
        rules = [rule.strip() for rule in self._input.value.split(_BETWEEN_RULES) if rule.strip()]
        if self._asked.request.try_rules is None:
            return
        try:
            self._own = self._asked.request.try_rules(rules)
        except DirgeError as error:
            self._problem = error.in_one_line()

    def _show_next_offer(self) -> None:
        asked = self._asked
        if len(asked.offers) < 2:
            return
        asked.at = (asked.at + 1) % len(asked.offers)
        if not self._shows_rules(self._body.size.width - 1):
            # The end of the body shows the rules, which changed.
            asked.is_read = self._body.seen_end = False
        self.refit()

    @property
    def _may_approve_all(self) -> bool:
        """Whether every open call was in view, in full."""
        others = [self._all[number] for number in self._open_others()]
        shown = 0 if self._is_flat else self._others.size.height
        fits = len(self._all) - 1 <= shown
        return (
            bool(others)
            and self.may_approve
            and all(one.is_read or (fits and self._is_listed_whole(one)) for one in others)
        )

    def _is_listed_whole(self, asked: PermissionChoice) -> bool:
        """Whether the line in the list of the other calls says all of this one."""
        preview = asked.request.preview
        is_command = bool(asked.request.command) and preview is not None
        line = self._listed(self._all.index(asked))
        is_one_line = "\n" not in asked.subject and not asked.request.warning
        return is_command and is_one_line and cell_len(line) + 2 <= max(1, self._others.size.width)

    def _listed(self, number: int) -> str:
        asked = self._all[number]
        tool = visible_name(asked.request.tool_name)
        return f"{number + 1} {tool} {visible(asked.subject)}"

    def _allow_all(self) -> None:
        for asked in self._all:
            asked.answer = asked.answer or PermissionAnswer(effect="allow")
        self.settle([asked.answer for asked in self._all if asked.answer is not None])

    def _open_others(self) -> Sequence[int]:
        return [n for n, asked in enumerate(self._all) if asked.answer is None and n != self._at]

    def _turn(self, step: int) -> None:
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
        asked.has_others = bool(self._open_others())
        self._writing, self._input.value = "comment", ""
        self.refit()
        self._body.turn(was_read=asked.is_read)
        if not asked.was_shown:
            asked.was_shown = True
            self.guard_again()
        self.repaint_menu()

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

    def _finish_hunks(self, is_taken: bool) -> None:
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
            self._settle_one(PermissionAnswer(effect="allow", changes=selection.outcome()))

    def _settle_one(self, answer: PermissionAnswer) -> None:
        self._asked.answer = answer
        if self._open_others():
            self._turn(1)
        else:
            self.settle([asked.answer for asked in self._all if asked.answer is not None])

    def _deny_all(self, comment: str = "") -> None:
        self.wants_stop = True
        self._asked.answer = PermissionAnswer(effect="deny", comment=comment)
        self.settle([asked.answer or PermissionAnswer(effect="deny") for asked in self._all])
