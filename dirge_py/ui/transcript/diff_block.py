"""A diff that stands for itself, in pieces, so that only what is looked at is drawn."""

from collections.abc import Sequence

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.diff import DiffLayout, is_split, paint_rows
from dirge_py.ui.transcript.diff_rows import Row, read_diff

_ROWS_OF_PIECE = 300


class DiffBlock(BlockBase):
    """Some rows of a diff, one side below the other or beside it. `continues`: it is not the first
    piece, so no blank line stands before it.
    """

    def __init__(
        self, rows: Sequence[Row], *, layout: DiffLayout = "auto", continues: bool = False
    ) -> None:
        super().__init__()
        self.gap = not continues
        self.is_wide = layout != "unified"
        self._rows = rows
        self._layout = layout

    @property
    def text(self) -> str:
        return "\n".join(row.text for row in self._rows)

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        painted = paint_rows(self._rows, width, ink, split=is_split(self._layout, width))
        self.landmarks = painted.hunks or (0,)
        return painted.strips

    def guess_height(self, width: int) -> int:
        return len(self._rows)


def diff_blocks(diff: str, layout: DiffLayout = "auto") -> list[DiffBlock]:
    """A unified diff as blocks, cut where hunks begin if possible."""
    blocks: list[DiffBlock] = []
    piece: list[Row] = []
    for row in read_diff(clean(diff).rstrip("\n")):
        is_long = len(piece) >= _ROWS_OF_PIECE and (row.opens or row.kind in ("name", "gap"))
        if is_long or len(piece) >= _ROWS_OF_PIECE * 2:
            blocks.append(DiffBlock(piece, layout=layout, continues=bool(blocks)))
            piece = []
        piece.append(row)
    if piece:
        blocks.append(DiffBlock(piece, layout=layout, continues=bool(blocks)))
    return blocks
