"""The input: several lines, history, pastes and Vim's modes. Its parent handles the text."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events
from textual.document._document import Selection
from textual.message import Message

from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.prompt.history import InputHistory, ReverseSearch
from dirge_py.ui.prompt.placeholders import LARGEST, as_mention
from dirge_py.ui.prompt.text_editor import TextEditor
from dirge_py.ui.prompt.vim.modes import Vim, VimResult
from dirge_py.ui.prompt.vim.motions import line_end, line_start

_MOVES = ("left", "right", "word_left", "word_right", "line_start", "line_end")
_MARKING = {
    "up": "select_up",
    "down": "select_down",
    "cursor_text_start": "select_text_start",
    "cursor_text_end": "select_text_end",
    **{f"cursor_{way}": f"select_{way}" for way in _MOVES},
}
"""What moving does while a mark is set."""


class Composer(TextEditor, inherit_bindings=False):
    """Where the next prompt is written. Keys come from the keymap, Textual's own are off."""

    DEFAULT_CSS = """
    Composer {
        height: auto;
        min-height: 1;
        border: none;
        padding: 0;
        background: $surface;
        color: $foreground;
        scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & .text-area--cursor-line { background: $surface; }
        & .text-area--placeholder { color: $dirge-dim; }
    }
    """
    BINDINGS: ClassVar = []

    @dataclass
    class Sent(Message):
        """The person is done writing. `how`: at once (or steering), or for later."""

        text: str
        how: Literal["now", "later"]

    @dataclass
    class ActionRequested(Message):
        """A key asked for something the composer cannot do itself; `action` as in the keymap."""

        action: str

    class PastedTooMuch(Message):
        """Of a paste only the beginning was taken."""

    class Restated(Message):
        """`words` or `stashed` changed."""

    @dataclass
    class CompletionKey(Message):
        """A key for the list of proposals was pressed while it was open."""

        action: str

    def __init__(self, keymap: Keymap, placeholder: str) -> None:
        self._searching: ReverseSearch | None = None
        super().__init__(id="composer", placeholder=placeholder, highlight_cursor_line=False)
        self.cursor_blink = False
        self.prompts = InputHistory()
        self._keymap = keymap
        self._vim: VimInput | None = None
        self._has_mark = False
        self.stashed: list[str] = []
        """Drafts put aside, the last one on top."""
        self.has_proposals = False

    # -- what others ask of it

    @property
    def draft(self) -> str:
        """What the person has written, whatever a search shows in its place."""
        return self._searching.draft if self._searching is not None else self.text

    @property
    def words(self) -> str:
        """What is to be said of its state: a search that goes on, the mode of Vim."""
        if self._searching is not None:
            return self._searching.words
        return self._vim.words if self._vim is not None else ""

    @property
    def may_propose(self) -> bool:
        """Whether the text is of the person's own making: an earlier prompt needs no proposals."""
        return self._searching is None and self.prompts.shown != self.text

    @property
    def is_in_use(self) -> bool:
        """Whether a text stands in it, or is being searched for."""
        return bool(self.text) or self._searching is not None

    @property
    def has_vim(self) -> bool:
        return self._vim is not None

    def use_vim(self, *, is_on: bool) -> None:
        """Take Vim's keys, beginning in insert mode, or give them up."""
        self._vim = VimInput(self) if is_on else None
        self.post_message(self.Restated())

    def put(self, text: str) -> None:
        self._leave_search(takes=False)
        super().put(text)

    def put_before(self, text: str) -> None:
        """Put `text` above the draft, which stays; below, if it would make a command of both."""
        self._leave_search(takes=False)
        parts = (self.text, text) if text.startswith(("!", "/")) else (text, self.text)
        self.put("\n".join(filter(None, parts)))

    def replace_before(self, count: int, text: str) -> None:
        """Replace the last `count` characters before the cursor, which are on its line."""
        row, column = self.cursor_location
        self.replace(text, (row, max(0, column - count)), (row, column))

    def press_enter(self) -> None:
        """Do what Enter does in the keymap that is in force."""
        found = self._keymap.action("enter", "composer")
        self.act(*(found or ("composer", "submit")))

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        if self._is_taken(event):
            event.stop()
            event.prevent_default()
            return
        found = self._keymap.action(event.key, "composer", "screen")
        if found is None:
            self.did("")
            self._has_mark = False
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        self.act(*found)

    def act(self, scope: Scope, action: str) -> None:
        """Do what an action means here; what is not ours is asked of the parent.

        A search for earlier prompts is over then, and what it found is taken.
        """
        self._leave_search(takes=True)
        action = _MARKING.get(action, action) if self._has_mark else action
        own = getattr(self, f"key_action_{action}", None) if scope == "composer" else None
        edit = getattr(self, f"action_{action}", None) if scope == "composer" else None
        if own is not None:
            own()
        elif edit is not None:
            edit()
        else:
            self.post_message(self.ActionRequested(action))
        self._has_mark = self._has_mark and action in {"set_mark", *_MARKING.values()}
        self.did(action)
        if self._vim is not None:
            self._vim.rest()

    def _is_taken(self, event: events.Key) -> bool:
        """Whether a search, an open list or Vim has a use for the key."""
        if self._searching is not None and self._search(event):
            return True
        found = self._keymap.action(event.key, "list") if self.has_proposals else None
        if found is not None and found[1] != "erase":
            self.post_message(self.CompletionKey(found[1]))
            if self._vim is None or event.key != "escape":
                return True
        return self._vim is not None and self._press_vim(event)

    def _press_vim(self, event: events.Key) -> bool:
        assert self._vim is not None
        is_sign = event.is_printable and event.character is not None
        outcome = self._vim.press((event.character or "") if is_sign else event.key)
        if outcome is None:
            # A sign that is no order is not written either.
            return is_sign and not self._vim.is_inserting
        if outcome.wish in ("undo", "redo"):
            (self.undo if outcome.wish == "undo" else self.redo)()
        elif outcome.wish:
            self.act("composer", outcome.wish)
        self._vim.rest()
        self.did("")
        self.post_message(self.Restated())
        return True

    # -- searching

    def key_action_search_history(self) -> None:
        self._searching = ReverseSearch(self, self.prompts.prompts)
        self.post_message(self.Restated())

    def _search(self, event: events.Key) -> bool:
        """Whether the key belongs to the search; any other takes the match, and does its work."""
        assert self._searching is not None
        found = self._keymap.action(event.key, "search")
        if found is None and not event.is_printable:
            self._leave_search(takes=True)
            return False
        if found is None:
            self._searching.type(event.character or "")
        elif found[1] in ("take", "leave"):
            self._leave_search(takes=found[1] == "take")
        else:
            self._searching.act(found[1])
        self.post_message(self.Restated())
        return True

    def _leave_search(self, *, takes: bool) -> None:
        if self._searching is not None:
            searching, self._searching = self._searching, None
            searching.leave()
            if takes and searching.match is not None:
                self.put(searching.match)
            self.post_message(self.Restated())

    # -- pasting

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.paste(event.text)

    def paste(self, pasted: str) -> None:
        """Put in what was pasted; a long text as a placeholder."""
        self._leave_search(takes=True)
        if len(pasted) > LARGEST:
            self.post_message(self.PastedTooMuch())
        text, dropped = self.pastes.take(as_mention(pasted), self.before_cursor)
        self.did("")
        self.history.checkpoint()
        if dropped and self.selection.is_empty:
            self.replace_before(len(dropped), text)
        else:
            self.write(text)
        self.history.checkpoint()

    def type_text(self, text: str) -> None:
        """Put in what was typed while something else had the keyboard, and is typed on here."""
        if self._vim is not None:
            self._vim.begin()
        if len(text) > 1:
            self.paste(text)
        else:
            self._leave_search(takes=True)
            self.write(text)

    # -- what keys do

    def key_action_submit(self) -> None:
        self._submit("now")

    def key_action_queue(self) -> None:
        self._submit("later")

    def key_action_newline(self) -> None:
        self.write("\n")

    def key_action_up(self) -> None:
        if not self.text:
            self.post_message(self.ActionRequested("up_on_empty"))
        elif self.navigator.is_first_wrapped_line(self.cursor_location):
            self.key_action_history_older()
        else:
            self.action_cursor_up()

    def key_action_down(self) -> None:
        if self.navigator.is_last_wrapped_line(self.cursor_location):
            self.key_action_history_newer()
        else:
            self.action_cursor_down()

    def key_action_history_older(self) -> None:
        older = self.prompts.older(self.text)
        if older is not None:
            self.put(older)

    def key_action_history_newer(self) -> None:
        newer = self.prompts.newer(self.text)
        if newer is not None:
            self.put(newer)

    def key_action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.ActionRequested("quit"))

    def key_action_paste(self) -> None:
        self.post_message(self.ActionRequested("paste"))

    def key_action_set_mark(self) -> None:
        """From here on moving selects."""
        self.move_cursor(self.cursor_location)
        self._has_mark = True

    def key_action_stash(self) -> None:
        """Put the draft aside; with an empty input: take the last one back."""
        if self.text.strip():
            self.stashed.append(self.text)
            self.put("")
        elif self.stashed:
            self.put(self.stashed.pop())
        self.post_message(self.Restated())

    def _submit(self, how: Literal["now", "later"]) -> None:
        if self.before_cursor.endswith("\\"):
            self.replace_before(1, "\n")
            return
        # Emptied here and now: what is typed while the message is on its way is the next prompt.
        text = self.text
        if text.strip():
            self.prompts.add(text)
            self.load_text("")
            if self._vim is not None:
                self._vim.begin()
        self.post_message(self.Sent(text, how))


_WORDS = {
    "insert": "INSERT",
    "normal": "NORMAL",
    "visual": "VISUAL",
    "visual line": "VISUAL LINE",
}


class VimInput:
    """A placeholder is one character here, so that no motion ends within it."""

    def __init__(self, field: TextEditor) -> None:
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

    def press(self, key: str) -> VimResult | None:
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

    def _show(self, outcome: VimResult) -> None:
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
