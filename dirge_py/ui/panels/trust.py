"""The question whether to trust a project: each file that would take effect, with its hash."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from textual.strip import Strip

from dirge_py.lib.text import plural, visible_name
from dirge_py.types.questions import ActingFile, TrustOffer
from dirge_py.ui.keymap import Scope
from dirge_py.ui.panels.dialog import Dialog, DialogOptions, Role, paint_key_hints
from dirge_py.ui.transcript.lines import Line, strip, wrap

_HASH_SHOWN = 12
"""Hex digits of a hash, to compare with `sha256sum`."""


class TrustDialog(Dialog[bool]):
    """Asks whether to trust a project; "yes" works only after the whole list was in view."""

    SCOPE: ClassVar[Scope] = "trust"

    def __init__(self, offer: TrustOffer, **options: Unpack[DialogOptions]) -> None:
        super().__init__(**options)
        self._offer = offer
        self._chosen: Literal["deny", "trust", ""] = ""

    def _paint_body(self, width: int) -> Sequence[Strip]:
        styles, files = self._styles, self._offer.files
        strips = wrap([("Trust this project?", styles.strong + styles.text)], width)
        strips += wrap([(visible_name(self._offer.project), styles.tool)], width)
        count = plural(len(files), "file")
        why = f"{count} in it would be read as settings or instructions, or run as code."
        strips += wrap([(why, styles.text)], width)
        for file in files:
            strips += self._file(file, width)
        without = "Without trust none of them is used; everything else works."
        return [*strips, *wrap([(without, styles.dim)], width)]

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
            hints = [("read on to the end to say yes: Space", "Space: read to the end")]
        elif self.is_open:
            key = self._keymap.name_of("trust", "choose")
            hints.insert(0, (f"{key}: answer" if self._chosen else f"select, then {key}",) * 2)
        return lines + paint_key_hints(hints, width, self._styles, most=1, indent="  ")

    def _option(self, action: str, words: str) -> Line:
        styles, is_chosen = self._styles, action == self._chosen
        is_possible = self.is_open and (action == "deny" or self.may_approve)
        style = styles.accent + styles.strong if is_chosen else styles.text
        mark = "▸ " if is_chosen and self.is_open else "  "
        key = self._keymap.name_of("trust", action)
        return [(mark, styles.accent), (f"{key} {words}", style if is_possible else styles.dim)]

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
