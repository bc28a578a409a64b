"""The input with its history, pastes and Vim's modes, and the saving of drafts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partialmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.document._document import Selection
from textual.message import Message

from dirge_py.frontend.controller import ChatController, typed_text
from dirge_py.lib.hunks import common_start
from dirge_py.ui.keymap import Keymap, Scope
from dirge_py.ui.prompt.placeholders import LARGEST, as_mention
from dirge_py.ui.prompt.text_editor import InputHistory, ReverseSearch, TextEditor
from dirge_py.ui.prompt.vim.modes import Vim, VimResult, lines_around
from dirge_py.ui.prompt.vim.motions import rested

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


_WAYS = (
    *("left", "right", "word_left", "word_right", "line_start", "line_end"),
    *("up", "down", "text_start", "text_end"),
)
_SELECTING = {f"select_{way}": way for way in _WAYS}
_MARKING = {f"cursor_{way}": f"select_{way}" for way in _WAYS}
_MARKING |= {"up": "select_up", "down": "select_down"}
"""The action instead of each movement while a mark is set."""

_SENDING = (("composer", "submit"), ("composer", "queue"))


class Composer(TextEditor, inherit_bindings=False):
    """The input of the next prompt. Its keys come from the keymap, without Textual's own."""

    DEFAULT_CSS = """
    Composer {
        height: auto; min-height: 1; border: none; padding: 0; scrollbar-size-vertical: 1;
        background: $background; color: $foreground;
        &:focus { border: none; }
        & .text-area--cursor-line { background: $background; }
        & .text-area--placeholder { color: $dirge-dim; }
    }
    """
    BINDINGS: ClassVar = []

    @dataclass
    class Sent(Message):
        """A prompt was submitted: for now, which steers a run, or for later."""

        text: str
        how: Literal["now", "later"]

    @dataclass
    class ActionRequested(Message):
        """A key asked for an action that isn't the composer's."""

        action: str

    class PastedTooMuch(Message):
        """Only the start of a paste was inserted."""

    class Restated(Message):
        """`words` or `stashed` has changed."""

    @dataclass
    class CompletionKey(Message):
        """A key for the open list of proposals was pressed."""

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
        """Stashed drafts, the latest one last."""
        self.has_proposals = False
        self.is_run_active: Callable[[], bool] = lambda: False
        """Whether a prompt can be queued; else Tab only completes, and never sends."""

    @property
    def draft(self) -> str:
        """The person's text, also while a search shows another one."""
        return self._searching.draft if self._searching is not None else self.text

    @property
    def words(self) -> str:
        """The state of a search, or the mode of Vim."""
        shown = self._searching or self._vim
        return shown.words if shown is not None else ""

    @property
    def may_propose(self) -> bool:
        """Whether the text is the person's own, not an earlier prompt."""
        return self._searching is None and self.prompts.shown != self.text

    @property
    def is_in_use(self) -> bool:
        """Whether there is text in it, or a search for one."""
        return bool(self.text) or self._searching is not None

    @property
    def has_vim(self) -> bool:
        return self._vim is not None

    def use_vim(self, *, is_on: bool) -> None:
        """Turn Vim's modes on or off."""
        self._vim = VimInput(self) if is_on else None
        self.post_message(self.Restated())

    def put(self, text: str) -> None:
        self._leave_search(accept=False)
        super().put(text)

    def put_before(self, text: str) -> None:
        """Put `text` above the draft, or below it if both would become a command."""
        self._leave_search(accept=False)
        parts = (self.text, text) if text.startswith(("!", "/")) else (text, self.text)
        self.put("\n".join(filter(None, parts)))

    def replace_before(self, count: int, text: str) -> None:
        """Replace `count` characters before the cursor."""
        row, column = self.cursor_location
        self.replace(text, (row, max(0, column - count)), (row, column))

    def press_enter(self) -> None:
        """Do the action of Enter."""
        self.act(*(self._keymap.action("enter", "composer") or ("composer", "submit")))

    async def _on_key(self, event: events.Key) -> None:
        if self._is_taken(event):
            event.stop().prevent_default()
            return
        binding = self._keymap.action(event.key, "composer", "screen")
        if binding is None:
            self.did("")
            self._has_mark = False
            await super()._on_key(event)
            return
        event.stop().prevent_default()
        if event.key == "tab" and binding in _SENDING and not self.is_run_active():
            return
        self.act(*binding)

    def act(self, scope: Scope, action: str) -> None:
        """Do an action of the composer, or post it to the app; a search ends with its match."""
        self._leave_search(accept=True)
        action = _MARKING.get(action, action) if self._has_mark else action
        own = getattr(self, f"key_action_{action}", None) or getattr(self, f"action_{action}", None)
        if scope != "composer" or (own is None and action not in _SELECTING):
            self.post_message(self.ActionRequested(action))
        elif own is not None:
            own()
        else:
            getattr(self, f"action_cursor_{_SELECTING[action]}")(select=True)
        self._has_mark = self._has_mark and action in {"set_mark", *_SELECTING}
        self.did(action)
        if self._vim is not None:
            self._vim.rest()

    def _is_taken(self, event: events.Key) -> bool:
        """Pass a key to a search, an open list or Vim; return whether it was handled."""
        if self._searching is not None and self._search(event):
            return True
        binding = self._keymap.action(event.key, "list") if self.has_proposals else None
        if binding is not None and binding[1] != "erase":
            self.post_message(self.CompletionKey(binding[1]))
            if self._vim is None or event.key != "escape":
                return True
        return self._vim is not None and self._press_vim(event)

    def _press_vim(self, event: events.Key) -> bool:
        assert self._vim is not None
        is_sign = event.is_printable and event.character is not None
        outcome = self._vim.press((event.character or "") if is_sign else event.key)
        if outcome is None:
            # Outside of insert mode, unknown keys write nothing.
            return is_sign and not self._vim.is_inserting
        if outcome.wish in ("undo", "redo"):
            (self.undo if outcome.wish == "undo" else self.redo)()
        elif outcome.wish:
            self.act("composer", outcome.wish)
        self._vim.rest()
        self.did("")
        self.post_message(self.Restated())
        return True

    def key_action_search_history(self) -> None:
        self._searching = ReverseSearch(self, self.prompts.prompts)
        self.post_message(self.Restated())

    def _search(self, event: events.Key) -> bool:
        """Handle a key of the search; another one accepts the match and returns False."""
        assert self._searching is not None
        binding = self._keymap.action(event.key, "search")
        if binding is None and not event.is_printable:
            self._leave_search(accept=True)
            return False
        if binding is None:
            self._searching.type(event.character or "")
        elif binding[1] in ("take", "leave"):
            self._leave_search(accept=binding[1] == "take")
        else:
            self._searching.act(binding[1])
        self.post_message(self.Restated())
        return True

    def _leave_search(self, *, accept: bool) -> None:
        if self._searching is not None:
            searching, self._searching = self._searching, None
            searching.leave()
            if accept and searching.match is not None:
                self.put(searching.match)
            self.post_message(self.Restated())

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop().prevent_default()
        self.paste(event.text)

    def paste(self, pasted: str) -> None:
        """Insert a paste; a placeholder stands for a long one."""
        self._leave_search(accept=True)
        if len(pasted) > LARGEST:
            self.post_message(self.PastedTooMuch())
        text, dropped = self.pastes.add(as_mention(pasted), self.before_cursor)
        self.did("")
        self.history.checkpoint()
        if dropped and self.selection.is_empty:
            self.replace_before(len(dropped), text)
        else:
            self.write(text)
        self.history.checkpoint()

    def type_text(self, text: str) -> None:
        """Insert text that was typed while something else had the keyboard."""
        if self._vim is not None:
            self._vim.begin()
        if len(text) > 1:
            self.paste(text)
        else:
            self._leave_search(accept=True)
            self.write(text)

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
        if (older := self.prompts.older(self.text)) is not None:
            self.put(older)

    def key_action_history_newer(self) -> None:
        if (newer := self.prompts.newer(self.text)) is not None:
            self.put(newer)

    def key_action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.ActionRequested("quit"))

    def key_action_paste(self) -> None:
        self.post_message(self.ActionRequested("paste"))

    def key_action_set_mark(self) -> None:
        """Set the mark, so that movements select."""
        self.move_cursor(self.cursor_location)
        self._has_mark = True

    def key_action_stash(self) -> None:
        """Stash the draft, or restore the last one into an empty input."""
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
        # The input is emptied at once, as the next key belongs to the next prompt.
        text = self.text
        if text.strip():
            self.prompts.add(text)
            self.load_text("")
            if self._vim is not None:
                self._vim.begin()
        self.post_message(self.Sent(text, how))

    key_action_submit = partialmethod(_submit, "now")
    key_action_queue = partialmethod(_submit, "later")


