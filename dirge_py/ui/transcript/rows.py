"""Blocks in their order with their heights: found by height and by block, at a cost that hardly
grows with their number. Nothing is drawn here.
"""

from collections.abc import Iterator

from dirge_py.ui.transcript.blocks import TranscriptBlock

_MOST_TOGETHER = 128
"""Rows whose heights are added up as one; twice as many are parted."""

NEVER = -1


class BlockRow:
    """One block, and the lines it takes: `gap` blank ones and its own.

    `settled`: for which state of the layout `lines` is exact; else it is a guess. `above` and
    `below` are its neighbours; a row that was taken out keeps those it had, and is `is_gone`.
    """

    __slots__ = ("above", "below", "block", "bunch", "gap", "lines", "settled")

    def __init__(self, block: TranscriptBlock) -> None:
        self.block = block
        self.gap = 0
        self.lines = 0
        self.settled = NEVER
        self.above: BlockRow | None = None
        self.below: BlockRow | None = None
        self.bunch: _Chunk | None = None

    @property
    def height(self) -> int:
        return self.gap + self.lines

    @property
    def is_gone(self) -> bool:
        return self.bunch is None


class _Chunk:
    __slots__ = ("height", "number", "rows")

    def __init__(self, number: int, rows: list[BlockRow]) -> None:
        self.number = number
        self.rows = rows
        self.height = sum(row.height for row in rows)
        for row in rows:
            row.bunch = self


class BlockRows:
    """`revision` rises with every change of order or height."""

    def __init__(self) -> None:
        self._bunches: list[_Chunk] = []
        self._by_block: dict[int, BlockRow] = {}
        self.first: BlockRow | None = None
        self.last: BlockRow | None = None
        self.height = 0
        self.revision = 0

    def __len__(self) -> int:
        return len(self._by_block)

    def __iter__(self) -> Iterator[BlockRow]:
        row = self.first
        while row is not None:
            yield row
            row = row.below

    def of(self, block: TranscriptBlock) -> BlockRow:
        """The row of a block. Raises ValueError if there is none."""
        row = self._by_block.get(id(block))
        if row is None:
            raise ValueError("the block is not in the transcript")
        return row

    def append(self, row: BlockRow) -> None:
        if not self._bunches:
            self._bunches.append(_Chunk(0, []))
        self._put(row, self._bunches[-1], len(self._bunches[-1].rows))
        row.above = self.last
        if self.last is not None:
            self.last.below = row
        self.last = row
        self.first = self.first or row

    def insert(self, row: BlockRow, before: BlockRow) -> None:
        bunch = before.bunch
        assert bunch is not None
        row.above, row.below = before.above, before
        if before.above is not None:
            before.above.below = row
        else:
            self.first = row
        before.above = row
        self._put(row, bunch, bunch.rows.index(before))

    def remove(self, row: BlockRow) -> None:
        bunch = row.bunch
        assert bunch is not None
        bunch.rows.remove(row)
        bunch.height -= row.height
        self.height -= row.height
        row.bunch = None
        del self._by_block[id(row.block)]
        if row.above is not None:
            row.above.below = row.below
        else:
            self.first = row.below
        if row.below is not None:
            row.below.above = row.above
        else:
            self.last = row.above
        if not bunch.rows:
            del self._bunches[bunch.number]
            self._number_from(bunch.number)
        self.revision += 1

    def drop(self) -> None:
        """Take all rows out, for whoever still holds one."""
        for row in self:
            row.bunch = None

    def set_height(self, row: BlockRow, gap: int, lines: int) -> None:
        change = gap + lines - row.height
        row.gap, row.lines = gap, lines
        if change and row.bunch is not None:
            row.bunch.height += change
            self.height += change
            self.revision += 1

    def top(self, row: BlockRow) -> int:
        """Height at which a row begins, its gap included."""
        bunch = row.bunch
        assert bunch is not None
        top = sum(above.height for above in self._bunches[: bunch.number])
        for other in bunch.rows:
            if other is row:
                break
            top += other.height
        return top

    def at(self, y: int) -> tuple[BlockRow, int] | None:
        """The row that the line at height `y` belongs to, and where it begins; None beyond."""
        top = 0
        for bunch in self._bunches:
            if y < top + bunch.height:
                for row in bunch.rows:
                    if y < top + row.height:
                        return row, top
                    top += row.height
            top += bunch.height
        return None

    def is_above(self, row: BlockRow, other: BlockRow) -> bool:
        """Whether `row` comes before `other`; both are there."""
        mine, others = row.bunch, other.bunch
        assert mine is not None
        assert others is not None
        if mine is not others:
            return mine.number < others.number
        return mine.rows.index(row) < mine.rows.index(other)

    def _put(self, row: BlockRow, bunch: _Chunk, at: int) -> None:
        bunch.rows.insert(at, row)
        bunch.height += row.height
        row.bunch = bunch
        self._by_block[id(row.block)] = row
        self.height += row.height
        self.revision += 1
        if len(bunch.rows) > 2 * _MOST_TOGETHER:
            half = len(bunch.rows) // 2
            parted = _Chunk(bunch.number + 1, bunch.rows[half:])
            del bunch.rows[half:]
            bunch.height -= parted.height
            self._bunches.insert(parted.number, parted)
            self._number_from(parted.number)

    def _number_from(self, number: int) -> None:
        for at in range(number, len(self._bunches)):
            self._bunches[at].number = at
