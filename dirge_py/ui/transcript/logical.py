"""The text of a block as it was before it was wrapped, and where each part of it was drawn."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from rich.cells import cell_len, split_graphemes
from textual.strip import Strip

from dirge_py.ui.transcript.painted import Painted

_WORD = re.compile(r"[\w./~@:+%#=\-]+")
"""What a double click takes: names, paths, numbers and addresses are one word each."""


class Logical:
    """Made from the drawn lines of a block; offsets count characters of `text`."""

    def __init__(self, strips: Sequence[Strip]) -> None:
        self._strips = strips
        self._margins: list[int] = []
        self._starts: list[int] = []
        self._matches: tuple[re.Pattern[str] | None, list[tuple[int, int]]] = (None, [])
        parts: list[str] = []
        at = 0
        for line, strip in enumerate(strips):
            margin, joint, text = _parts_of(strip)
            goes_on = line + 1 < len(strips) and _joint_of(strips[line + 1]) is not None
            text = text if goes_on else text.rstrip()
            before = "\n" if joint is None and line else joint or ""
            self._margins.append(margin)
            self._starts.append(at + len(before))
            parts += (before, text)
            at += len(before) + len(text)
        self.text = "".join(parts)

    def line_of(self, offset: int) -> int:
        """The drawn line on which a character stands."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def start_of(self, line: int) -> int:
        """The offset at which a drawn line begins; that of the end for a line that is not there."""
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def end_of(self, line: int) -> int:
        """The offset behind the last character of a drawn line."""
        if line + 1 >= len(self._starts):
            return len(self.text)
        following = self._starts[line + 1]
        joint = _joint_of(self._strips[line + 1])
        return following - (1 if joint is None else len(joint))

    def offset_at(self, line: int, cell: int) -> int:
        """The character of a drawn line that covers a column; its beginning or end beyond that."""
        if not 0 <= line < len(self._strips):
            return 0 if line < 0 else len(self.text)
        margin, start, end = self._margins[line], self._starts[line], self.end_of(line)
        text = self._strips[line].text
        left = cell - cell_len(text[:margin])
        if left <= 0:
            return start
        shown = text[margin : margin + end - start]
        if shown.isascii():
            return min(start + left, end)
        for begin, _, size in split_graphemes(shown)[0]:
            if left < size:
                return start + begin
            left -= size
        return end

    def cells_of(self, line: int, begin: int, end: int) -> tuple[int, int] | None:
        """The columns that the part of the text from `begin` to `end` takes of a drawn line."""
        start, stop = self._starts[line], self.end_of(line)
        first, last = max(begin, start), min(end, stop)
        if first > last or (first == last and begin != end):
            return None
        margin, text = self._margins[line], self._strips[line].text
        head = margin + first - start
        left = cell_len(text[:head])
        return left, left + cell_len(text[head : margin + last - start])

    def line_around(self, offset: int) -> tuple[int, int]:
        """Begin and end of the line, as it was written, that `offset` is in."""
        end = self.text.find("\n", offset)
        return self.text.rfind("\n", 0, offset) + 1, end if end >= 0 else len(self.text)

    def word_around(self, offset: int) -> tuple[int, int]:
        """Begin and end of the word at `offset`; of one character between words."""
        begin, end = self.line_around(offset)
        for found in _WORD.finditer(self.text, begin, end):
            if found.start() <= offset < found.end():
                return found.start(), found.end()
        return offset, min(offset + 1, end)

    def matches(self, pattern: re.Pattern[str]) -> Sequence[tuple[int, int]]:
        """Begin and end of everything that matches; remembered for the last pattern."""
        if self._matches[0] is not pattern:
            found = [match.span() for match in pattern.finditer(self.text)]
            self._matches = (pattern, found)
        return self._matches[1]


def _joint_of(strip: Strip) -> str | None:
    return strip.joint if isinstance(strip, Painted) else None


def _parts_of(strip: Strip) -> tuple[int, str | None, str]:
    """Margin, joint and text of a drawn line."""
    if not isinstance(strip, Painted):
        return 0, None, strip.text
    margin = min(strip.margin, strip.size)
    return margin, strip.joint, strip.text[margin : strip.size]
