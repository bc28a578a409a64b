"""Earlier prompts: going through them, and searching them with Ctrl+R."""

from collections.abc import Iterable, Sequence

from dirge_py.ui.prompt.text_editor import TextEditor, UndoSteps

_MOST = 500


class InputHistory:
    """Prompts, oldest first, without consecutive duplicates; the draft follows the last one."""

    def __init__(self, prompts: Iterable[str] = ()) -> None:
        self.prompts: list[str] = []
        self._at: int | None = None
        self._draft = ""
        for prompt in prompts:
            self.add(prompt)

    @property
    def shown(self) -> str | None:
        """The earlier prompt that is shown, if there is one."""
        return None if self._at is None else self.prompts[self._at]

    def add(self, prompt: str) -> None:
        self._at = None
        if prompt.strip() and self.prompts[-1:] != [prompt]:
            self.prompts.append(prompt)
            del self.prompts[:-_MOST]

    def load(self, stored: Iterable[str], own: Iterable[str]) -> None:
        """Load the prompts of another conversation: stored ones first, its own last."""
        newest_first = dict.fromkeys(reversed([*stored, *self.prompts, *own]))
        self._at = None
        self.prompts = [prompt for prompt in reversed(newest_first) if prompt.strip()][-_MOST:]

    def older(self, current: str) -> str | None:
        """Return the previous prompt; the first step keeps `current` as the draft."""
        self._keep_changed(current)
        if self._at is None:
            self._draft, self._at = current, len(self.prompts)
        if self._at == 0:
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

    def __init__(self, field: TextEditor, prompts: Sequence[str]) -> None:
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
        return f"(search) {'no such prompt: ' if self._has_failed else ''}{self._query}"

    def type(self, text: str) -> None:
        """Add text to the query; a prompt that still matches stays."""
        self._query += text
        self._find(max(0, self._at), 1)

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
