"""The layout of the transcript: heights of blocks, and a cache of drawn lines. No widget here.

A block is drawn only when it comes into view; until then its height is a guess. Another width,
theme or form only turns all heights into guesses again.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

from textual.strip import Strip

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import TranscriptBlock, groups_of
from dirge_py.ui.transcript.lines import LogicalText, Span, behind, pad

NEVER = -1


class BlockRow:
    """One block, with `gap` blank lines above its own `lines`.

    `settled` is the state of the layout for which `lines` is exact, else it is a guess. `number`
    and `top` are for `BlockRows`, which may have older ones than the current.
    """

    __slots__ = ("block", "gap", "lines", "number", "rows", "settled", "top")

    def __init__(self, block: TranscriptBlock) -> None:
        self.block = block
        self.gap = self.lines = self.number = self.top = 0
        self.settled = NEVER
        self.rows: BlockRows | None = None
        """The rows it belongs to; None before it is added, and once it is removed."""

    @property
    def height(self) -> int:
        return self.gap + self.lines

    @property
    def is_gone(self) -> bool:
        return self.rows is None

    @property
    def above(self) -> "BlockRow | None":
        return self.rows.beside(self, -1) if self.rows is not None else None

    @property
    def below(self) -> "BlockRow | None":
        return self.rows.beside(self, 1) if self.rows is not None else None


class BlockRows:
    """The rows in order. Only the first `_counted` of them have their current number and top.

    Nearly all changes are at the end, so few rows are counted again after each.
    """

    def __init__(self) -> None:
        self._rows: list[BlockRow] = []
        self._by_block: dict[int, BlockRow] = {}
        self._counted = self.height = 0

    def __iter__(self) -> Iterator[BlockRow]:
        return iter(self._rows)

    @property
    def first(self) -> BlockRow | None:
        return self._rows[0] if self._rows else None

    @property
    def last(self) -> BlockRow | None:
        return self._rows[-1] if self._rows else None

    def of(self, block: TranscriptBlock) -> BlockRow:
        """Return the row of a block. Raises ValueError if there is none."""
        row = self._by_block.get(id(block))
        if row is None:
            raise ValueError("the block is not in the transcript")
        return row

    def insert(self, row: BlockRow, before: BlockRow | None = None) -> None:
        """Add a row before another one, or at the end."""
        at = len(self._rows) if before is None else self._number(before)
        self._rows.insert(at, row)
        self._by_block[id(row.block)] = row
        self._counted = min(self._counted, at)
        self.height += row.height
        row.rows = self

    def prepend(self, rows: Sequence[BlockRow]) -> None:
        """Add new rows before all others, in their order."""
        self._rows[:0] = rows
        self._by_block.update((id(row.block), row) for row in rows)
        self._counted = 0
        for row in rows:
            self.height += row.height
            row.rows = self

    def remove(self, row: BlockRow) -> None:
        at = self._number(row)
        del self._rows[at], self._by_block[id(row.block)]
        self._counted = min(self._counted, at)
        self.height -= row.height
        row.rows = None

    def clear(self) -> None:
        for row in self._rows:
            row.rows = None  # Other code may still have a row, and sees that it is gone.
        self._rows, self._by_block = [], {}
        self._counted = self.height = 0

    def set_height(self, row: BlockRow, gap: int, lines: int) -> None:
        self.height += gap + lines - row.height
        if gap + lines != row.height and self._is_counted(row):
            self._counted = row.number + 1
        row.gap, row.lines = gap, lines

    def top(self, row: BlockRow) -> int:
        """Return the height at which a row begins, with its gap."""
        self._number(row)
        return row.top

    def at(self, y: int) -> BlockRow | None:
        """Return the row of the line at height `y`; None beyond the end."""
        row = self._rows[self._counted - 1] if self._counted else None
        while self._counted < len(self._rows) and (row is None or row.top + row.height <= y):
            row = self._count_next()
        at = bisect_right(self._rows, y, hi=self._counted, key=lambda row: row.top)
        found = self._rows[at - 1] if at else None
        return found if found is not None and y < found.top + found.height else None

    def beside(self, row: BlockRow, step: int) -> BlockRow | None:
        at = self._number(row) + step
        return self._rows[at] if 0 <= at < len(self._rows) else None

    def is_above(self, row: BlockRow, other: BlockRow) -> bool:
        return self._number(row) < self._number(other)

    def _number(self, row: BlockRow) -> int:
        is_counted = self._is_counted(row)
        while not is_counted:
            is_counted = self._count_next() is row
        return row.number

    def _is_counted(self, row: BlockRow) -> bool:
        return row.number < self._counted and self._rows[row.number] is row

    def _count_next(self) -> BlockRow:
        row, above = self._rows[self._counted], self._rows[self._counted - 1]
        row.number = self._counted
        row.top = above.top + above.height if self._counted else 0
        self._counted += 1
        return row


_SET_IN = "│ "
"""Precedes the lines of a block that belongs to another one."""

_MOST_CACHED_LINES = 6_000
"""Drawn lines kept in memory; those of the least recently used blocks are dropped first."""

Form = Literal["open", "short", "hidden"]


class _Drawn:
    """The painted lines of a block, with the landmarks of this painting."""

    def __init__(self, block: TranscriptBlock, form: Form, strips: Sequence[Strip]) -> None:
        self.version = block.version
        self.form = form
        self.strips = strips
        self.landmarks = tuple(block.landmarks)

    @cached_property
    def logical(self) -> LogicalText:
        return LogicalText(self.strips)


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A line of a row by its number, counted from the first blank line above the block."""

    row: BlockRow
    line: int


