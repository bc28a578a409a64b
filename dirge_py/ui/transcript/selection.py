"""What is selected in the transcript: a stretch of its text, however it is drawn and wherever."""

from typing import Literal

from dirge_py.ui.transcript.layout import Layout
from dirge_py.ui.transcript.rows import Row
from dirge_py.ui.transcript.spots import Spot, after_insertion, is_before, texts_between

Unit = Literal["character", "word", "line"]


class Selection:
    """From where it was begun to where it goes now, in this order or the other."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._ends: tuple[Spot, Spot] | None = None

    @property
    def ends(self) -> tuple[Spot, Spot] | None:
        """First and last spot; None if nothing is selected."""
        if self._ends is None or any(spot.row.is_gone for spot in self._ends):
            return None
        begin, end = self._ends
        if begin == end:
            return None
        return (end, begin) if is_before(self._layout, end, begin) else (begin, end)

    def set(self, begin: Spot, end: Spot) -> None:
        self._ends = (begin, end)

    def drop(self) -> None:
        self._ends = None

    def select_around(self, spot: Spot, unit: Unit) -> None:
        """Select the word or the line, as it was written, at a spot."""
        logical = self._layout.drawn(spot.row).logical
        around = logical.word_around if unit == "word" else logical.line_around
        begin, end = around(min(spot.offset, len(logical.text)))
        self.set(Spot(spot.row, begin), Spot(spot.row, end))

    @property
    def text(self) -> str:
        """What was written there; empty if nothing is selected."""
        ends = self.ends
        if ends is None:
            return ""
        return "".join(texts_between(self._layout, *ends)).strip("\n")

    def part_of(self, row: Row) -> tuple[int, int] | None:
        """Which part of a row's text is selected; None if nothing of it is."""
        ends = self.ends
        if ends is None:
            return None
        first, last = ends
        rows = self._layout.rows
        if row is not first.row and rows.is_above(row, first.row):
            return None
        if row is not last.row and rows.is_above(last.row, row):
            return None
        end = last.offset if row is last.row else len(self._layout.drawn(row).logical.text)
        return (first.offset if row is first.row else 0), end

    def row_inserted(self, row: Row) -> None:
        """The row below this one has given the beginning of its text to it."""
        if self._ends is not None and any(spot.row is row.below for spot in self._ends):
            begin, end = (
                after_insertion(self._layout, spot, row) if spot.row is row.below else spot
                for spot in self._ends
            )
            self._ends = (begin, end)
