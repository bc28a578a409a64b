"""The first lines of a new conversation: what is at work here, and where."""

from collections.abc import Sequence

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_NARROW = 50
"""Columns below which there are no names of rows, no blank lines, and one hint."""


class GreetingBlock(BlockBase):
    """A title, a few named facts of one line each, and how to find out more."""

    def __init__(
        self, title: str, facts: Sequence[tuple[str, str]], *, hint: Sequence[str]
    ) -> None:
        super().__init__()
        self._title = clean(title)
        self._facts = [(name, clean(text)) for name, text in facts if text]
        self._hint = hint

    @property
    def text(self) -> str:
        return "\n".join([self._title, *(f"{name} {text}" for name, text in self._facts)])

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        is_narrow = width < _NARROW
        label = 0 if is_narrow else max(len(name) for name, _ in self._facts) + 2
        facts: list[Line] = [
            [(name.ljust(label)[:label], ink.dim), (clip(text, width - label), ink.text)]
            for name, text in self._facts
        ]
        hint = self._hint[0] if is_narrow else " · ".join(self._hint)
        blank: list[Strip] = [] if is_narrow else [strip([])]
        return [
            strip([(clip(self._title, width), ink.heading)]),
            *blank,
            *map(strip, facts),
            *blank,
            *wrap([(hint, ink.dim)], width),
        ]

    def guess_height(self, width: int) -> int:
        return len(self._facts) + (2 if width < _NARROW else 4)
