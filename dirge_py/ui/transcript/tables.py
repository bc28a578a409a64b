"""Tables as lines: columns as wide as their cells, narrowed together when the screen is."""

from collections.abc import Sequence

from rich.cells import cell_len

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line, wrap

_GAP = " │ "
_NARROWEST = 3


def paint_table(
    rows: Sequence[Sequence[Line]], aligns: Sequence[str], *, width: int, ink: Ink
) -> list[Line]:
    """The lines of a table whose first row is its heading."""
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return []
    widths = _fit(_natural_widths(rows, count), width - len(_GAP) * (count - 1))
    lines: list[Line] = []
    for index, row in enumerate(rows):
        lines.extend(_paint_row(row, widths, aligns, ink))
        if index == 0:
            rule = "─┼─".join("─" * size for size in widths)
            lines.append([(rule, ink.dim)])
    return lines


def _natural_widths(rows: Sequence[Sequence[Line]], count: int) -> list[int]:
    widths = [1] * count
    for row in rows:
        for column, cell in enumerate(row):
            text = "".join(piece for piece, _ in cell)
            widths[column] = max(widths[column], cell_len(text))
    return widths


def _fit(widths: list[int], room: int) -> list[int]:
    """Take from the widest column, one cell at a time, until the row fits."""
    widths = [min(size, max(_NARROWEST, room)) for size in widths]
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _paint_row(
    row: Sequence[Line], widths: Sequence[int], aligns: Sequence[str], ink: Ink
) -> list[Line]:
    cells = [
        [[(s.text, s.style or ink.text) for s in line] for line in wrap(row[column], size)]
        if column < len(row)
        else []
        for column, size in enumerate(widths)
    ]
    lines: list[Line] = []
    for level in range(max(len(cell) for cell in cells)):
        line: Line = []
        for column, size in enumerate(widths):
            if column:
                line.append((_GAP, ink.dim))
            piece = cells[column][level] if level < len(cells[column]) else []
            line.extend(_aligned(piece, size, aligns[column] if column < len(aligns) else "", ink))
        lines.append(line)
    return lines


def _aligned(piece: Line, size: int, align: str, ink: Ink) -> Line:
    blank = size - sum(cell_len(text) for text, _ in piece)
    before = {"right": blank, "center": blank // 2}.get(align, 0)
    return [(" " * before, ink.text), *piece, (" " * (blank - before), ink.text)]
