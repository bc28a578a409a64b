"""Vim's modes for the composer: its text and cursor go in, an edit and a selection come out."""

from textual.document._document import Selection

from dirge_py.ui.prompt.editing import Editing
from dirge_py.ui.prompt.vim.machine import Outcome, Vim
from dirge_py.ui.prompt.vim.words import line_end, line_start

_WORDS = {
    "insert": "INSERT",
    "normal": "NORMAL",
    "visual": "VISUAL",
    "visual line": "VISUAL LINE",
}


class VimInput:
    """A placeholder is one character here, so that no motion ends within it."""

    def __init__(self, field: Editing) -> None:
        self._field = field
        self._vim = Vim()
        self._shown: Selection | None = None
        self._at = 0

    @property
    def words(self) -> str:
        """The mode, and the keys of an order that is not complete."""
        return " ".join(part for part in (_WORDS[self._vim.mode], self._vim.pending) if part)

    @property
    def is_inserting(self) -> bool:
        return self._vim.mode == "insert"

    def begin(self) -> None:
        """The input is empty: write."""
        self._vim.begin()

    def press(self, key: str) -> Outcome | None:
        """Do what a key means; None: it means nothing in this mode."""
        field = self._field
        before = field.pastes.as_signs(field.text)
        outcome = self._vim.press(key, before, self._cursor(before))
        if outcome is not None:
            self._write(before, outcome.text)
            self._show(outcome)
            field.keep_cut(field.pastes.from_signs(outcome.cut))
        return outcome

    def rest(self) -> None:
        """Somebody else moved the cursor or wrote: it may stand where it cannot rest."""
        if self._vim.mode == "normal":
            text = self._field.pastes.as_signs(self._field.text)
            at = self._cursor(text)
            if at == line_end(text, at) and at > line_start(text, at):
                self._field.move_cursor(self._location(text, at - 1))

    def _cursor(self, text: str) -> int:
        """Where the cursor is in `text`, which has signs for placeholders."""
        field = self._field
        if field.selection == self._shown and not self.is_inserting:
            return min(self._at, len(text))
        return len(field.pastes.as_signs(field.before_cursor))

    def _location(self, text: str, at: int) -> tuple[int, int]:
        before = self._field.pastes.from_signs(text[:at])
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    def _write(self, before: str, after: str) -> None:
        """Change the text in one step, and only where it differs."""
        if before == after:
            return
        start = _same_at_start(before, after)
        most = min(len(before), len(after)) - start
        kept = _same_at_start(before[::-1][:most], after[::-1][:most])
        field = self._field
        field.history.checkpoint()
        field.replace(
            field.pastes.from_signs(after[start : len(after) - kept]),
            self._location(before, start),
            self._location(before, len(before) - kept),
        )
        field.history.checkpoint()

    def _show(self, outcome: Outcome) -> None:
        text, at, anchor = outcome.text, outcome.at, outcome.anchor
        start, end = (at, at) if anchor is None else (anchor, at)
        if anchor is not None and self._vim.mode == "visual line":
            low, high = line_start(text, min(start, end)), line_end(text, max(start, end))
            start, end = (low, high) if anchor <= at else (high, low)
        elif anchor is not None:
            # What is selected takes in the characters at both ends.
            start, end = (start, end + 1) if anchor <= at else (start + 1, end)
        selection = Selection(self._location(text, start), self._location(text, end))
        self._field.selection = selection
        self._at, self._shown = at, self._field.selection


def _same_at_start(one: str, other: str) -> int:
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low
