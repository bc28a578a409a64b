"""The dialog that asks whether tool calls may run, and shows everything they would do.

Nothing is cut: the person scrolls a long call, and can approve it only after its end was in view.
Nothing is selected at first, so that Enter alone answers nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Unpack

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip

from dirge_py.lib.text import plural, visible, visible_name
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach
from dirge_py.ui.keymap import Scope
from dirge_py.ui.panels.dialog import (
    Dialog,
    DialogOptions,
    KeyHint,
    Role,
    ScrollingLines,
    paint_key_hints,
)
from dirge_py.ui.panels.hunk_view import (
    ChangeSelection,
    EditFile,
    FileSelection,
    HunkView,
    paint_files,
)
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import is_split, paint_rows, read_diff
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_TRAILING = re.compile(r"[ \t]+(?=\n|\Z)")
"""Blanks at the end of a line, which are shown: behind a backslash they are part of a name."""
_SHORTEST_NAME = 24
"""Cells for each earlier call at least."""


def paint_request(
    request: PermissionRequest,
    place: str,
    width: int,
    styles: Styles,
    *,
    files: Sequence[FileSelection] = (),
) -> list[Strip]:
    """Paint the whole question; `files`, the changes of the preview, replace its text."""
    tool = (visible_name(request.tool_name), styles.tool)
    title: Line = [("Allow ", styles.text), tool, ("?", styles.text)]
    if place:
        title.append((f"  {place}", styles.text))
    runs = any(claim.op == "execute" for claim in request.claims)
    places = [f"in {visible_name(request.cwd)}"] if request.cwd and runs else []
    if request.preview is not None and request.preview.note:
        places.append(request.preview.note)
    where: Line = [(f"  {', '.join(places)}", styles.dim)] if places else []
    warning: Sequence[Strip] = ()
    if request.warning:
        style = styles.error + styles.strong
        spans, mark = [(visible(request.warning), style)], ("! ", style)
        warning = wrap(spans, width, first=[mark], rest=[("  ", styles.text)])
    # On a narrow screen the folder comes last.
    is_wide = strip([*title, *where]).cell_length <= width
    return [
        *wrap([*title, *where] if is_wide else title, width),
        *warning,
        *_paint_call(request, width, styles, files),
        *_paint_reasons(request, width, styles),
        *([] if is_wide else wrap(where, width)),
    ]


def paint_reach(reach: Reach, width: int, styles: Styles) -> list[Strip]:
    """Paint which calls a rule covers; of earlier calls, their start."""
    lines = [f"This rule covers: {visible_name(reach.words)}"]
    if reach.also:
        lines.append(f"  also, of this session: {_named(reach.also, width)}")
    if reach.still:
        lines.append(f"  but not: {_named(reach.still, width)}")
    return wrap([("\n".join(lines), styles.dim)], width, indent=("  ", styles.text))


def _named(calls: Sequence[str], width: int) -> str:
    size = max(_SHORTEST_NAME, (width - len("    also, of this session: ")) // len(calls) - 3)
    return " · ".join(clip(visible(call), size) for call in calls)


def _paint_call(
    request: PermissionRequest, width: int, styles: Styles, files: Sequence[FileSelection]
) -> list[Strip]:
    preview = request.preview
    if preview is None:
        return []
    if files:
        return paint_files(files, width, styles)
    if preview.kind == "diff":
        path = wrap([(visible_name(preview.path), styles.strong + styles.text)], width)
        rows, split = read_diff(visible(preview.text)), is_split("auto", width)
        return path + paint_rows(rows, width, styles, is_whole=True, split=split)[0]
    shown = _TRAILING.sub(lambda blanks: f"<{plural(len(blanks[0]), 'blank')}>", preview.text)
    return wrap([(visible(shown), styles.text)], width, indent=("│ ", styles.warning))


def _paint_reasons(request: PermissionRequest, width: int, styles: Styles) -> list[Strip]:
    strips: list[Strip] = []
    preview = request.preview
    asking = [claim for claim in request.claims if claim.effect != "allow"]
    seen = (preview.text.strip(), preview.path) if preview is not None else ()
    for claim in (asking if preview is not None else ()) or request.claims:
        line: Line = []
        if claim.resource.strip() not in seen:
            part = claim.resource if claim.op == "execute" else f"{claim.op} {claim.resource}"
            line += [(visible(part), styles.text), (" — ", styles.dim)]
        line.append((visible(claim.reason), styles.dim))
        strips += wrap(line, width, indent=("  ", styles.text))
    return strips


Option = Literal["once", "session", "always", "deny"]
WORDS: dict[Option, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Allow always, in your settings",
    "deny": "Deny",
}

_STORING: Sequence[Option] = ("session", "always")
_DETOURS = {
    "comment": "write a comment and deny",
    "choose_hunks": "choose hunks",
    "accept": "accept this hunk",
    "refuse": "refuse this hunk",
    "edit": "edit the file",
}


@dataclass(slots=True)
class PermissionChoice:
    """The state of one request in the dialog."""

    request: PermissionRequest
    chosen: Option | None = None
    """What Enter does; None until the person has selected something."""
    is_wide: bool = False
    """The wider rules would be stored."""
    is_read: bool = False
    """The end of the request was in view."""
    was_shown: bool = False
    """It was the shown request at some time."""
    answer: PermissionAnswer | None = None
    """The person's answer, if there is one."""
    selection: ChangeSelection = field(init=False)
    """The hunks of its changes, and which of them are accepted."""

    def __post_init__(self) -> None:
        self.is_wide = not self.request.grant and bool(self.request.wider)
        preview = self.request.preview
        self.selection = ChangeSelection(preview.changes if preview is not None else ())

    @property
    def options(self) -> Sequence[Option]:
        storing: Sequence[Option] = _STORING if self.request.can_keep else _STORING[:1]
        return ["once", *(storing if self.rules else ()), "deny"]

    @property
    def rules(self) -> Sequence[str]:
        """The rules that "for this session" and "always" would store."""
        return self.request.wider if self.is_wide else self.request.grant

    @property
    def rules_shown(self) -> str:
        return ", ".join(visible_name(rule) for rule in self.rules)

    @property
    def reach(self) -> Reach | None:
        """The calls those rules would allow."""
        return self.request.wider_reach if self.is_wide else self.request.grant_reach

    @property
    def has_two_widths(self) -> bool:
        return bool(self.request.grant and self.request.wider)

    def move(self, step: int) -> None:
        options = self.options
        at = options.index(self.chosen) + step if self.chosen else min(step, 0)
        self.chosen = options[at % len(options)]

    def allow(self, option: Option) -> PermissionAnswer:
        """Return the answer for this option."""
        if option == "session" or option == "always":
            return PermissionAnswer(effect="allow", remember=option, is_wide=self.is_wide)
        return PermissionAnswer(effect="allow")

    @property
    def subject(self) -> str:
        """The command, path or other resource of the call."""
        preview = self.request.preview
        if preview is not None and preview.kind != "diff":
            return preview.text
        paths = [file.path for file in self.selection.files] or [preview.path if preview else ""]
        if paths[0]:
            return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        return next((claim.resource for claim in self.request.claims), "")


