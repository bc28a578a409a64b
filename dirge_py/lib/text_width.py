"""The width of text in terminal cells, and cutting and wrapping by that measure.

Everything counts graphemes, so a flag, a family or a letter with its accents is never split. The
text has to be cleaned before (`lib/text.py`); tabs count as one cell. The tables of wcwidth, a
hundredth of a second, are imported for the first text that is not ASCII.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence


def cell_width(text: str) -> int:
    """Return the cells that `text` takes on one line."""
    return len(text) if text.isascii() else sum(map(_grapheme_width, _graphemes(text)))


def _graphemes(text: str) -> Iterable[str]:
    if text.isascii():
        return text
    from wcwidth import iter_graphemes

    return iter_graphemes(text)


def _grapheme_width(grapheme: str) -> int:
    """Return the cells of one grapheme; 0 for characters that terminals don't print."""
    if grapheme.isascii():
        return len(grapheme)
    from wcwidth import wcswidth

    return max(0, wcswidth(grapheme))


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` cells; `…` stands for the removed end."""
    if cell_width(text) <= width:
        return text
    if width < 1:
        return ""
    used = end = 0
    for grapheme in _graphemes(text):
        used += _grapheme_width(grapheme)
        if used > width - 1:
            break
        end += len(grapheme)
    return text[:end] + "…"


def align_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return each row as one line; the cells of the columns in `right` end at the same place."""
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (width - cell_width(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [
            blank + cell if number in right else cell + blank
            for number, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of `text`, each at most `width` cells, broken at blanks if possible.

    Blanks at a break are dropped, all others stay. A grapheme wider than `width` has its own line.
    """
    return [piece for line in text.split("\n") for piece in _wrap_line(line, max(1, width))]


def _wrap_line(line: str, width: int) -> Iterator[str]:
    if len(line) <= width and line.isascii():
        yield line
        return
    start = end = used = 0
    break_at = -1  # the last blank after a word; a break inside the indentation would lose it
    has_word = False
    for grapheme in _graphemes(line):
        size = _grapheme_width(grapheme)
        while used + size > width and end > start:
            stop = break_at if grapheme != " " and break_at > start else end
            yield line[start:stop].rstrip(" ") if has_word else line[start:stop]
            start = stop + 1 if stop == break_at else stop
            used, break_at, has_word = cell_width(line[start:end]), -1, start < end
        if grapheme == " " and end == start > 0:
            start = end = end + 1
            continue
        if grapheme != " ":
            has_word = True
        elif has_word:
            break_at = end
        end += len(grapheme)
        used += size
    if start < end or not line:
        yield line[start:end]
