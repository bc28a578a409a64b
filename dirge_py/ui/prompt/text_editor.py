"""A text area with whole placeholders, a kill ring and undo by words; the earlier prompts."""

from collections.abc import Iterable, Sequence
from typing import Any

from textual import events
from textual.document._document import EditResult, Location, Selection
from textual.document._edit import Edit
from textual.document._history import EditHistory
from textual.widgets import TextArea

from dirge_py.ui.prompt.placeholders import Pastes

_MOST_PROMPTS = 500


class InputHistory:
    """Prompts, oldest first, without consecutive duplicates; the draft follows the last one."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self._at: int | None = None
        self._draft = ""

    @property
    def shown(self) -> str | None:
        """The earlier prompt that is shown, if there is one."""
        return None if self._at is None else self.prompts[self._at]

    def add(self, prompt: str) -> None:
        self._at = None
        if prompt.strip() and self.prompts[-1:] != [prompt]:
            self.prompts.append(prompt)
            del self.prompts[:-_MOST_PROMPTS]

    def forget(self, prompt: str) -> None:
        """Remove a prompt."""
        self._at = None
        self.prompts = [each for each in self.prompts if each != prompt]

    def load(self, stored: Iterable[str], own: Iterable[str]) -> None:
        """Load the prompts of another conversation: stored ones first, its own last."""
        newest_first = dict.fromkeys(reversed([*stored, *self.prompts, *own]))
        self._at = None
        self.prompts = list(filter(str.strip, reversed(newest_first)))[-_MOST_PROMPTS:]

    def older(self, current: str) -> str | None:
        """Return the previous prompt; the first step keeps `current` as the draft."""
        self._keep_changed(current)
        if self._at is None and self.prompts:
            self._draft, self._at = current, len(self.prompts)
        if not self._at:
            return None
        self._at -= 1
        return self.prompts[self._at]

    def newer(self, current: str) -> str | None:
        """Return the next prompt, at the end the draft; None if no earlier prompt is shown."""
        if self._at is None:
            return None
        self._keep_changed(current)
        self._at += 1
        if self._at < len(self.prompts):
            return self.prompts[self._at]
        self._at = None
        return self._draft

    def _keep_changed(self, current: str) -> None:
        if current.strip() and self.shown not in (None, current):
            self._draft = current


class ReverseSearch:
    """A search of earlier prompts in the input, newest first; undo doesn't include its steps."""

    def __init__(self, field: "TextEditor", prompts: Sequence[str]) -> None:
        self._field = field
        self._prompts = list(dict.fromkeys(reversed(prompts)))
        self.draft = field.text
        self._query = ""
        self._has_failed = False
        self._at = -1
        self._steps, self._selection = field.history, field.selection
        field.history = UndoSteps()

    @property
    def match(self) -> str | None:
        """The matching prompt, if there is one."""
        return self._prompts[self._at] if self._at >= 0 else None

    @property
    def words(self) -> str:
        """The state of the search."""
        failure = "no match: " if self.match is None else "no other match: "
        return f"Search prompts: {failure if self._has_failed else ''}{self._query}"

    def type(self, text: str) -> None:
        """Add text to the query; a prompt that still matches stays, else the draft is shown."""
        self._query += text
        self._find(max(0, self._at), 1)
        if self._has_failed:
            self._at = -1
            self._write(self.draft)

    def act(self, action: str) -> None:
        """Do the action `older`, `newer` or `erase`."""
        match action:
            case "older":
                self._find(self._at + 1, 1)
            case "newer":
                self._find(self._at - 1, -1)
            case "erase":
                self._query, self._at, self._has_failed = self._query[:-1], -1, False
                self._find(0, 1 if self._query else 0)

    def leave(self) -> None:
        """End the search and restore the draft."""
        self._write(self.draft)
        self._field.selection = self._selection
        self._field.history = self._steps

    def _find(self, start: int, step: int) -> None:
        """Show the next match; without one the last match stays."""
        if step:
            query = self._query.casefold()
            places = range(start, len(self._prompts) if step > 0 else -1, step)
            index = next((at for at in places if query in self._prompts[at].casefold()), None)
            self._has_failed = index is None
            self._at = self._at if index is None else index
        self._write(self.draft if self.match is None else self.match)

    def _write(self, text: str) -> None:
        field = self._field
        if field.text != text:
            field.replace(text, (0, 0), field.document.end, maintain_selection_offset=False)


_CUTS = ("cut_to_end", "cut_to_start", "cut_word", "delete_word_left", "delete_word_right")
_YANKS = ("yank", "yank_pop")