class VimInput:
    """Vim's modes in a text editor; each placeholder counts as one character."""

    def __init__(self, field: TextEditor) -> None:
        self._field = field
        self._vim = Vim()
        self.begin = self._vim.begin
        self._shown: Selection | None = None
        self._at = 0

    @property
    def words(self) -> str:
        """The mode, and the keys of an incomplete command."""
        return f"{self._vim.mode.upper()} {self._vim.pending}".rstrip()

    @property
    def is_inserting(self) -> bool:
        return self._vim.mode == "insert"

    def press(self, key: str) -> VimResult | None:
        """Handle a key; return None if it has no meaning in this mode."""
        field = self._field
        before = field.pastes.as_signs(field.text)
        outcome = self._vim.press(key, before, self._cursor(before))
        if outcome is not None:
            self._write(before, outcome.text)
            self._show(outcome)
            field.keep_cut(field.pastes.from_signs(outcome.cut))
        return outcome

    def rest(self) -> None:
        """Move the cursor to a position that normal mode allows."""
        if self._vim.mode == "normal":
            text = self._field.pastes.as_signs(self._field.text)
            at = self._cursor(text)
            if (to := rested(text, at)) != at:
                self._field.move_cursor(self._location(text, to))

    def _cursor(self, text: str) -> int:
        """Return the cursor's offset in `text`, which has signs for placeholders."""
        field = self._field
        if field.selection == self._shown and not self.is_inserting:
            return min(self._at, len(text))
        return len(field.pastes.as_signs(field.before_cursor))

    def _location(self, text: str, at: int) -> tuple[int, int]:
        before = self._field.pastes.from_signs(text[:at])
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    def _write(self, before: str, after: str) -> None:
        if before == after:
            return
        field = self._field
        start = common_start(before, after)
        replaced = self._location(before, start), field.document.end
        field.history.checkpoint()
        field.replace(field.pastes.from_signs(after[start:]), *replaced)
        field.history.checkpoint()

    def _show(self, outcome: VimResult) -> None:
        text, at, anchor = outcome.text, outcome.at, outcome.anchor
        start, end = (at, at) if anchor is None else (anchor, at)
        if anchor is not None and self._vim.mode == "visual line":
            low, high = lines_around(text, start, end)
            start, end = (low, high) if anchor <= at else (high, low)
        elif anchor is not None:
            # The characters at both ends are selected too.
            start, end = (start, end + 1) if anchor <= at else (start + 1, end)
        self._field.selection = Selection(self._location(text, start), self._location(text, end))
        self._at, self._shown = at, self._field.selection


