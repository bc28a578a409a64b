"""The input: several lines, history, pastes; what is done with the text is up to its parent."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from dirge_py.ui.keymap import Keymap
from dirge_py.ui.prompt.history import History
from dirge_py.ui.prompt.pastes import LARGEST, Pastes


class Composer(TextArea, inherit_bindings=False):
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
    class Wants(Message):
        """A key asked for something the composer cannot do itself; `action` as in the keymap."""

        action: str

    class PastedTooMuch(Message):
        """Of a paste only the beginning was taken."""

    @dataclass
    class Chosen(Message):
        """A key for the list of proposals was pressed while it was open."""

        action: str

    def __init__(self, keymap: Keymap, placeholder: str) -> None:
        super().__init__(id="composer", placeholder=placeholder, highlight_cursor_line=False)
        self.cursor_blink = False
        self.prompts = History()
        self.pastes = Pastes()
        self._keymap = keymap
        self._cut = ""
        self.has_proposals = False

    # -- what others ask of it

    @property
    def before_cursor(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def put(self, text: str) -> None:
        """Replace what is written; the cursor goes to its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def put_before(self, text: str) -> None:
        """Put `text` above the draft, which stays."""
        self.put("\n".join(part for part in (text, self.text) if part))

    def replace_before(self, count: int, text: str) -> None:
        """Replace the last `count` characters before the cursor, which are on its line."""
        row, column = self.cursor_location
        self.replace(text, (row, max(0, column - count)), (row, column))

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        for_list = self._keymap.action(event.key, "list") if self.has_proposals else None
        if for_list is not None and for_list[1] != "erase":
            event.stop()
            event.prevent_default()
            self.post_message(self.Chosen(for_list[1]))
            return
        found = self._keymap.action(event.key, "composer", "screen")
        if found is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        scope, action = found
        own = getattr(self, f"key_action_{action}", None) if scope == "composer" else None
        edit = getattr(self, f"action_{action}", None) if scope == "composer" else None
        if own is not None:
            own()
        elif edit is not None:
            edit()
        else:
            self.post_message(self.Wants(action))

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.paste(event.text)

    def paste(self, pasted: str) -> None:
        """Put in what was pasted; a long text as a placeholder."""
        if len(pasted) > LARGEST:
            self.post_message(self.PastedTooMuch())
        text, dropped = self.pastes.take(pasted, self.before_cursor)
        if dropped:
            self.replace_before(len(dropped), "")
        self.insert(text)

    def key_action_submit(self) -> None:
        if self.before_cursor.endswith("\\"):
            self.replace_before(1, "\n")
            return
        self._send("now")

    def key_action_queue(self) -> None:
        self._send("later")

    def key_action_newline(self) -> None:
        self.insert("\n")

    def key_action_up(self) -> None:
        if not self.text:
            self.post_message(self.Wants("up_on_empty"))
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
        newer = self.prompts.newer()
        if newer is not None:
            self.put(newer)

    def key_action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Wants("quit"))

    def key_action_delete_left(self) -> None:
        pasted = self.pastes.placeholder_before(self.before_cursor)
        if pasted:
            self.replace_before(len(pasted), "")
        else:
            self.action_delete_left()

    def key_action_cut_to_end(self) -> None:
        row, column = self.cursor_location
        self._cut_range((row, column), (row, len(self.document[row])))

    def key_action_cut_to_start(self) -> None:
        row, column = self.cursor_location
        self._cut_range((row, 0), (row, column))

    def key_action_cut_word(self) -> None:
        self._cut_range(self.get_cursor_word_left_location(), self.cursor_location)

    def key_action_yank(self) -> None:
        self.insert(self._cut)

    def _cut_range(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        text = self.get_text_range(start, end)
        if text:
            self._cut = text
            self.delete(start, end)

    def _send(self, how: Literal["now", "later"]) -> None:
        # Emptied here and now: what is typed while the message is on its way is the next prompt.
        text = self.text
        if text.strip():
            self.prompts.add(text)
            self.put("")
        self.post_message(self.Sent(text, how))