class TranscriptLayout:
    """The blocks in order, with their heights and the drawn lines of those that were in view."""

    def __init__(self, styles: Styles, width: int = 80) -> None:
        self._styles = styles
        self._width = self._wide_width = width
        self.expanded = False
        self.rows = BlockRows()
        self._state = 0
        self._drawn: OrderedDict[BlockRow, _Drawn] = OrderedDict()
        self._cached_lines = 0

    @property
    def height(self) -> int:
        return self.rows.height

    def append(self, block: TranscriptBlock) -> None:
        row = BlockRow(block)
        self.rows.insert(row)
        self._guess(row)

    def prepend(self, blocks: Sequence[TranscriptBlock]) -> None:
        below, rows = self.rows.first, [BlockRow(block) for block in blocks]
        self.rows.prepend(rows)
        for row in rows:
            self._guess(row)
        self._fit_gap(below)

    def insert(self, before: TranscriptBlock, block: TranscriptBlock) -> None:
        below = self.rows.of(before)
        row = BlockRow(block)
        self.rows.insert(row, below)
        self._guess(row)
        self._fit_gap(below)

    def remove(self, block: TranscriptBlock) -> None:
        row = self.rows.of(block)
        below = row.below
        self.rows.remove(row)
        self._forget(row)
        # It has another neighbour now, which decides about its blank line.
        self._fit_gap(below)

    def clear(self) -> None:
        self.rows.clear()
        self._drawn.clear()
        self._cached_lines = 0

    def touch(self, block: TranscriptBlock) -> None:
        """Guess the height of a block again, as its content changed."""
        row = self.rows.of(block)
        self._guess(row)
        self._fit_gap(row.below)

    def resize(self, width: int, wide_width: int = 0) -> bool:
        """Change the width, and that of wide blocks; return whether it was another one."""
        widths = width, max(width, wide_width)
        if widths == (self._width, self._wide_width):
            return False
        self._width, self._wide_width = widths
        self._redo()
        return True

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self._redo()

    def expand_all(self, expanded: bool) -> None:
        """Open or close all blocks, also those that the person has opened or closed."""
        self.expanded = expanded
        for row in self.rows:
            row.block.is_open = None
        self._redo()

    def is_open(self, block: TranscriptBlock) -> bool:
        return self.expanded if block.is_open is None else block.is_open

    def is_hidden(self, block: TranscriptBlock) -> bool:
        """Whether the block belongs to a closed one."""
        return any(not self.is_open(group) for group in groups_of(block))

    def refold(self, block: TranscriptBlock) -> None:
        """Update the heights of a block that was opened or closed, and of its group."""
        for row in self.rows:
            if row.block is block or block in groups_of(row.block):
                self.touch(row.block)

    def settle(self, top: int, height: int, anchor: int | None = None) -> int:
        """Draw what a window of `height` lines from `top` shows; return how far to move `top`.

        The lines at height `anchor`, where the window was before, keep their place on the screen.
        After a jump of more than a window, `top` is the anchor.
        """
        if anchor is None or abs(anchor - top) > height:
            anchor = top
        moved, has_measured = 0, True
        while has_measured:
            has_measured = False
            row = self.rows.at(max(0, top + moved))
            begin = self.rows.top(row) if row else 0
            while row is not None and begin < top + moved + height:
                if row.settled != self._state:
                    has_measured = True
                    grew = self._measure(row)
                    moved += grew if begin < anchor + moved else 0
                begin += row.height
                row = row.below
        return moved

    def settle_at(self, place: LinePosition, height: int) -> int:
        """Draw a window whose first line is `place`; return the height of that line.

        A line beyond the end of its row means one of the rows below: a row may have been split.
        """
        row, line = place.row, place.line
        if row.is_gone:
            return max(0, self.height - height)
        self.settle_row(row)
        while line >= row.height and row.below is not None:
            line -= row.height
            row = row.below
            self.settle_row(row)
        seen = -line
        below: BlockRow | None = row
        while below is not None and seen < height:
            self.settle_row(below)
            seen += below.height
            below = below.below
        if seen < height:
            self.settle_end(height)
        return max(0, min(self.rows.top(row) + line, self.height - height))

    def settle_end(self, height: int) -> None:
        row, seen = self.rows.last, 0
        while row is not None and seen < height:
            self.settle_row(row)
            seen += row.height
            row = row.above

    def settle_row(self, row: BlockRow) -> None:
        """Draw a row that isn't drawn yet, unless it was removed."""
        if not row.is_gone and row.settled != self._state:
            self._measure(row)

    def find(self, y: int) -> LinePosition | None:
        """Return the line at height `y`; None beyond the end."""
        row = self.rows.at(max(0, y))
        return LinePosition(row, max(0, y) - self.rows.top(row)) if row else None

    def top(self, row: BlockRow) -> int:
        """Return the height at which a row begins; that of the end if it was removed."""
        return self.height if row.is_gone else self.rows.top(row)

    def strip_at(self, row: BlockRow, line: int) -> Strip | None:
        """Return a drawn line of a row; None if it has no such line."""
        strips = self.drawn(row).strips
        return strips[line] if 0 <= line < len(strips) else None

    def drawn(self, row: BlockRow) -> _Drawn:
        """Return the drawn lines of a row; draw them if they changed."""
        block = row.block
        form: Form = "open" if self.is_open(block) else "short"
        if self.is_hidden(block):
            form = "hidden"
        drawn = self._drawn.get(row)
        if drawn and drawn.version == block.version and drawn.form == form:
            self._drawn.move_to_end(row)
            return drawn
        self._forget(row)
        width, painted = self._width_of(block), self._paint(block, form)
        drawn = _Drawn(block, form, [pad(line, width, self._styles.text) for line in painted])
        self._drawn[row] = drawn
        self._cached_lines += len(drawn.strips)
        while self._cached_lines > _MOST_CACHED_LINES and len(self._drawn) > 1:
            _, oldest = self._drawn.popitem(last=False)
            self._cached_lines -= len(oldest.strips)
        return drawn

    def painted(self, row: BlockRow, width: int, *, expanded: bool) -> LogicalText:
        """Paint a row at another width or in another form; any thread may call this."""
        block = row.block
        landmarks = block.landmarks
        painted = block.paint(width, self._styles, expanded=expanded)
        block.landmarks = landmarks
        return LogicalText(painted)

    def _redo(self) -> None:
        self._state += 1
        self._drawn.clear()
        self._cached_lines = 0

    def _paint(self, block: TranscriptBlock, form: Form) -> Sequence[Strip]:
        if form == "hidden":
            return ()
        mark: Span = (_SET_IN * len(groups_of(block)), self._styles.markdown.line)
        width = max(1, self._width_of(block) - len(mark[0]))
        painted = block.paint(width, self._styles, expanded=form == "open")
        return [behind(mark, line) for line in painted] if mark[0] else painted

    def _gap(self, row: BlockRow) -> int:
        above, block = row.above, row.block
        if above is None or not block.gap or self.is_hidden(block):
            return 0
        while block.gathers and above.above is not None and self.is_hidden(above.block):
            above = above.above
        is_close = block.gathers and above.block.gathers and type(above.block) is type(block)
        return 0 if is_close else 1

    def _fit_gap(self, row: BlockRow | None) -> None:
        if row is not None:
            self.rows.set_height(row, self._gap(row), row.lines)

    def _width_of(self, block: TranscriptBlock) -> int:
        return self._wide_width if block.is_wide else self._width

    def _guess(self, row: BlockRow) -> None:
        row.settled = NEVER
        is_hidden = self.is_hidden(row.block)
        lines = 0 if is_hidden else row.block.guess_height(self._width_of(row.block))
        self.rows.set_height(row, self._gap(row), lines)

    def _measure(self, row: BlockRow) -> int:
        """Draw a row and set its exact height; return by how much it grew."""
        before = row.height
        row.settled = self._state
        self.rows.set_height(row, self._gap(row), len(self.drawn(row).strips))
        return row.height - before

    def _forget(self, row: BlockRow) -> None:
        if drawn := self._drawn.pop(row, None):
            self._cached_lines -= len(drawn.strips)