_PAUSE_S = 0.3
"""Seconds from the last key until the draft is saved."""
_INTERVAL_S = 0.6
"""Seconds between two savings while keys are pressed."""
_LONG_CHARACTERS = 10_000
_LONG_INTERVAL_S = 3.0
"""The same for a long draft, as it is always written in full."""
_PRIVATE = "!!"
"""The start of a draft for the person's shell only, which isn't saved."""


class PromptDrafts:
    """Saves the draft and the stash of the conversation soon after a change."""

    def __init__(self, composer: Composer, controller: ChatController) -> None:
        self._composer = composer
        self._controller = controller
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    def changed(self) -> None:
        """Save the draft soon."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None:
            self._since = now
        else:
            self._timer.cancel()
        is_long = len(self._composer.draft) > _LONG_CHARACTERS
        longest_s = _LONG_INTERVAL_S if is_long else _INTERVAL_S
        self._timer = loop.call_at(min(now + _PAUSE_S, self._since + longest_s), self.save)

    def save(self) -> None:
        """Save the draft and the stash with the session now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        conversation, composer = self._controller.conversation, self._composer
        if conversation is not None:
            expand = composer.pastes.expand
            draft = "" if composer.draft.startswith(_PRIVATE) else composer.draft
            stashed = [text for text in composer.stashed if not text.startswith(_PRIVATE)]
            conversation.unsent.save_draft(expand(draft))
            conversation.unsent.save_stash(list(map(expand, stashed)))

    def end(self) -> None:
        """Save the draft at the end of the program."""
        self.save()
        if (conversation := self._controller.conversation) is not None:
            conversation.unsent.close()

    def leave(self) -> None:
        """Save the draft before a switch to another conversation."""
        self.save()
        conversation = self._controller.conversation
        if conversation is None:
            return
        if conversation.unsent.is_stored:
            self._composer.put("")
            self._composer.stashed.clear()
        conversation.unsent.release()

    def restore(self, conversation: "Conversation") -> None:
        """Restore the draft, the stash and the earlier prompts of a conversation."""
        composer, unsent = self._composer, conversation.unsent
        unsent.adopt_abandoned()
        fold = composer.pastes.recalled
        typed = (m for m in conversation.messages if m.role == "user" and m.origin == "user")
        own = list(map(typed_text, typed))
        stored = unsent.prompts.load() if unsent.prompts is not None else ()
        composer.prompts.load(map(fold, stored), map(fold, own))
        if unsent.draft:
            composer.put_before(unsent.draft)
        composer.stashed[:0] = map(fold, unsent.stash)

    def sent(self, text: str) -> str:
        """Return the prompt in full, and store it for later sessions."""
        whole = self._composer.pastes.expand(text)
        conversation = self._controller.conversation
        prompts = conversation.unsent.prompts if conversation is not None else None
        if prompts is not None and not text.startswith(_PRIVATE):
            prompts.add(whole)
        return whole
