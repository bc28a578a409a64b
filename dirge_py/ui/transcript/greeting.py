"""The first lines of a new conversation: what is at work here, and where."""

from collections.abc import Sequence

from textual.strip import Strip

from dirge_py.lib.clean import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_NARROW = 50
"""Columns below which the names of the rows are left out."""


class GreetingBlock(BlockBase):
    """A title, a few named facts of one line each, and how to find out more."""

    def __init__(self, title: str, facts: Sequence[tuple[str, str]], *, hint: str) -> None:
        super().__init__()
        self._title = clean(title)
        self._facts = [(name, clean(text)) for name, text in facts if text]
        self._hint = hint

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        label = 0 if width < _NARROW else max(len(name) for name, _ in self._facts) + 2
        lines: list[Line] = [[(clip(self._title, width), ink.heading)]]
        lines += [
            [(name.ljust(label)[:label], ink.dim), (clip(text, width - label), ink.text)]
            for name, text in self._facts
        ]
        return [*(strip(line) for line in lines), *wrap([(self._hint, ink.dim)], width)]

    def guess_height(self, width: int) -> int:
        return len(self._facts) + 2
