"""Search of the whole transcript in time slices, with its folded and undrawn parts."""

import asyncio
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import takewhile

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.transcript.layout import BlockRow, TranscriptLayout
from dirge_py.ui.transcript.positions import WIDTH, TextPosition, position_at

_SLICE_S = 0.02
"""Seconds of searching before other events are handled."""

_WORD = late_pattern(r"\w+")

_MOST_CACHED = 8_000_000
"""Characters of text cached between queries."""


@dataclass(frozen=True, slots=True)
class TranscriptMatch:
    """A match in the text of a row, by its number from 0."""

    row: BlockRow
    number: int


class TranscriptSearch:
    """A query, and the number of its matches in each row."""

    def __init__(self, layout: TranscriptLayout) -> None:
        self._layout = layout
        self.query = ""
        self._pattern: re.Pattern[str] | None = None
        self._word: re.Pattern[str] | None = None
        self._counts: dict[BlockRow, tuple[int, int]] = {}
        self._texts: dict[BlockRow, tuple[int, str]] = {}
        self._cached_size = 0
        self._hit: TranscriptMatch | None = None

    @property
    def hit(self) -> TranscriptMatch | None:
        """The chosen match, unless its row was removed."""
        return self._hit if self._hit is not None and not self._hit.row.is_gone else None

    def set_query(self, query: str) -> None:
        """Set the query, "" for none; case matters only if it has capitals."""
        if query == self.query:
            return
        self.query = query
        flags = re.IGNORECASE if query == query.lower() else re.NOFLAG
        self._pattern = re.compile(re.escape(query), flags) if query else None
        longest = max(_WORD.findall(query), key=len, default="")
        self._word = re.compile(longest, flags) if longest else None
        self._counts = {}
        self._hit = None

    def drop(self) -> None:
        """Clear the query and its cache."""
        self.set_query("")
        self.forget_texts()

    def forget_texts(self) -> None:
        self._texts = {}
        self._cached_size = 0

    async def scan(self, y: int = 0, on_slice: Callable[[], None] = lambda: None) -> None:
        """Count the matches of changed rows, first from height `y` down, then up from there."""
        pattern = self._pattern
        if pattern is None:
            return
        counts = self._counts
        rows, start = list(self._layout.rows), position_at(self._layout, y)
        at = rows.index(start.row) if start else 0
        rows = rows[at:] + rows[:at][::-1]
        waiting = [row for row in rows if counts.get(row, (-1, 0))[0] != row.block.version]
        at = 0
        while at < len(waiting) and pattern is self._pattern:
            # In a thread, as a huge block takes longer than a slice.
            counted = await asyncio.to_thread(self._read, waiting, at, pattern)
            if pattern is self._pattern:
                self._counts.update(counted)
            at += len(counted)
            on_slice()

    @property
    def total(self) -> int:
        return sum(self._count(row) for row in self._counts)

    def position(self) -> int:
        """Return the number of the chosen match among all, from 1; 0 if none is chosen."""
        hit = self.hit
        if hit is None:
            return 0
        above = takewhile(lambda row: row is not hit.row, self._layout.rows)
        return sum(map(self._count, above)) + hit.number + 1

    def choose_near(self, y: int) -> TranscriptMatch | None:
        """Choose the first match at height `y` or below it, else the last one above."""
        start = position_at(self._layout, y)
        if start is None:
            self._hit = None
            return None
        row: BlockRow | None = start.row
        number = 0
        if self._count(start.row) and not self._is_folded(start.row):
            number = sum(begin < start.offset for begin, _ in self._spans(start.row))
        while row is not None and number >= self._count(row):
            row, number = row.below, 0
        if row is None:
            row = start.row
            while row is not None and not self._count(row):
                row = row.above
            number = self._count(row) - 1 if row is not None else 0
        self._hit = TranscriptMatch(row, number) if row is not None else None
        return self.hit

    def step(self, direction: int) -> TranscriptMatch | None:
        """Choose the next match, or with -1 the previous one; the last is followed by the first."""
        hit = self.hit
        if hit is None or not self.total:
            return None
        number = hit.number + direction
        if 0 <= number < self._count(hit.row):
            self._hit = TranscriptMatch(hit.row, number)
            return self.hit
        rows = self._layout.rows
        row: BlockRow | None = hit.row
        while row is not None:
            row = (row.below or rows.first) if direction > 0 else (row.above or rows.last)
            if row is not None and (count := self._count(row)):
                self._hit = TranscriptMatch(row, 0 if direction > 0 else count - 1)
                return self.hit
        return None

    def needs_open(self, row: BlockRow) -> bool:
        """Whether a folded row hides some of its matches."""
        return self._is_folded(row) and len(self._spans(row)) < self._count(row)

    def spot(self, hit: TranscriptMatch) -> TextPosition:
        """Return where a match is drawn; the start of its row if it is hidden."""
        spans = self._spans(hit.row)
        return TextPosition(hit.row, spans[min(hit.number, len(spans) - 1)][0] if spans else 0)

    def columns_of(
        self, row: BlockRow, line: int
    ) -> tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]:
        """Return the columns of other matches in a drawn line, and those of the chosen one."""
        if self._pattern is None:
            return (), ()
        logical = self._layout.drawn(row).logical
        begin, end = logical.start_of(line), logical.end_of(line)
        spans = self._spans(row)
        chosen = self.hit.number if self.hit and self.hit.row is row else -1
        chosen = min(chosen, len(spans) - 1)
        matching: list[tuple[int, int]] = []
        marked: list[tuple[int, int]] = []
        for number in range(max(0, bisect_left(spans, (begin, 0)) - 1), len(spans)):
            if spans[number][0] >= end:
                break
            if spans[number][1] > begin and (cells := logical.cells_of(line, *spans[number])):
                (marked if number == chosen else matching).append(cells)
        return matching, marked

    def _count(self, row: BlockRow) -> int:
        counted = self._counts.get(row)
        return counted[1] if counted and not row.is_gone else 0

    def _is_folded(self, row: BlockRow) -> bool:
        layout, block = self._layout, row.block
        return layout.is_hidden(block) or (block.can_expand and not layout.is_open(block))

    def _spans(self, row: BlockRow) -> Sequence[tuple[int, int]]:
        assert self._pattern is not None
        return self._layout.drawn(row).logical.matches(self._pattern)

    def _read(
        self, rows: Sequence[BlockRow], at: int, pattern: re.Pattern[str]
    ) -> dict[BlockRow, tuple[int, int]]:
        until = time.monotonic() + _SLICE_S
        counts: dict[BlockRow, tuple[int, int]] = {}
        for row in rows[at:]:
            version = row.block.version
            own = row.block.text
            # Painting is slow, so rows without a word of the query are skipped.
            may_match = self._word is None or not own or self._word.search(own) is not None
            count = len(pattern.findall(self._text_of(row))) if may_match else 0
            counts[row] = (version, count)
            if time.monotonic() > until:
                break
        return counts

    def _text_of(self, row: BlockRow) -> str:
        version = row.block.version
        cached = self._texts.get(row)
        if cached is not None and cached[0] == version:
            return cached[1]
        text = self._layout.painted(row, WIDTH, expanded=True).text
        if self._cached_size + len(text) <= _MOST_CACHED:
            self._texts[row] = (version, text)
            self._cached_size += len(text)
        return text
