"""Tables of a page as Markdown tables; the library leaves them as HTML."""

import re
import secrets
from collections.abc import Iterator
from typing import Any

from justhtml import Text

_MAX_COLUMNS = 100
_BLOCKS = frozenset(("pre", "ul", "ol", "blockquote", "h1", "h2", "h3"))


class Tables:
    """Takes tables out of a page, and puts them back into its Markdown.

    Between the two a mark stands for each, which no page can guess.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_hex(8)
        self._rendered: list[str] = []

    def take(self, table: Any, *, holds_tables: bool) -> None:
        """Replace what is in `table` by its mark. One that only lays out a page is dissolved."""
        rows = list(_rows(table))
        width = min(max((len(cells) for _, cells in rows), default=0), _MAX_COLUMNS)
        if holds_tables or width < 2 or _holds_blocks(table):
            _dissolve(table, rows)
            return
        lines = [_line([_text(cell) for cell in cells], width) for _, cells in rows if cells]
        lines.insert(1, "|" + " --- |" * width)
        self._rendered.append("\n".join(lines))
        mark = Text(f"t{self._secret}n{len(self._rendered) - 1}n")
        mark.parent = table
        table.name, table.attrs, table.children = "p", {}, [mark]

    def put_back(self, markdown: str) -> str:
        """`markdown` with the tables where their marks are."""
        return re.sub(
            rf"t{self._secret}n([0-9]+)n", lambda mark: self._rendered[int(mark[1])], markdown
        )


def _rows(table: Any) -> Iterator[tuple[Any, list[Any]]]:
    """(row, its cells) of the table itself, not of tables in it."""
    for part in table.children or ():
        rows = part.children or () if part.name in ("thead", "tbody", "tfoot") else (part,)
        for row in rows:
            if row.name == "tr":
                yield row, [cell for cell in row.children or () if cell.name in ("td", "th")]


def _line(cells: list[str], width: int) -> str:
    return f"| {' | '.join([*cells, *[''] * (width - len(cells))][:width])} |"


def _text(cell: Any) -> str:
    return " ".join(cell.to_markdown().split()).replace("|", r"\|")


def _dissolve(table: Any, rows: list[tuple[Any, list[Any]]]) -> None:
    cells = [cell for _, of_row in rows for cell in of_row]
    for part in (table, *(table.children or ()), *(row for row, _ in rows), *cells):
        if part.name != "#text":
            part.name = "div"


def _holds_blocks(table: Any) -> bool:
    waiting = [table]
    while waiting:
        node = waiting.pop()
        if node.name in _BLOCKS:
            return True
        waiting += node.children or ()
    return False
