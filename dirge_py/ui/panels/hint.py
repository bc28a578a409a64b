"""The line below a question that names its keys: none of them is ever shown by half."""

from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len
from textual.strip import Strip

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import chop, clip, strip

KeyHint: TypeAlias = tuple[str, str]
"""A key and what it does, and the same in as few words as will do where there is no room."""

_JOINT = " · "


def paint_hint(
    hints: Sequence[KeyHint], width: int, ink: Ink, *, most: int = 2, indent: str = ""
) -> list[Strip]:
    """The keys in at most `most` lines. Where they do not fit in full, in short; then the last
    ones, which matter least, are left out.
    """
    room = max(1, width - len(indent))
    kept = len(hints)
    rows = _packed([long for long, _ in hints], room)
    while not _fits(rows, room, most) and kept:
        rows = _packed([short for _, short in hints[:kept]], room)
        kept -= 1
    shown = rows if _fits(rows, room, most) else [chop(rows[0], room)[0]]
    return [strip([(indent + row, ink.dim)]) for row in shown]


def fitted(text: str, width: int) -> str:
    """As many of the keys in `text` as fit into a line; a text of another kind is clipped."""
    rows = _packed(text.split(_JOINT), width)
    return rows[0] if cell_len(rows[0]) <= width else clip(text, width)


def _fits(rows: Sequence[str], room: int, most: int) -> bool:
    return len(rows) <= most and all(cell_len(row) <= room for row in rows)


def _packed(parts: Sequence[str], room: int) -> list[str]:
    """As many on a line as fit."""
    rows: list[str] = []
    for part in parts:
        if rows and cell_len(rows[-1] + _JOINT + part) <= room:
            rows[-1] += _JOINT + part
        else:
            rows.append(part)
    return rows
