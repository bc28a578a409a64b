"""Which line of which block is at which height, and what has been drawn already. No widget here.

A block is drawn only when it comes into view; until then its height is a guess. `settle` draws what
a window shows and says how far the lines at its top have moved by that, so that whoever scrolls can
move with them and the reader's place stays where it is.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import Block
from dirge_py.ui.transcript.lines import pad

_MOST_LINES_KEPT = 6_000
"""Drawn lines kept in memory; blocks out of sight for longest are drawn again when needed."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    version: int
    expanded: bool
    strips: Sequence[Strip]


class Layout:
    """The blocks in order, their heights, and the strips of those that were looked at."""

    def __init__(self, ink: Ink, width: int = 80) -> None:
        self._ink = ink
        self._width = self._wide_width = width
        self._expanded = False
        self._blocks: list[Block] = []
        self._heights: list[int] = []
        self._is_exact: list[bool] = []
        self._tops: list[int] = [0]
        self._drawn: OrderedDict[int, _Drawn] = OrderedDict()
        self._lines_kept = 0

    # -- what is in it

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    @property
    def height(self) -> int:
        return self._top(len(self._blocks))

    def append(self, block: Block) -> None:
        self._blocks.append(block)
        self._heights.append(self._guess(len(self._blocks) - 1))
        self._is_exact.append(False)

    def insert(self, before: Block, block: Block) -> None:
        """Put `block` before another one, which must be there."""
        index = self.index(before)
        self._blocks.insert(index, block)
        self._heights.insert(index, 1)
        self._is_exact.insert(index, False)
        # Drawn lines are kept by position, and every later position has changed.
        for later in range(index, len(self._blocks)):
            self._forget(later)
        self._heights[index] = self._guess(index)
        self._stale_from(index)

    def remove(self, block: Block) -> None:
        index = self.index(block)
        for later in range(index, len(self._blocks)):
            self._forget(later)
        del self._blocks[index], self._heights[index], self._is_exact[index]
        if index < len(self._blocks):
            # Another one stands above it now, and with that the blank line may come or go.
            self._is_exact[index] = False
            self._heights[index] = self._guess(index)
        self._stale_from(index)

    def clear(self) -> None:
        for kept in (self._blocks, self._heights, self._is_exact, self._drawn):
            kept.clear()
        self._tops = [0]
        self._lines_kept = 0

    def index(self, block: Block) -> int:
        """Its position; blocks that change are near the end, so it is looked for from there."""
        for index in range(len(self._blocks) - 1, -1, -1):
            if self._blocks[index] is block:
                return index
        raise ValueError("the block is not in the transcript")

    def is_above(self, block: Block, other: Block) -> bool:
        """Whether `block` comes before `other`; looked for from the end, to the first of both."""
        for known in reversed(self._blocks):
            if known is block or known is other:
                return known is other and block is not other
        raise ValueError("neither block is in the transcript")

    # -- what changes all of it

    def resize(self, width: int, wide_width: int = 0) -> bool:
        """Wrap everything for another width; False if it is the same.

        Blocks that are wide get `wide_width` columns, if that is more.
        """
        widths = width, max(width, wide_width)
        if widths == (self._width, self._wide_width):
            return False
        self._width, self._wide_width = widths
        self._redo()
        return True

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self._redo()

    @property
    def expanded(self) -> bool:
        return self._expanded

    def expand_all(self, expanded: bool) -> None:
        """Show everything, or only the short forms; what was opened by hand follows too."""
        self._expanded = expanded
        for block in self._blocks:
            block.is_open = None
        self._redo()

    def touch(self, block: Block) -> None:
        """Its content changed; its height is a guess again, unless it was never drawn."""
        index = self.index(block)
        self._is_exact[index] = False
        self._set_height(index, self._guess(index))

    # -- looking at it

    def settle(self, top: int, height: int, anchor: int | None = None) -> int:
        """Draw what a window of `height` lines from `top` shows; returns how far to move `top`.

        `anchor` is the height whose lines shall stay where they are on the screen: where the window
        was before it was scrolled to `top`. After a long jump nothing can stay, so it is `top`.
        """
        if anchor is None or abs(anchor - top) > height:
            anchor = top
        moved, found_new = 0, True
        while found_new:
            step, found_new = self._settle_once(top + moved, height, anchor + moved)
            moved += step
        return moved

    def _settle_once(self, top: int, height: int, anchor: int) -> tuple[int, bool]:
        moved, found_new = 0, False
        index = self.index_at(top)
        while index < len(self._blocks) and self._top(index) < top + moved + height:
            if not self._is_exact[index]:
                was_above = self._top(index) < anchor + moved
                grew = self._measure(index)
                found_new = True
                if was_above:
                    moved += grew
            index += 1
        return moved, found_new

    def settle_end(self, height: int) -> None:
        """Draw the last `height` lines."""
        index, seen = len(self._blocks) - 1, 0
        while index >= 0 and seen < height:
            if not self._is_exact[index]:
                self._measure(index)
            seen += self._heights[index]
            index -= 1

    def line(self, y: int) -> Strip | None:
        """The strip at height `y`; None for a blank line, or beyond the end."""
        index = self.index_at(y)
        if index >= len(self._blocks):
            return None
        strips = self._strips(index)
        at = y - self._top(index) - self._gap(index)
        return strips[at] if 0 <= at < len(strips) else None

    def index_at(self, y: int) -> int:
        """Which block height `y` belongs to; the number of blocks when beyond the end."""
        self._top(len(self._blocks))
        return min(bisect_right(self._tops, max(0, y)) - 1, len(self._blocks))

    def top_of(self, index: int) -> int:
        """The height at which a block begins; the whole height when there is no such block."""
        return self._top(min(index, len(self._blocks)))

    def texts(self, first: int, last: int) -> Iterator[str]:
        """The plain text of the lines from `first` to `last`, for copying."""
        for y in range(first, min(last + 1, self.height)):
            strip = self.line(y)
            yield strip.text.rstrip() if strip else ""

    # -- inside

    def _redo(self) -> None:
        self._drawn.clear()
        self._lines_kept = 0
        for index in range(len(self._blocks)):
            self._is_exact[index] = False
            self._heights[index] = self._guess(index)
        self._stale_from(0)

    def _gap(self, index: int) -> int:
        if index == 0:
            return 0
        above, block = self._blocks[index - 1], self._blocks[index]
        is_close = block.gathers and above.gathers and type(above) is type(block)
        return 0 if is_close or not block.gap else 1

    def _is_open(self, block: Block) -> bool:
        return self._expanded if block.is_open is None else block.is_open

    def _width_of(self, block: Block) -> int:
        return self._wide_width if block.is_wide else self._width

    def _guess(self, index: int) -> int:
        block = self._blocks[index]
        return self._gap(index) + block.guess_height(self._width_of(block))

    def _measure(self, index: int) -> int:
        """Draw a block and note its true height; returns by how much it grew."""
        before = self._heights[index]
        self._is_exact[index] = True
        self._set_height(index, self._gap(index) + len(self._strips(index)))
        return self._heights[index] - before

    def _set_height(self, index: int, height: int) -> None:
        if self._heights[index] != height:
            self._heights[index] = height
            self._stale_from(index)

    def _stale_from(self, index: int) -> None:
        del self._tops[index + 1 :]

    def _top(self, index: int) -> int:
        """Height at which a block begins, its gap included."""
        while len(self._tops) <= index:
            self._tops.append(self._tops[-1] + self._heights[len(self._tops) - 1])
        return self._tops[index]

    def _strips(self, index: int) -> Sequence[Strip]:
        block = self._blocks[index]
        is_open = self._is_open(block)
        drawn = self._drawn.get(index)
        if drawn and drawn.version == block.version and drawn.expanded == is_open:
            self._drawn.move_to_end(index)
            return drawn.strips
        self._forget(index)
        width = self._width_of(block)
        painted = block.paint(width, self._ink, expanded=is_open)
        strips = [pad(line, width, self._ink.text) for line in painted]
        self._drawn[index] = _Drawn(block.version, is_open, strips)
        self._lines_kept += len(strips)
        while self._lines_kept > _MOST_LINES_KEPT and len(self._drawn) > 1:
            _, oldest = self._drawn.popitem(last=False)
            self._lines_kept -= len(oldest.strips)
        return strips

    def _forget(self, index: int) -> None:
        drawn = self._drawn.pop(index, None)
        if drawn:
            self._lines_kept -= len(drawn.strips)