_MOST_OTHERS = 5
"""Rows for the list of the other questions."""
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
        super().__init__(placeholder="Tell the model why (Enter to deny)", **options)
        self._all = [PermissionChoice(request) for request in requests]
        self._at = 0
        self._edit_file = edit_file
        self._detour = ""
        """What Enter does if a key of `_DETOURS` was selected instead of an answer."""
        self._is_flat = False
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
            menu = len(self._paint_menu(width))
            others = 0 if self._is_flat else min(len(self._all) - 1, _MOST_OTHERS, rows // 4)
            self._menu.styles.height, self._others.styles.height = menu, others
            self._body.repaint()
            self._others.repaint()
            self.repaint_menu()
            needed = len(self._paint_body(width)) + menu + others + self.has_class("writing")
        height = min(needed + border, rows)
        self.styles.height = height
        return height

    def _paint_body(self, width: int) -> Sequence[Strip]:
        asked = self._asked
        place = f"{self._at + 1} of {len(self._all)}" if len(self._all) > 1 else ""
        files = asked.selection.files
        strips = paint_request(asked.request, place, width, self._styles, files=files)
        if asked.rules and not self._shows_rules(width):
            strips += wrap([(f"Would be stored: {asked.rules_shown}", self._styles.dim)], width)
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
        lines: list[Strip] = []
        for option in asked.options:
            mark = "▸ " if option == asked.chosen and self.is_open else "  "
            words = f"{name('dialog', option)} {WORDS[option]}"
            if shows_rules and option in _STORING:
                words += f": {asked.rules_shown}"
            lines.append(strip([(mark, self._styles.accent), (words, self._style_of(option))]))
        most = 1 if width < _NARROW else 2
        usual = self._usual_hints()
        shown, wanted = (
            paint_key_hints(hints, width, self._styles, most=most, indent="  ")
            for hints in (self._hints(usual), usual)
        )
        # Always the same number of lines, as another one would push the call's end out of view.
        blank = [Strip.blank(width)] * (len(wanted) - len(shown))
        if self._shows_reach:
            lines += self._paint_rules(width)
        return [*lines, *shown[: len(wanted)], *blank]

    def _paint_rules(self, width: int) -> list[Strip]:
        asked, styles = self._asked, self._styles
        strips = paint_reach(asked.reach, width, styles) if asked.reach else []
        if asked.request.alike and asked.has_two_widths and not asked.is_wide:
            key = self._keymap.name_of("dialog", "wider")
            alike = asked.request.alike
            words = f"{alike} similar ones were allowed one by one; {key}: a rule for all"
            strips += wrap([(words, styles.warning)], width, indent=("  ", styles.text))
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
            tool = visible_name(asked.request.tool_name)
            words = clip(f"{number + 1} {tool} {visible(asked.subject)}", max(1, width - 2))
            strips.append(strip([(f"{mark} ", style), (words, styles.dim)]))
        return strips

    def _usual_hints(self) -> Sequence[KeyHint]:
        asked, name = self._asked, self._keymap.name_of
        enter, comment = name("dialog", "choose"), name("dialog", "comment")
        words = f"{enter}: answer" if asked.chosen else f"select, then {enter}"
        hints = [(words, words), (f"{comment}: deny with a comment", f"{comment}: comment")]
        if asked.has_two_widths:
            width = "the exact" if asked.is_wide else "a wider"
            key = name("dialog", "wider")
            hints.append((f"{key}: {width} rule", f"{key}: {width.split()[1]}"))
        if asked.selection.places:
            key = name("dialog", "choose_hunks")
            hints.append((f"{key}: choose hunks", f"{key}: hunks"))
        if self._open_others():
            keys = "/".join(name("dialog", f"{way}_question") for way in ("previous", "next"))
            hints.append((f"{keys}: the others", f"{keys}: others"))
        return [*hints, *self.hints_of_typing]

    def _hints(self, usual: Sequence[KeyHint]) -> Sequence[KeyHint]:
        if not self.is_open:
            return self.hints_of_typing
        if self._detour:
            enter = self._keymap.name_of("dialog", "choose")
            return [(f"{enter}: {_DETOURS[self._detour]}",) * 2, *self.hints_of_typing]
        if not self.may_approve:
            hint = ("read on to the end to approve: Space", "Space: read to the end")
            return [hint, *self.hints_of_typing]
        return usual

    def _style_of(self, option: Option) -> Style:
        if not self.is_open or (option != "deny" and not self.may_approve):
            return self._styles.dim
        is_chosen = option == self._asked.chosen
        return self._styles.accent + self._styles.strong if is_chosen else self._styles.text

    def _shows_rules(self, width: int) -> bool:
        """Whether the rules fit behind the options; if not, the body shows them."""
        storing = [len(WORDS[option]) for option in self._asked.options if option in _STORING]
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
            case "comment":
                return "select"
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
                self._switch_width()
            case "choose_hunks":
                self._choose_hunks()
            case "comment":
                self.start_writing()
            case "line_up" | "line_down" | "page_up" | "page_down" | "end":
                self.scroll_body(action)

    def key_while_writing(self, event: events.Key) -> None:
        _, action = self._keymap.action(event.key, "dialog") or ("", "")
        known = ("choose", "deny", "comment", "deny_and_stop", "wider")
        if action not in known or event.is_printable:
            return
        event.stop().prevent_default()
        if action == "choose":
            self.stop_writing()
            self._settle_one(PermissionAnswer(effect="deny", comment=self._input.value.strip()))
        elif action == "deny_and_stop":
            self._deny_all(self._input.value.strip())
        else:
            self.stop_writing()

    def _switch_width(self) -> None:
        asked = self._asked
        if not asked.has_two_widths:
            return
        asked.is_wide = not asked.is_wide
        if not self._shows_rules(self._body.size.width - 1):
            # The end of the body shows the rules, which changed.
            asked.is_read = self._body.seen_end = False
        self.refit()

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
        self._input.value = ""
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
