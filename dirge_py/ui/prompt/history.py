"""Earlier prompts: stepping through them, and searching them from the input as with Ctrl+R.

The draft that was being written comes back after the last of them.
"""

from collections.abc import Iterable, Sequence

from dirge_py.ui.prompt.text_editor import TextEditor, UndoSteps

_MOST = 500


class InputHistory:
    """Prompts, oldest first; the same one twice in a row is kept once."""

    def __init__(self, prompts: Iterable[str] = ()) -> None:
        self._prompts: list[str] = []
        self._at: int | None = None
        self._draft = ""
        for prompt in prompts:
            self.add(prompt)

    @property
    def prompts(self) -> Sequence[str]:
        return self._prompts

    @property
    def shown(self) -> str | None:
        """The prompt that is looked at; None when not looking back."""
        return None if self._at is None else self._prompts[self._at]

    def add(self, prompt: str) -> None:
        self._at = None
        if prompt.strip() and self._prompts[-1:] != [prompt]:
            self._prompts.append(prompt)
            del self._prompts[:-_MOST]

    def load(self, stored: Iterable[str], said: Iterable[str]) -> None:
        """Another conversation: what was kept of others comes first, what was said in it last."""
        newest_first = dict.fromkeys(reversed([*stored, *self._prompts, *said]))
        self._at = None
        self._prompts = [prompt for prompt in reversed(newest_first) if prompt.strip()][-_MOST:]

    def older(self, current: str) -> str | None:
        """The prompt before the one shown; `current` is kept as the draft on the first step."""
        self._keep_changed(current)
        if self._at is None:
            self._draft, self._at = current, len(self._prompts)
        if self._at == 0:
            return None
        self._at -= 1
        return self._prompts[self._at]

    def newer(self, current: str) -> str | None:
        """The prompt after the one shown, in the end the draft; None when not looking back."""
        if self._at is None:
            return None
        self._keep_changed(current)
        self._at += 1
        if self._at < len(self._prompts):
            return self._prompts[self._at]
        self._at = None
        return self._draft

    def _keep_changed(self, current: str) -> None:
        """An earlier prompt that was changed is a draft of its own, and comes back at the end."""
        if current.strip() and self.shown not in (None, current):
            self._draft = current


class HistorySearch:
    """`draft` is what stood in the input before. The newest match is tried first."""

    def __init__(self, prompts: Sequence[str], draft: str) -> None:
        self._prompts = list(dict.fromkeys(reversed(prompts)))
        self.draft = draft
        self.query = ""
        self.has_failed = False
        self._at = -1

    @property
    def match(self) -> str | None:
        """The prompt that was found; None before anything was."""
        return self._prompts[self._at] if self._at >= 0 else None

    @property
    def words(self) -> str:
        """What is shown while searching."""
        failed = "no such prompt: " if self.has_failed else ""
        return f"(search) {failed}{self.query}"

    def type(self, text: str) -> None:
        """Search for more; a prompt that still matches stays."""
        self.query += text
        self._look(max(0, self._at), 1)

    def erase(self) -> None:
        """Search for less, from the newest on."""
        self.query = self.query[:-1]
        self._at = -1
        self.has_failed = False
        if self.query:
            self._look(0, 1)

    def older(self) -> None:
        self._look(self._at + 1, 1)

    def newer(self) -> None:
        self._look(self._at - 1, -1)

    def _look(self, start: int, step: int) -> None:
        """Go on to the next match; what was found stays where there is none."""
        query = self.query.casefold()
        end = len(self._prompts) if step > 0 else -1
        for at in range(start, end, step):
            if query in self._prompts[at].casefold():
                self._at, self.has_failed = at, False
                return
        self.has_failed = True


class ReverseSearch:
    """From Ctrl+R until it is left; what is tried meanwhile is nothing to undo."""

    def __init__(self, field: TextEditor, prompts: Sequence[str]) -> None:
        self._field = field
        self._search = HistorySearch(prompts, field.text)
        self._steps, self._selection = field.history, field.selection
        field.history = UndoSteps()

    @property
    def draft(self) -> str:
        return self._search.draft

    @property
    def words(self) -> str:
        return self._search.words

    @property
    def match(self) -> str | None:
        return self._search.match

    def type(self, text: str) -> None:
        self._search.type(text)
        self._show()

    def act(self, action: str) -> None:
        """Do what a key of the search means: `older`, `newer` or `erase`."""
        {"older": self._search.older, "newer": self._search.newer, "erase": self._search.erase}[
            action
        ]()
        self._show()

    def leave(self) -> None:
        """Put back what stood there before."""
        self._write(self._search.draft)
        self._field.selection = self._selection
        self._field.history = self._steps

    def _show(self) -> None:
        shown = self._search.match
        self._write(self._search.draft if shown is None else shown)

    def _write(self, text: str) -> None:
        field = self._field
        if field.text != text:
            field.replace(text, (0, 0), field.document.end, maintain_selection_offset=False)
