"""A search through earlier prompts that is shown in the input itself."""

from collections.abc import Sequence

from dirge_py.ui.prompt.editing import Editing
from dirge_py.ui.prompt.search import HistorySearch
from dirge_py.ui.prompt.undo_steps import UndoSteps


class Searching:
    """From Ctrl+R until it is left; what is tried meanwhile is nothing to undo."""

    def __init__(self, field: Editing, prompts: Sequence[str]) -> None:
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