class TextEditor(TextArea, inherit_bindings=False):
    """A text area whose actions are methods `key_action_…`; `did` is called after each."""

    def __init__(self, **options: Any) -> None:
        # The base class sets the first text, which needs it.
        self.pastes = Pastes()
        super().__init__(**options)
        self.history = UndoSteps()
        self._cuts = KillRing()
        self._last_action = ""
        self._yanked_from: Location = (0, 0)

    @property
    def before_cursor(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def did(self, action: str) -> None:
        """Remember the last action, as consecutive cuts join, and `yank_pop` needs a yank."""
        self._last_action = action

    def write(self, text: str) -> None:
        """Insert `text` at the cursor, or replace the selection."""
        self._replace_via_keyboard(text, *self.selection)

    def put(self, text: str) -> None:
        """Replace the whole text in one step of undo; the cursor goes to the end."""
        text = self.pastes.recalled(text)
        self.history.checkpoint()
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.history.checkpoint()

    def edit(self, edit: Edit) -> EditResult:
        top, bottom = self._whole(edit.top, edit.bottom)
        if (top, bottom) != (edit.top, edit.bottom):
            edit = Edit(edit.text, top, bottom, edit.maintain_selection_offset)
        return super().edit(edit)

    def _validate_selection(self, selection: Selection) -> Selection:
        start, end = super()._validate_selection(selection)
        before = self.selection
        return Selection(self._outside(start, before.start), self._outside(end, before.end))

    def _recompute_cursor_offset(self) -> None:
        # While undo removes lines, the cursor may still be on one of them.
        at = self.clamp_visitable(self.cursor_location)
        self._cursor_offset = self.wrapped_document.location_to_offset(at)

    def _outside(self, at: Location, came_from: Location) -> Location:
        row, column = at
        for left, right in self._spans(row):
            if left < column < right:
                if came_from[0] == row and not left < came_from[1] < right:
                    return (row, right if came_from[1] <= left else left)
                return (row, left if column - left < right - column else right)
        return at

    def _whole(self, start: Location, end: Location) -> tuple[Location, Location]:
        if start == end:
            outside = self._outside(start, self.document.end)
            return outside, outside
        for left, right in self._spans(start[0]):
            if left < start[1] < right:
                start = (start[0], left)
        for left, right in self._spans(end[0]):
            if left < end[1] < right:
                end = (end[0], right)
        return start, end

    def _spans(self, row: int) -> tuple[tuple[int, int], ...]:
        return tuple(self.pastes.spans(self.document[row])) if self._has_row(row) else ()

    def _has_row(self, row: int) -> bool:
        return 0 <= row < self.document.line_count

    def key_action_cut_to_end(self) -> None:
        row, column = self.cursor_location
        end = len(self.document[row])
        to = (row + 1, 0) if column == end and self._has_row(row + 1) else (row, end)
        self._cut((row, column), to, is_before=False)

    def key_action_cut_to_start(self) -> None:
        row, column = self.cursor_location
        to = (row - 1, len(self.document[row - 1])) if row and not column else (row, 0)
        self._cut(to, (row, column), is_before=True)

    def key_action_cut_word(self) -> None:
        self._cut(self.get_cursor_word_left_location(), self.cursor_location, is_before=True)

    key_action_delete_word_left = key_action_cut_word

    def key_action_delete_word_right(self) -> None:
        to = self._whole(self.cursor_location, self.get_cursor_word_right_location())[1]
        self._cut(self.cursor_location, to, is_before=False)

    def key_action_copy_region(self) -> None:
        """Copy the selection to the kill ring."""
        if self.selected_text:
            self._cuts.push(self.selected_text, joins=False, before=False)
            self.move_cursor(self.cursor_location)

    def key_action_yank(self) -> None:
        self._yank(self._cuts.yank())

    def key_action_yank_pop(self) -> None:
        """Replace the text of a yank by the cut before it."""
        if self._last_action in _YANKS:
            self.selection = Selection(self._yanked_from, self.cursor_location)
            self._yank(self._cuts.older())

    def keep_cut(self, text: str) -> None:
        """Add text that Vim has cut to the kill ring."""
        self._cuts.push(text, joins=False, before=False)

    def _cut(self, start: Location, end: Location, *, is_before: bool) -> None:
        if not self.selection.is_empty:
            start, end = sorted(self.selection)
        start, end = self._whole(start, end)
        joins = self._last_action in _CUTS
        self._cuts.push(self.get_text_range(start, end), joins=joins, before=is_before)
        self.history.checkpoint()
        self.delete(start, end, maintain_selection_offset=False)
        self.history.checkpoint()

    def _yank(self, text: str) -> None:
        if text:
            self._yanked_from = min(self.selection)
            self.history.checkpoint()
            self.write(text)
            self.history.checkpoint()

    def action_cursor_text_start(self, select: bool = False) -> None:
        self.move_cursor((0, 0), select=select)

    def action_cursor_text_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select=select)

    async def _on_mouse_down(self, event: events.MouseDown) -> None:
        self.did("")
        await super()._on_mouse_down(event)


_MOST_CUTS = 10


class KillRing:
    """The newest cuts. Consecutive cuts are joined, as in readline and Emacs."""

    def __init__(self) -> None:
        self._cuts: list[str] = []
        self._at = 0

    def push(self, text: str, *, joins: bool, before: bool) -> None:
        """Add a cut. `joins`: to the newest one; `before`: it was in front of the cursor."""
        if not text:
            return
        if joins and self._cuts:
            newest = self._cuts[-1]
            self._cuts[-1] = text + newest if before else newest + text
        else:
            self._cuts.append(text)
            del self._cuts[:-_MOST_CUTS]
        self._at = len(self._cuts) - 1

    def yank(self) -> str:
        """Return the newest cut; "" if there is none."""
        self._at = len(self._cuts) - 1
        return self._cuts[-1] if self._cuts else ""

    def older(self) -> str:
        """Return the cut before the last returned one; the newest follows the oldest."""
        self._at = (self._at - 1) % max(1, len(self._cuts))
        return self._cuts[self._at] if self._cuts else ""


class UndoSteps(EditHistory):
    """An undo history whose steps are words, and edits of several characters."""

    def __init__(self) -> None:
        # A pause in the typing (of less than an hour) begins no step.
        super().__init__(max_checkpoints=200, checkpoint_timer=3600.0, checkpoint_max_characters=80)
        self._was_space = False

    def record(self, edit: Edit) -> None:
        """Record an edit; a step begins with the first letter after a space."""
        is_space = edit.text.isspace()
        if self._was_space and edit.text and not is_space:
            self.checkpoint()
        self._was_space = is_space
        super().record(edit)
        result = edit._edit_result
        if not edit.text and result is not None and len(result.replaced_text) > 1:
            self.checkpoint()
